import { setTimeout as delay } from 'node:timers/promises';
import type { Connection, Delivery } from './connection.js';
import type { Notice } from './folds.js';

export interface SubscribeOptions {
  /** Of the names of the streams to hear: `run-`, or `run-acme.` for one tenant. */
  readonly prefix: string;
  /** The position of the last event that is not wanted any more (exclusive), or `start`. */
  readonly after: bigint | 'start';
  readonly signal: AbortSignal;
}

/** How many events of any stream the store may look at without telling a position: behind, and up to date. */
const WINDOW = { catchingUp: 256, following: 1 };
const PAUSE_MS = { first: 50, most: 2000 };

/**
 * The events of all streams of a prefix, in the log's order, each once; between them positions, so that a consumer
 * moves on while nothing for it happens; and `caught-up` when the past has been told.
 *
 * Pulled: nothing is read ahead beyond the client's buffer. Never ends but by its signal: when the connection breaks
 * it subscribes again after the last position delivered, pausing 50 ms and, while that fails, up to 2 s. It first
 * reads the past in wide windows, then subscribes once more in narrow ones, so that the position of every event of
 * others is told at once.
 */
export async function* subscribe(
  connection: Connection,
  { prefix, after, signal }: SubscribeOptions,
  onNotice: Notice,
): AsyncGenerator<Delivery, void, void> {
  let position = after === 'start' ? undefined : after;
  let window = WINDOW.catchingUp;
  let pause = PAUSE_MS.first;
  let told = false;
  while (!signal.aborted) {
    try {
      for await (const delivery of connection.follow(prefix, position, window, signal)) {
        pause = PAUSE_MS.first;
        if (delivery.kind === 'caught-up') {
          if (window === WINDOW.following) {
            if (!told) yield delivery;
            told = true;
            continue;
          }
          window = WINDOW.following;
          break;
        }
        position = delivery.kind === 'event' ? delivery.event.position : delivery.position;
        yield delivery;
      }
    } catch (error) {
      onNotice('a subscription broke', { prefix, position: String(position), pause, error: String(error) });
      await delay(pause, undefined, { signal }).catch(() => undefined);
      pause = Math.min(2 * pause, PAUSE_MS.most);
    }
  }
}
