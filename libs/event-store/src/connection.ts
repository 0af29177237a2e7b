import {
  type AllStreamResolvedEvent,
  type AllStreamSubscription,
  BACKWARDS,
  CancelledError,
  DeadlineExceededError,
  END,
  EventStoreDBClient,
  MaxAppendSizeExceededError,
  NO_STREAM,
  NotLeaderError,
  type RecordedEvent,
  START,
  StreamDeletedError,
  StreamNotFoundError,
  TimeoutError,
  UnavailableError,
  WrongExpectedVersionError,
  streamNameFilter,
} from '@eventstore/db-client';
import { type Envelope, type JsonObject, type StoredEvent, streamParts } from './envelope.js';
import { StoreUnavailable, StreamNotFound } from './errors.js';
import { Slots } from './slots.js';

/** Someone appended since the revision that was read; nothing was written. */
export class LostRace extends Error {}

/** No answer that tells: what was sent may be written, or be written yet. */
export class UncertainAppend extends Error {}

/** An item of a subscription to the log, in its order. */
export type Delivery =
  | { readonly kind: 'event'; readonly event: StoredEvent }
  | { readonly kind: 'position'; readonly position: bigint }
  | { readonly kind: 'caught-up' };

const ANSWER_MS = 4000;
const GRACE_MS = 1000;
const KEEP_ALIVE = { keepAliveInterval: '10000', keepAliveTimeout: '5000' };

/**
 * Appends handed to the client at once. The client writes them to one gRPC stream that buffers 16; those that wait
 * for room in it are rejected, when the stream breaks, as promises nobody holds, which ends a Node process. Below
 * 16 none waits.
 */
const APPENDS_AT_ONCE = 15;

/** One append is one message of the batch stream, whatever its size. */
const ONE_MESSAGE = 64 * 1024 * 1024;

/**
 * The one connection of a process to EventStoreDB, and the one place that knows its client and its errors.
 *
 * The client makes a new channel by itself after the store was unavailable (protocol 1.6). It has no timer of its
 * own for batch appends, reads and the feature list: here each has one, and when it expires the client is replaced,
 * since whatever else waits on that channel waits in vain. Its table of pending appends is one for the process
 * (2.5), so a process should have one connection.
 */
export class Connection {
  private client: Promise<EventStoreDBClient>;
  private readonly slots = new Slots(APPENDS_AT_ONCE);
  private closed = false;

  constructor(private readonly url: string) {
    this.client = Promise.resolve(clientFor(url));
  }

  /**
   * Appends after the revision that was read (-1: the stream must not exist), and gives the position of the last
   * event once the store has it on disk. All or nothing.
   *
   * @throws LostRace, UncertainAppend, StoreUnavailable (nothing was sent), or an Error for what the store refuses.
   */
  async append(stream: string, events: readonly StoredEventBody[], after: bigint): Promise<bigint> {
    const expectedRevision = after < 0n ? NO_STREAM : after;
    return this.slots.use(async () => {
      const client = await this.client;
      const sent = client.appendToStream(stream, events.map(proposed), {
        expectedRevision,
        deadline: ANSWER_MS,
        batchAppendSize: ONE_MESSAGE,
      });
      try {
        const { position } = await this.inTime(client, sent);
        if (!position) throw new Error('the event store tells no positions: it is older than version 22.6');
        return position.commit;
      } catch (error) {
        throw appendFailure(stream, error);
      }
    });
  }

  /** The events of a stream from one revision to another, both inclusive; none if there is no such stream. */
  async *read(stream: string, from = 0n, to?: bigint): AsyncGenerator<StoredEvent, void, void> {
    const client = await this.client;
    const maxCount = to === undefined ? Number.MAX_SAFE_INTEGER : Number(to - from + 1n);
    if (maxCount <= 0) return;
    const reading = client.readStream(stream, { fromRevision: from, maxCount }).on('error', heardElsewhere);
    let waiting = true;
    let stalled = false;
    const timer = setTimeout(() => {
      if (!waiting) return void timer.refresh();
      stalled = true;
      reading.destroy(new StoreUnavailable('the event store stopped answering a read'));
    }, ANSWER_MS);
    try {
      for await (const { event } of reading) {
        waiting = false;
        if (event) yield storedEvent(event);
        waiting = true;
        timer.refresh();
      }
    } catch (error) {
      if (error instanceof StreamNotFoundError) return;
      throw readFailure(stream, error);
    } finally {
      clearTimeout(timer);
      if (!reading.readableEnded) await reading.cancel();
      if (stalled) await this.replace(client);
    }
  }

  /** The position of the log's last event; 0 if it is empty. */
  async head(): Promise<bigint> {
    const client = await this.client;
    const reading = client
      .readAll({ direction: BACKWARDS, fromPosition: END, maxCount: 1 })
      .on('error', heardElsewhere);
    const last = async () => {
      let position = 0n;
      for await (const { event } of reading) if (event) position = event.position.commit;
      return position;
    };
    try {
      return await this.inTime(client, last());
    } catch (error) {
      throw readFailure('$all', error);
    } finally {
      if (!reading.readableEnded) await reading.cancel();
    }
  }

  /**
   * One subscription to the events, after a position, of the streams whose names begin with a prefix; it ends by an
   * error when the connection does, and when the signal is aborted. `window` is how many events of any stream the
   * store looks at before it tells a position (4.4). Pulled: the store waits for a slow consumer (4.3).
   */
  async *follow(
    prefix: string,
    after: bigint | undefined,
    window: number,
    signal: AbortSignal,
  ): AsyncGenerator<Delivery, void, void> {
    const client = await this.client;
    const subscription: AllStreamSubscription = client.subscribeToAll({
      fromPosition: after === undefined ? START : { commit: after, prepare: after },
      filter: streamNameFilter({
        prefixes: [prefix],
        maxSearchWindow: window,
        checkpointInterval: 1,
        checkpointReached: (_, { commit }) =>
          void subscription.push(new Marker({ kind: 'position', position: commit })),
      }),
    });
    subscription.on('error', heardElsewhere);
    subscription.on('caughtUp', () => void subscription.push(new Marker({ kind: 'caught-up' })));
    const stop = () => void subscription.destroy();
    signal.addEventListener('abort', stop, { once: true });
    try {
      if (signal.aborted) return;
      for await (const item of subscription as AsyncIterable<AllStreamResolvedEvent | Marker>) {
        if (item instanceof Marker) yield item.delivery;
        else if (item.event) yield { kind: 'event', event: storedEvent(item.event) };
      }
    } catch (error) {
      if (!signal.aborted) throw readFailure('$all', error);
    } finally {
      signal.removeEventListener('abort', stop);
      await subscription.unsubscribe();
      subscription.destroy();
    }
  }

  async close(): Promise<void> {
    this.closed = true;
    await (await this.client).dispose();
  }

  /** What the client promised, or a `DeadlineExceededError`'s equal; then nobody uses that client again. */
  private async inTime<Result>(client: EventStoreDBClient, promised: Promise<Result>): Promise<Result> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new NoAnswer()), ANSWER_MS + GRACE_MS);
    });
    try {
      return await Promise.race([promised, late]);
    } catch (error) {
      if (error instanceof NoAnswer) await this.replace(client);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** The old client is disposed of before the new one is used: they share the table of pending appends. */
  private async replace(client: EventStoreDBClient): Promise<void> {
    const current = await this.client;
    if (current !== client || this.closed) return;
    this.client = client.dispose().then(() => clientFor(this.url));
    await this.client;
  }
}

/** A stream's iterator tells its error; this keeps one that comes after the iterator has left from ending the process. */
function heardElsewhere(): void {}

/** What of an event is sent with an append. */
export type StoredEventBody = Pick<StoredEvent, 'eventId' | 'type' | 'data' | 'metadata'>;

/** The store did not answer within its deadline and a grace. */
class NoAnswer extends Error {}

/** Stands in a subscription's stream where the store told something other than an event. */
class Marker {
  constructor(readonly delivery: Delivery) {}
}

function clientFor(url: string): EventStoreDBClient {
  const [base = '', query = ''] = url.split('?');
  const options = new URLSearchParams(query);
  for (const [name, value] of Object.entries(KEEP_ALIVE)) if (!options.has(name)) options.set(name, value);
  return EventStoreDBClient.connectionString(`${base}?${options.toString()}`);
}

function proposed({ eventId, type, data, metadata }: StoredEventBody) {
  return { id: eventId, contentType: 'application/json' as const, type, data, metadata: { ...metadata } };
}

function storedEvent(event: RecordedEvent & { position?: { commit: bigint } }): StoredEvent {
  const { streamId, revision, position, id, type, data, metadata } = event;
  return {
    stream: streamId,
    ...streamParts(streamId),
    revision,
    position: position?.commit ?? 0n,
    eventId: id,
    type,
    data: data as JsonObject,
    metadata: (metadata ?? {}) as unknown as Envelope,
  };
}

const UNAVAILABLE = [
  UnavailableError,
  CancelledError,
  NotLeaderError,
  TimeoutError,
  DeadlineExceededError,
  NoAnswer,
];

function appendFailure(stream: string, error: unknown): Error {
  if (error instanceof WrongExpectedVersionError) return new LostRace();
  if (error instanceof StreamDeletedError) return new StreamNotFound(stream);
  if (error instanceof NotLeaderError) return new StoreUnavailable(error.message, { cause: error });
  if (error instanceof MaxAppendSizeExceededError)
    return new Error(`the event store takes less in one append than is configured: ${error.message}`, {
      cause: error,
    });
  if (UNAVAILABLE.some((each) => error instanceof each) || isRaw(error))
    return new UncertainAppend('the append was not answered', { cause: error });
  return error instanceof Error ? error : new Error(String(error));
}

function readFailure(stream: string, error: unknown): Error {
  if (error instanceof StreamDeletedError) return new StreamNotFound(stream);
  if (UNAVAILABLE.some((each) => error instanceof each) || isRaw(error))
    return new StoreUnavailable('the event store cannot be reached', { cause: error });
  return error instanceof Error ? error : new Error(String(error));
}

/** The client hands on the failure of its feature list as the raw gRPC error (protocol 1.2). */
function isRaw(error: unknown): boolean {
  return error instanceof Error && 'code' in error && 'details' in error;
}
