import type { DomainEvent } from '#libs/decider';
import type { Vault } from '#libs/vault';
import { type Appends, ClientAppends } from './appends.js';
import { Connection, type Delivery } from './connection.js';
import { type StoredEvent, streamName } from './envelope.js';
import { Folds, type Notice } from './folds.js';
import { type CommandCall, type Handled, handleCommand } from './handle-command.js';
import { Lanes } from './lanes.js';
import { openEvent, type PayloadReader } from './open-event.js';
import type { Snapshots } from './snapshots.js';
import type { StreamKind } from './stream-kind.js';
import { type SubscribeOptions, silentThrough, subscribe } from './subscription.js';

export interface EventStoreOptions {
  /** `esdb://host:port?tls=false`, as the client takes it. */
  readonly url: string;
  readonly vault: Vault;
  readonly snapshots?: Snapshots;
  readonly payloads?: PayloadReader;
  /** What one append may have, in bytes (1 MiB, which is what servers take by default). */
  readonly maxAppendBytes?: number;
  /** How many streams' folds are kept at most (10,000), within 512 MiB by a rough count. */
  readonly cachedStreams?: number;
  /** Within which the store answers, in milliseconds (4,000), before it counts as unavailable. */
  readonly answerMs?: number;
  /** What appends, where it is not a client of this thread's own. Closed with the store. */
  readonly appends?: Appends;
  readonly onNotice?: Notice;
}

/** A stream folded: a copy for the caller. */
export interface FoldedStream<State> {
  readonly state: State;
  readonly revision: bigint;
  readonly position: bigint;
}

/** The streams of an installation. One for a thread: see `ClientAppends`. */
export class EventStore {
  private readonly lanes = new Lanes();
  private readonly folds: Folds;
  private readonly closing = new AbortController();

  private constructor(
    private readonly connection: Connection,
    private readonly appends: Appends,
    private readonly options: Required<
      Omit<EventStoreOptions, 'snapshots' | 'payloads' | 'url' | 'answerMs' | 'appends'>
    > &
      Pick<EventStoreOptions, 'payloads'>,
    snapshots: Snapshots | undefined,
  ) {
    this.folds = new Folds({ connection, snapshots, ...options });
  }

  /** Ready to use; the store itself may come up later. */
  static async connect(given: EventStoreOptions): Promise<EventStore> {
    const { url, snapshots, answerMs, appends = new ClientAppends(url, answerMs), ...options } = given;
    const defaults = { maxAppendBytes: 1024 * 1024, cachedStreams: 10_000, onNotice: () => undefined };
    return new EventStore(new Connection(url, answerMs), appends, { ...defaults, ...options }, snapshots);
  }

  /** Handles a command: see `handleCommand`. */
  handle<State, Command, Event extends DomainEvent, Answer>(
    kind: StreamKind<State, Command, Event>,
    call: CommandCall<State, Command, Answer>,
  ): Promise<Handled<Answer>> {
    const { appends, folds, lanes } = this;
    return handleCommand({ appends, folds, lanes, ...this.options }, kind, call);
  }

  /**
   * A stream as it now stands, whoever wrote to it, or as it stood at a revision (`upTo`, included); `undefined` if
   * there is none. The state is the caller's own. With `despiteUnopenable` what does not open stands sealed in it.
   *
   * @throws StoreUnavailable, UnknownStoredEvent, UnreadableEvent
   */
  async fold<State, Command, Event extends DomainEvent>(
    kind: StreamKind<State, Command, Event>,
    tenant: string,
    id: string,
    { upTo, despiteUnopenable = false }: { upTo?: bigint; despiteUnopenable?: boolean } = {},
  ): Promise<FoldedStream<State> | undefined> {
    const stream = streamName(kind.category, tenant, id);
    if (upTo !== undefined) {
      const { state, revision, position, unopenable } = await this.folds.asOf(kind, stream, upTo);
      if (unopenable && !despiteUnopenable) throw unopenable;
      return revision < 0n ? undefined : { state, revision, position };
    }
    return this.lanes.run(stream, async () => {
      const { fold, fresh } = await this.folds.current(kind, stream);
      const { state, revision, position, unopenable } = fresh ? fold : await this.folds.refresh(kind, fold);
      if (unopenable && !despiteUnopenable) throw unopenable;
      return revision < 0n ? undefined : { state: structuredClone(state), revision, position };
    });
  }

  /** The events of a stream as stored, between two revisions (both included); none if there is no such stream. */
  read(stream: string, { from, to }: { from?: bigint; to?: bigint } = {}): AsyncIterable<StoredEvent> {
    return this.connection.read(stream, from, to);
  }

  /** The event with its personal fields opened. @throws UnreadableEvent */
  open(event: StoredEvent): Promise<StoredEvent> {
    return openEvent(this.options.vault, event, this.options.payloads);
  }

  /** Hears the streams of a prefix from a position on: see `subscribe`. Ends when the store is closed, too. */
  subscribe(options: SubscribeOptions): AsyncIterable<Delivery> {
    return subscribe(
      this.connection,
      { ...options, signal: this.until(options.signal) },
      this.options.onNotice,
    );
  }

  /** How far nothing is heard after a position: see `silentThrough`. @throws StoreUnavailable */
  silentThrough(options: SubscribeOptions & { readonly after: bigint }): Promise<bigint> {
    return silentThrough(this.connection, { ...options, signal: this.until(options.signal) });
  }

  private until(signal: AbortSignal): AbortSignal {
    return AbortSignal.any([signal, this.closing.signal]);
  }

  /** The position of the log's last event; 0 if it is empty. @throws StoreUnavailable */
  head(): Promise<bigint> {
    return this.connection.head();
  }

  /** @throws StoreUnavailable unless the store answers, within seconds. */
  async ping(): Promise<void> {
    await this.connection.head();
  }

  /** Waits for commands that are being handled and for snapshots that are being saved; ends subscriptions. */
  async close(): Promise<void> {
    this.closing.abort();
    await this.lanes.idle();
    await this.folds.settle();
    await Promise.all([this.appends.close(), this.connection.close()]);
  }
}
