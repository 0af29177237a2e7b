import { setTimeout as delay } from 'node:timers/promises';
import type { Connection, Delivery, Heard } from './connection.js';
import type { Notice } from './folds.js';

export interface SubscribeOptions extends Heard {
  /** The position of the last event that is not wanted any more (exclusive), or `start`. */
  readonly after: bigint | 'start';
  readonly signal: AbortSignal;
}

/** How many events of any stream the store may look at without telling a position: behind, up to date, in `silentThrough`. */
const WINDOW = { catchingUp: 256, following: 32, looking: 1 };
const PAUSE_MS = { first: 50, most: 2000 };

/**
 * The events of all streams of a prefix, in the log's order, each once; between them positions, so that a consumer
 * moves on while nothing for it happens; and `caught-up` when the past has been told.
 *
 * Pulled: nothing is read ahead beyond the client's buffer. Never ends but by its signal: when the connection breaks
 * it subscribes again after the last position delivered, pausing 50 ms and, while that fails, up to 2 s. It first
 * reads the past in wide windows, then subscribes once more in narrower ones: a position may be told up to 32 events of
 * others late, since each costs as much as an event. Who needs to know at once asks `silentThrough`.
 */
export async function* subscribe(
  connection: Connection,
  { prefix, types, after, signal }: SubscribeOptions,
  onNotice: Notice,
): AsyncGenerator<Delivery, void, void> {
  let position = after === 'start' ? undefined : after;
  let window = WINDOW.catchingUp;
  let pause = PAUSE_MS.first;
  let told = false;
  while (!signal.aborted) {
    try {
      for await (const delivery of connection.follow({ prefix, types }, position, window, signal)) {
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

/**
 * How far the log, as it now stands, holds nothing that is heard after a position: the position of its last event, or
 * of the last before one that is heard.
 *
 * @throws StoreUnavailable
 */
export async function silentThrough(
  connection: Connection,
  { prefix, types, after, signal }: SubscribeOptions & { readonly after: bigint },
): Promise<bigint> {
  let position = after;
  for await (const delivery of connection.follow({ prefix, types }, after, WINDOW.looking, signal)) {
    if (delivery.kind !== 'position') break;
    position = delivery.position;
  }
  return position;
}
