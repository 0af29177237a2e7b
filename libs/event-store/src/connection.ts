import { setTimeout as delay } from 'node:timers/promises';
import {
  type AllStreamResolvedEvent,
  type AllStreamSubscription,
  BACKWARDS,
  END,
  START,
  StreamNotFoundError,
  eventTypeFilter,
  streamNameFilter,
} from '@eventstore/db-client';
import { Client } from './client.js';
import type { StoredEvent } from './envelope.js';
import { StoreUnavailable } from './errors.js';
import { Interrupted, readFailure, storedEvent } from './translate.js';

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

/** Pauses before a read that was interrupted is tried again. */
const READ_AGAIN_MS = [10, 50, 150];

/**
 * Reads and subscriptions through one client, and with `Appends` the one place that knows the client and its errors.
 */
export class Connection {
  private readonly client: Client;

  /** @param answerMs within which the store answers, also with every next event of a read, before it counts as gone. */
  constructor(url: string, answerMs?: number) {
    this.client = new Client(url, answerMs);
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
    const before = this.client.current;
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
    }, this.client.answerMs);
    try {
      for await (const { event } of reading) {
        waiting = false;
        if (event) yield storedEvent(event);
        waiting = true;
        timer.refresh();
      }
      if (!this.client.uses(before)) throw new Interrupted('the connection was closed during a read');
    } catch (error) {
      if (error instanceof StreamNotFoundError) return;
      throw readFailure(error, stream);
    } finally {
      clearTimeout(timer);
      if (!reading.readableEnded) await reading.cancel();
      if (stalled) await this.client.replace(client);
    }
  }

  private async headOnce(): Promise<bigint> {
    const before = this.client.current;
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
      return await this.client.inTime(client, last());
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
    const client = await this.client.current;
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

  close(): Promise<void> {
    return this.client.close();
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
