import { type Projection, type Recorded, type View, codeOf, handlingOf, project } from './projection.js';

/** What a subscription brings, in the order of the log. */
export type Delivery =
  | { readonly kind: 'event'; readonly event: Recorded }
  | { readonly kind: 'position'; readonly position: bigint }
  | { readonly kind: 'caught-up' };

/** Streams by the beginning of their names, and of them only events of some types, where given. */
interface Heard {
  prefix: string;
  types?: readonly string[];
  signal: AbortSignal;
}

/**
 * What projecting needs of the event store. `read` and `subscribe` give events as stored, `open` gives one with
 * its personal fields opened. A stream that does not exist reads as empty. A subscription reconnects by itself,
 * without a gap or a double.
 */
export interface EventLog {
  read(stream: string, options?: { from?: bigint; to?: bigint }): AsyncIterable<Recorded>;
  open(event: Recorded): Promise<Recorded>;
  subscribe(options: Heard & { after: bigint | 'start' }): AsyncIterable<Delivery>;
  /** The position up to which the log, as it now stands, holds nothing that is heard after `after`. */
  silentThrough(options: Heard & { after: bigint }): Promise<bigint>;
  head(): Promise<bigint>;
}

/**
 * An event with its personal fields open, as far as the projection reads it, or why that cannot be.
 * @throws an error of the operating system: that is no fault of the event.
 */
export async function openFor<Doc>(
  projection: Projection<Doc>,
  log: EventLog,
  event: Recorded,
): Promise<{ readonly readable: Recorded } | { readonly failure: unknown }> {
  try {
    const passes = handlingOf(projection, event) === 'pass';
    return { readable: passes ? event : await log.open(event) };
  } catch (failure) {
    if (failure instanceof Error && 'syscall' in failure) throw failure;
    return { failure };
  }
}

/** The view after a stored event, or the code of why the event cannot be applied: there its stream stops. */
export async function advance<Doc>(
  projection: Projection<Doc>,
  log: EventLog,
  view: View<Doc> | undefined,
  event: Recorded,
): Promise<{ readonly view: View<Doc> } | { readonly code: string }> {
  const opened = await openFor(projection, log, event);
  if ('failure' in opened) return { code: codeOf(opened.failure) };
  try {
    return { view: project(projection, view, opened.readable) };
  } catch (error) {
    return { code: codeOf(error) };
  }
}
