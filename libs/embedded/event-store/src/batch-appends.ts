import type { AccessLists } from './access/lists.js';
import { batchFailure, batchNoEvents, batchRefusal } from './batch-answers.js';
import { type BatchOptions, decodeBatchRequest } from './batch-request.js';
import { invalidArgument, messageOf } from './errors.js';
import type { OpenCalls, Outlet } from './outlet.js';
import { countedSize, proposed, refusesWrites, streamName } from './proposed.js';
import type { ProposedEvent } from './record.js';
import type { RpcCall } from './rpc-call.js';
import type { Answer, EventStore } from './store.js';
import { encodeBatchSuccess } from './wire.js';

/** How long an append may take to arrive in full, whatever its deadline: milliseconds. */
const ARRIVAL_LIMIT = 2000;

/** How often appends that wait for the disk are looked at for their deadlines: milliseconds. */
const OVERDUE_TICK = 500;

/** What one call may leave unfinished: appends, and bytes of them together unless one append is larger. */
const UNFINISHED_APPENDS = 64;
const UNFINISHED_BYTES = 20 * 1024 * 1024;

/** What an event takes of memory beside its bytes. */
export const EVENT_OVERHEAD = 512;

/** An append that the store has and has not answered. */
type Pending = Pick<Assembly, 'correlation' | 'options'>;

interface Assembly {
  readonly correlation: Buffer;
  readonly stream: string;
  readonly options: BatchOptions;
  readonly events: ProposedEvent[];
  size: number;
  /** Bytes of its chunks, which its events keep in memory. */
  held: number;
  timer: NodeJS.Timeout | undefined;
}

export interface BatchAppendOptions {
  readonly store: EventStore;
  readonly maxAppendBytes: number;
  readonly calls: OpenCalls;
  readonly access: AccessLists;
}

/**
 * `Streams/BatchAppend`, sections 2.1 and 2.5. Every correlation id gets exactly one answer; refusals are answers,
 * so that one append never disturbs another. While the disk or the client is behind, no more input is taken.
 */
export class BatchAppendCall {
  private readonly store: EventStore;
  private readonly maxAppendBytes: number;
  private readonly access: AccessLists;
  private readonly outlet: Outlet;
  private readonly assembling = new Map<string, Assembly>();
  private readonly pending = new Set<Pending>();
  private overdueTimer: NodeJS.Timeout | undefined;
  private ended = false;
  private paused = false;

  constructor(
    private readonly call: RpcCall<Buffer, Buffer>,
    { store, maxAppendBytes, calls, access }: BatchAppendOptions,
  ) {
    this.store = store;
    this.maxAppendBytes = maxAppendBytes;
    this.access = access;
    this.outlet = calls.open(call);
    this.outlet.whenClosed(() => this.forgetAll());
    call.on('data', (message: Buffer) => this.receive(message));
    call.on('end', () => {
      this.ended = true;
      this.endIfDone();
    });
  }

  /** What arrives while the store stops is answered by the end of the call, which the client knows as UNAVAILABLE. */
  private receive(message: Buffer): void {
    if (this.outlet.closed || this.store.draining) return;
    try {
      const chunk = decodeBatchRequest(message);
      const key = chunk.correlation.toString('latin1');
      const assembly =
        this.assembling.get(key) ?? (chunk.options && this.begin(chunk.correlation, chunk.options));
      if (assembly) {
        const bytes = message.length + EVENT_OVERHEAD * chunk.events.length;
        if (!this.call.hold(bytes)) return;
        assembly.held += bytes;
        this.take(assembly, key, chunk.events, chunk.final);
      }
    } catch (error) {
      this.outlet.fail(invalidArgument(messageOf(error)));
    }
    this.pauseWhileBehind();
  }

  private begin(correlation: Buffer, options: BatchOptions): Assembly | undefined {
    const left = options.deadline === undefined ? ARRIVAL_LIMIT : options.deadline - Date.now();
    try {
      const stream = streamName(options.stream);
      const { caller } = this.call;
      if (left > 0 && !refusesWrites(stream) && this.access.may(caller, '$w', stream))
        return { correlation, stream, options, events: [], size: 0, held: 0, timer: undefined };
      this.outlet.write(batchFailure(correlation, options.stream, left > 0 ? 'access-denied' : 'timeout'));
    } catch (error) {
      this.outlet.write(batchFailure(correlation, options.stream, 'bad-request', messageOf(error)));
    }
    return undefined;
  }

  private take(
    assembly: Assembly,
    key: string,
    events: ReturnType<typeof decodeBatchRequest>['events'],
    final: boolean,
  ): void {
    try {
      for (const raw of events) {
        const event = proposed(raw);
        assembly.size += countedSize(event);
        assembly.events.push(event);
      }
    } catch (error) {
      return this.refuse(
        assembly,
        key,
        batchFailure(assembly.correlation, assembly.options.stream, 'bad-request', messageOf(error)),
      );
    }
    if (assembly.size > this.maxAppendBytes)
      return this.refuse(
        assembly,
        key,
        batchFailure(assembly.correlation, assembly.options.stream, 'too-large', '', this.maxAppendBytes),
      );
    if (final) this.append(assembly, key);
    else this.await(assembly, key);
  }

  /** The rest must arrive in time; what comes after an answer is ignored. */
  private await(assembly: Assembly, key: string): void {
    const excess = this.excess(assembly, key);
    if (excess) {
      const { correlation, options } = assembly;
      return this.refuse(assembly, key, batchFailure(correlation, options.stream, 'bad-request', excess));
    }
    if (assembly.timer) return;
    this.assembling.set(key, assembly);
    const left = (assembly.options.deadline ?? Infinity) - Date.now();
    assembly.timer = setTimeout(
      () =>
        this.refuse(assembly, key, batchFailure(assembly.correlation, assembly.options.stream, 'timeout')),
      Math.min(left, ARRIVAL_LIMIT),
    );
  }

  /** Why this append may not stay unfinished beside the others of its call. */
  private excess(assembly: Assembly, key: string): string | undefined {
    if (this.assembling.size >= UNFINISHED_APPENDS && !this.assembling.has(key))
      return `a call may have at most ${UNFINISHED_APPENDS} unfinished appends`;
    let others = 0;
    for (const one of this.assembling.values()) if (one !== assembly) others += one.held;
    const limit = Math.max(UNFINISHED_BYTES, 2 * this.maxAppendBytes);
    if (others === 0 || others + assembly.held <= limit) return undefined;
    return `the unfinished appends of a call may hold at most ${limit} bytes together`;
  }

  private refuse(assembly: Assembly, key: string, answer: Buffer): void {
    this.forget(assembly, key);
    this.outlet.write(answer);
    this.endIfDone();
  }

  private append(assembly: Assembly, key: string): void {
    this.forget(assembly, key);
    const { correlation, options } = assembly;
    const pending: Pending = { correlation, options };
    this.pending.add(pending);
    this.store.append(assembly.stream, options.expected, assembly.events).then(
      (answer) => this.answer(pending, batchAnswer(correlation, options, answer)),
      (error: unknown) =>
        this.answer(pending, batchFailure(correlation, options.stream, 'unavailable', messageOf(error))),
    );
    if (options.deadline !== undefined) this.awaitOverdue();
  }

  /** The first answer counts; none follows it. */
  private answer(pending: Pending, message: Buffer): void {
    if (!this.pending.delete(pending)) return;
    this.outlet.write(message);
    this.endIfDone();
  }

  /** A client has no clock of its own for this: what the disk holds up longer than asked is answered as a timeout. */
  private awaitOverdue(): void {
    this.overdueTimer ??= setTimeout(() => {
      this.overdueTimer = undefined;
      const now = Date.now();
      for (const one of this.pending)
        if ((one.options.deadline ?? Infinity) <= now)
          this.answer(one, batchFailure(one.correlation, one.options.stream, 'timeout'));
      if (this.pending.size > 0) this.awaitOverdue();
    }, OVERDUE_TICK);
  }

  private pauseWhileBehind(): void {
    if (this.paused || !(this.store.overloaded || this.outlet.full)) return;
    this.paused = true;
    this.call.pause();
    void Promise.all([this.store.hasRoom(), this.outlet.room()]).then(() => {
      this.paused = false;
      this.call.resume();
    });
  }

  private forget(assembly: Assembly, key: string): void {
    this.call.release(assembly.held);
    this.assembling.delete(key);
    clearTimeout(assembly.timer);
  }

  private forgetAll(): void {
    for (const [key, assembly] of this.assembling) this.forget(assembly, key);
    clearTimeout(this.overdueTimer);
    this.overdueTimer = undefined;
    this.pending.clear();
  }

  private endIfDone(): void {
    if (this.ended && this.pending.size === 0 && this.assembling.size === 0) this.outlet.end();
  }
}

function batchAnswer(correlation: Buffer, options: BatchOptions, answer: Answer): Buffer {
  if (answer.kind !== 'written') return batchRefusal(correlation, options, answer);
  if (answer.revision < 0) return batchNoEvents(correlation, options.stream, answer.position);
  return encodeBatchSuccess(correlation, options.stream, answer.revision, answer.position);
}
