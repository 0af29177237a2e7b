import { setDefaultHighWaterMark } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type AllStreamResolvedEvent,
  type AllStreamSubscription,
  BACKWARDS,
  END,
  EventStoreDBClient,
  NO_STREAM,
  START,
  StreamNotFoundError,
  eventTypeFilter,
  streamNameFilter,
} from '@eventstore/db-client';
import type { StoredEvent } from './envelope.js';
import { StoreUnavailable } from './errors.js';
import { Slots } from './slots.js';
import {
  Interrupted,
  NoAnswer,
  type StoredEventBody,
  appendFailure,
  proposed,
  readFailure,
  storedEvent,
} from './translate.js';

/** What is heard: the streams whose names begin with `prefix`, and of them only events of `types`, where given. */
export interface Heard {
  readonly prefix: string;
  readonly types?: readonly string[] | undefined;
}

/** An item of a subscription to the log, in its order. */
export type Delivery =
  | { readonly kind: 'event'; readonly event: StoredEvent }
  | { readonly kind: 'position'; readonly position: bigint }
  | { readonly kind: 'caught-up' };

const ANSWER_MS = 4000;

/** What the store has beyond its deadline for the answer to arrive. */
const GRACE_MS = 500;
const KEEP_ALIVE_MS = { every: 10_000, answered: 5000 };

/**
 * Appends handed to the client at once. The client writes them to one gRPC stream; those that wait for room in its
 * buffer are rejected, when the stream breaks, as promises nobody holds, which ends a Node process. So the buffer
 * has room for one more than that. What is appended together costs less: one flush of the store, one write of the
 * socket.
 */
const APPENDS_AT_ONCE = 63;

/** One append is one message of the batch stream, whatever its size. */
const ONE_MESSAGE = 64 * 1024 * 1024;

/** Pauses before a read that was interrupted is tried again. */
const READ_AGAIN_MS = [10, 50, 150];

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
  private clients = 0;

  /** @param answerMs within which the store answers an append, and every next event of a read, before it counts as gone. */
  constructor(
    private readonly url: string,
    private readonly answerMs = ANSWER_MS,
  ) {
    // The client gives no setting for it: a stream of objects takes what the process takes by default (16).
    setDefaultHighWaterMark(true, APPENDS_AT_ONCE + 1);
    this.client = Promise.resolve(this.newClient());
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
        deadline: this.answerMs,
        batchAppendSize: ONE_MESSAGE,
      });
      try {
        const { position } = await this.inTime(client, sent);
        if (!position) throw new Error('the event store tells no positions: it is older than version 22.6');
        return position.commit;
      } catch (error) {
        throw appendFailure(error, stream);
      }
    });
  }

  /**
   * The events of a stream from one revision to another, both inclusive; none if there is no such stream. Goes on
   * after the last event when the connection breaks.
   *
   * @throws StoreUnavailable
   */
  async *read(stream: string, from = 0n, to?: bigint): AsyncGenerator<StoredEvent, void, void> {
    let next = from;
    for (let tries = 0; ; tries++) {
      try {
        for await (const event of this.readOnce(stream, next, to)) {
          next = event.revision + 1n;
          tries = 0;
          yield event;
        }
        return;
      } catch (error) {
        await pauseBefore(tries, error);
      }
    }
  }

  /** The position of the log's last event; 0 if it is empty. @throws StoreUnavailable */
  async head(): Promise<bigint> {
    for (let tries = 0; ; tries++) {
      try {
        return await this.headOnce();
      } catch (error) {
        await pauseBefore(tries, error);
      }
    }
  }

  private async *readOnce(
    stream: string,
    from: bigint,
    to?: bigint,
  ): AsyncGenerator<StoredEvent, void, void> {
    const before = this.client;
    const client = await before;
    const maxCount = to === undefined ? Number.MAX_SAFE_INTEGER : Number(to - from + 1n);
    if (maxCount <= 0) return;
    const reading = client.readStream(stream, { fromRevision: from, maxCount }).on('error', heardElsewhere);
    let waiting = true;
    let stalled = false;
    const timer = setTimeout(() => {
      if (!waiting) return void timer.refresh();
      stalled = true;
      reading.destroy(new StoreUnavailable('the event store stopped answering a read'));
    }, this.answerMs);
    try {
      for await (const { event } of reading) {
        waiting = false;
        if (event) yield storedEvent(event);
        waiting = true;
        timer.refresh();
      }
      this.mustBe(before);
    } catch (error) {
      if (error instanceof StreamNotFoundError) return;
      throw readFailure(error, stream);
    } finally {
      clearTimeout(timer);
      if (!reading.readableEnded) await reading.cancel();
      if (stalled) await this.replace(client);
    }
  }

  private async headOnce(): Promise<bigint> {
    const before = this.client;
    const client = await before;
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
      throw readFailure(error);
    } finally {
      if (!reading.readableEnded) await reading.cancel();
    }
  }

  /**
   * One subscription to what is heard after a position; it ends by an error when the connection does, and when the
   * signal is aborted. `window` is how many events of any stream the store looks at before it tells a position (4.4).
   * Pulled: the store waits for a slow consumer (4.3).
   */
  async *follow(
    { prefix, types }: Heard,
    after: bigint | undefined,
    window: number,
    signal: AbortSignal,
  ): AsyncGenerator<Delivery, void, void> {
    const client = await this.client;
    const told = {
      maxSearchWindow: window,
      checkpointInterval: 1,
      checkpointReached: (_: unknown, { commit }: { commit: bigint }) =>
        void subscription.push(new Marker({ kind: 'position', position: commit })),
    };
    const subscription: AllStreamSubscription = client.subscribeToAll({
      fromPosition: after === undefined ? START : { commit: after, prepare: after },
      filter: types
        ? eventTypeFilter({ ...told, prefixes: [...types] })
        : streamNameFilter({ ...told, prefixes: [prefix] }),
    });
    subscription.on('error', heardElsewhere);
    subscription.on('caughtUp', () => void subscription.push(new Marker({ kind: 'caught-up' })));
    const stop = () => void subscription.destroy();
    signal.addEventListener('abort', stop, { once: true });
    try {
      if (signal.aborted) return;
      for await (const item of subscription as AsyncIterable<AllStreamResolvedEvent | Marker>) {
        if (item instanceof Marker) yield item.delivery;
        else if (item.event) yield delivered(storedEvent(item.event), prefix, types);
      }
    } catch (error) {
      if (!signal.aborted) throw readFailure(error);
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

  /** A read that is cut short because its client is disposed of looks like one that ended. */
  private mustBe(client: Promise<EventStoreDBClient>): void {
    if (this.client !== client || this.closed)
      throw new Interrupted('the connection was closed during a read');
  }

  /** What the client promised, or a `DeadlineExceededError`'s equal; then nobody uses that client again. */
  private async inTime<Result>(client: EventStoreDBClient, promised: Promise<Result>): Promise<Result> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new NoAnswer()), this.answerMs + GRACE_MS);
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
    this.client = client.dispose().then(() => this.newClient());
    await this.client;
  }

  /** Channels of equal settings share a TCP connection: each client's differ by a millisecond, so it has its own. */
  private newClient(): EventStoreDBClient {
    const [base = '', query = ''] = this.url.split('?');
    const options = new URLSearchParams(query);
    options.set('keepAliveInterval', String(KEEP_ALIVE_MS.every));
    options.set('keepAliveTimeout', String(KEEP_ALIVE_MS.answered + this.clients++));
    return EventStoreDBClient.connectionString(`${base}?${options.toString()}`);
  }
}

/** The store's filter knows one of the two, and only beginnings: what it let through beyond what is heard is a position. */
function delivered(event: StoredEvent, prefix: string, types: Heard['types']): Delivery {
  const heard = event.stream.startsWith(prefix) && (types?.includes(event.type) ?? true);
  return heard ? { kind: 'event', event } : { kind: 'position', position: event.position };
}

/** Throws the error unless it is an interruption and another try is due; then returns when it is. */
async function pauseBefore(tries: number, error: unknown): Promise<void> {
  const pause = READ_AGAIN_MS[tries];
  if (pause === undefined || !(error instanceof Interrupted)) throw error;
  await delay(pause);
}

/** A stream's iterator tells its error; this keeps one that comes after the iterator has left from ending the process. */
function heardElsewhere(): void {}

/** Stands in a subscription's stream where the store told something other than an event. */
class Marker {
  constructor(readonly delivery: Delivery) {}
}
