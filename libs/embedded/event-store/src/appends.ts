import type { ServerDuplexStream, ServerReadableStream, sendUnaryData } from '@grpc/grpc-js';
import { type BatchOptions, decodeBatchRequest } from './batch-request.js';
import { batchFailure, batchNoEvents, batchRefusal } from './batch-answers.js';
import {
  accessDenied,
  failureOf,
  invalidArgument,
  maximumAppendSizeExceeded,
  streamDeleted,
} from './errors.js';
import type { OpenCalls, Outlet } from './outlet.js';
import { InvalidRequest, countedSize, proposed, streamName, uuidBytes, uuidFromHalves } from './proposed.js';
import { shared, streams } from './protocol.js';
import type { Answer, EventStore, ProposedEvent } from './store.js';
import type { Expected } from './streams.js';
import { encodeBatchSuccess } from './wire.js';

/** How long an append may take to arrive in full, whatever its deadline: milliseconds. */
const ARRIVAL_LIMIT = 2000;
const ALL = '$all';

interface Assembly {
  readonly correlation: Buffer;
  readonly stream: string;
  readonly options: BatchOptions;
  readonly events: ProposedEvent[];
  size: number;
  timer: NodeJS.Timeout | undefined;
}

/**
 * `Streams/BatchAppend`, sections 2.1 and 2.5. Every correlation id gets exactly one answer; refusals are answers,
 * so that one append never disturbs another. While the disk or the client is behind, no more input is taken.
 */
export class BatchAppendCall {
  private readonly outlet: Outlet;
  private readonly assembling = new Map<string, Assembly>();
  private unanswered = 0;
  private ended = false;
  private paused = false;

  constructor(
    private readonly call: ServerDuplexStream<Buffer, Buffer>,
    private readonly store: EventStore,
    private readonly maxAppendBytes: number,
    calls: OpenCalls,
  ) {
    this.outlet = calls.open(call);
    this.outlet.whenClosed(() => this.forgetAll());
    call.on('data', (message: Buffer) => this.receive(message));
    call.on('end', () => {
      this.ended = true;
      this.endIfDone();
    });
  }

  private receive(message: Buffer): void {
    if (this.outlet.closed) return;
    try {
      const chunk = decodeBatchRequest(message);
      const key = chunk.correlation.toString('latin1');
      const assembly =
        this.assembling.get(key) ?? (chunk.options && this.begin(chunk.correlation, chunk.options));
      if (assembly) this.take(assembly, key, chunk.events, chunk.final);
    } catch (error) {
      this.outlet.fail(invalidArgument(error instanceof Error ? error.message : String(error)));
    }
  }

  private begin(correlation: Buffer, options: BatchOptions): Assembly | undefined {
    const left = options.deadline === undefined ? ARRIVAL_LIMIT : options.deadline - Date.now();
    try {
      const stream = streamName(options.stream);
      if (left > 0 && stream !== ALL)
        return { correlation, stream, options, events: [], size: 0, timer: undefined };
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
    if (assembly.timer) return;
    this.assembling.set(key, assembly);
    const left = (assembly.options.deadline ?? Infinity) - Date.now();
    assembly.timer = setTimeout(
      () =>
        this.refuse(assembly, key, batchFailure(assembly.correlation, assembly.options.stream, 'timeout')),
      Math.min(left, ARRIVAL_LIMIT),
    );
  }

  private refuse(assembly: Assembly, key: string, answer: Buffer): void {
    this.forget(assembly, key);
    this.outlet.write(answer);
    this.endIfDone();
  }

  private append(assembly: Assembly, key: string): void {
    this.forget(assembly, key);
    const { correlation, options } = assembly;
    this.unanswered += 1;
    this.store.append(assembly.stream, options.expected, assembly.events).then(
      (answer) => this.answer(batchAnswer(correlation, options, answer)),
      (error: unknown) =>
        this.answer(batchFailure(correlation, options.stream, 'unavailable', messageOf(error))),
    );
    this.pauseWhileBehind();
  }

  private answer(message: Buffer): void {
    this.unanswered -= 1;
    this.outlet.write(message);
    this.endIfDone();
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
    this.assembling.delete(key);
    clearTimeout(assembly.timer);
  }

  private forgetAll(): void {
    for (const [key, assembly] of this.assembling) this.forget(assembly, key);
  }

  private endIfDone(): void {
    if (this.ended && this.unanswered === 0 && this.assembling.size === 0) this.outlet.end();
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function batchAnswer(correlation: Buffer, options: BatchOptions, answer: Answer): Buffer {
  if (answer.kind !== 'written') return batchRefusal(correlation, options, answer);
  if (answer.revision < 0) return batchNoEvents(correlation, options.stream, answer.position);
  return encodeBatchSuccess(correlation, options.stream, answer.revision, answer.position);
}

type AppendCall = ServerReadableStream<
  InstanceType<typeof streams.AppendReq>,
  InstanceType<typeof streams.AppendResp>
>;
type AppendCallback = sendUnaryData<InstanceType<typeof streams.AppendResp>>;

/** `Streams/Append`, section 2.1: options, then one message an event; a wrong expected version is an answer. */
export function classicAppend(
  store: EventStore,
  maxAppendBytes: number,
  call: AppendCall,
  callback: AppendCallback,
): void {
  let target: { stream: string; expected: Expected } | undefined;
  const events: ProposedEvent[] = [];
  let size = 0;
  let done = false;
  const finish: AppendCallback = (error, value) => {
    if (done) return;
    done = true;
    callback(error, value);
  };
  call.on('data', (request: InstanceType<typeof streams.AppendReq>) => {
    if (done) return;
    try {
      const options = request.getOptions();
      if (options) target = appendTarget(options);
      const event = options ? undefined : classicEvent(request);
      if (event) events.push(event);
      size += event ? countedSize(event) : 0;
      if (target?.stream === ALL) finish(accessDenied());
      else if (size > maxAppendBytes) finish(maximumAppendSizeExceeded(maxAppendBytes));
    } catch (error) {
      finish(failureOf(error));
    }
  });
  call.on('error', () => (done = true));
  call.on('end', () => {
    if (done) return;
    if (!target) return finish(invalidArgument('the first message of an append must carry its options'));
    const { stream, expected } = target;
    store.append(stream, expected, events).then(
      (answer) =>
        answer.kind === 'stream-deleted'
          ? finish(streamDeleted(stream))
          : finish(null, appendResponse(expected, answer)),
      (error: unknown) => finish(failureOf(error)),
    );
  });
}

function appendTarget(options: InstanceType<typeof streams.AppendReq.Options>): {
  stream: string;
  expected: Expected;
} {
  const stream = streamName(options.getStreamIdentifier()?.getStreamName_asU8() ?? new Uint8Array());
  return { stream, expected: expectedOf(options) };
}

interface Expectation {
  hasAny(): boolean;
  hasNoStream(): boolean;
  hasStreamExists(): boolean;
  getRevision(): string;
}

/** The expectation of an append, delete or tombstone request. */
export function expectedOf(options: Expectation): Expected {
  if (options.hasAny()) return 'any';
  if (options.hasNoStream()) return 'no_stream';
  return options.hasStreamExists() ? 'stream_exists' : BigInt(options.getRevision());
}

function classicEvent(request: InstanceType<typeof streams.AppendReq>): ProposedEvent {
  const message = request.getProposedMessage();
  if (!message) throw new InvalidRequest('an append message must carry options or an event');
  const entries = message.getMetadataMap();
  const type = entries.get('type');
  return proposed({
    id: uuidOf(message.getId()),
    type: type === undefined ? undefined : Buffer.from(type),
    contentType: entries.get('content-type'),
    metadata: Buffer.from(message.getCustomMetadata_asU8()),
    data: Buffer.from(message.getData_asU8()),
  });
}

function uuidOf(id: InstanceType<typeof shared.UUID> | undefined): Buffer | undefined {
  const halves = id?.getStructured();
  if (halves)
    return uuidFromHalves(BigInt(halves.getMostSignificantBits()), BigInt(halves.getLeastSignificantBits()));
  return id && uuidBytes(id.getString());
}

function appendResponse(
  expected: Expected,
  answer: Exclude<Answer, { kind: 'stream-deleted' }>,
): InstanceType<typeof streams.AppendResp> {
  const response = new streams.AppendResp();
  if (answer.kind === 'wrong-revision')
    return response.setWrongExpectedVersion(wrongVersion(expected, answer.last));
  const success = new streams.AppendResp.Success();
  if (answer.revision < 0) success.setNoStream(new shared.Empty());
  else success.setCurrentRevision(String(answer.revision));
  const position = new streams.AppendResp.Position();
  position.setCommitPosition(String(answer.position)).setPreparePosition(String(answer.position));
  return response.setSuccess(success.setPosition(position));
}

function wrongVersion(
  expected: Expected,
  last: number,
): InstanceType<typeof streams.AppendResp.WrongExpectedVersion> {
  const wrong = new streams.AppendResp.WrongExpectedVersion();
  if (last < 0) wrong.setCurrentNoStream(new shared.Empty());
  else wrong.setCurrentRevision(String(last));
  if (expected === 'any') return wrong.setExpectedAny(new shared.Empty());
  if (expected === 'no_stream') return wrong.setExpectedNoStream(new shared.Empty());
  if (expected === 'stream_exists') return wrong.setExpectedStreamExists(new shared.Empty());
  return wrong.setExpectedRevision(String(expected));
}
