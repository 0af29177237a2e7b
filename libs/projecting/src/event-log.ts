import type { Recorded } from './projection.js';

/** What a subscription brings, in the order of the log. */
export type Delivery =
  | { readonly kind: 'event'; readonly event: Recorded }
  | { readonly kind: 'position'; readonly position: bigint }
  | { readonly kind: 'caught-up' };

/**
 * What projecting needs of the event store. `read` and `subscribe` give events as stored, `open` gives one with
 * its personal fields opened. A stream that does not exist reads as empty. A subscription reconnects by itself,
 * without a gap or a double.
 */
export interface EventLog {
  read(stream: string, options?: { from?: bigint; to?: bigint }): AsyncIterable<Recorded>;
  open(event: Recorded): Promise<Recorded>;
  subscribe(options: {
    prefix: string;
    after: bigint | 'start';
    signal: AbortSignal;
  }): AsyncIterable<Delivery>;
  head(): Promise<bigint>;
}
