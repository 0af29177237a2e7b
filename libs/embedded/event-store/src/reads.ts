import { admitExpression, compileExpression } from './expressions.js';
import type { Outlet } from './outlet.js';
import { InvalidRequest } from './proposed.js';
import { shared, streams } from './protocol.js';
import type { Direction } from './reader.js';
import type { StoredEvent } from './record.js';
import type { EventStore } from './store.js';
import { StreamWindow, awaitsIndex, isInAll, pageOf, readable, readiness, resolve } from './views.js';
import { encodeReadEvent } from './wire.js';

export type ReadOptions = InstanceType<typeof streams.ReadReq.Options>;

/** A position or revision in a request: `end` is 2^64 − 1 or the option of that name. */
export type Bound = 'start' | 'end' | number;

/** What a filter says of an event (section 4.4). */
export type EventFilter = (event: StoredEvent) => boolean;

interface BoundOptions {
  hasStart(): boolean;
  hasEnd(): boolean;
}

export function boundOf(options: BoundOptions, value: () => string | undefined): Bound {
  if (options.hasStart()) return 'start';
  if (options.hasEnd()) return 'end';
  const number = Number(value() ?? '0');
  return number > Number.MAX_SAFE_INTEGER ? 'end' : number;
}

/** Which events a reader of all wants: by type or by stream, by expression or by any of some prefixes. */
export interface FilterSpec {
  readonly on: 'type' | 'stream';
  readonly regex: string;
  readonly prefixes: readonly string[];
}

interface Expression {
  getRegex(): string;
  getPrefixList(): string[];
}

interface FilterOptions {
  hasEventType(): boolean;
  getEventType(): Expression | undefined;
  getStreamIdentifier(): Expression | undefined;
}

/** Throws `InvalidRequest`, also for an expression that is refused (`admitExpression`). */
export function filterSpec(filter: FilterOptions): FilterSpec {
  const on = filter.hasEventType() ? 'type' : 'stream';
  const expression = on === 'type' ? filter.getEventType() : filter.getStreamIdentifier();
  if (!expression) throw new InvalidRequest('a filter must name an event type or a stream');
  const regex = expression.getRegex();
  if (regex !== '') admitExpression(regex);
  return { on, regex, prefixes: expression.getPrefixList() };
}

/** An expression wins over prefixes; no prefixes match nothing. Throws `InvalidRequest`. */
export function eventFilter({ on, regex, prefixes }: FilterSpec): EventFilter {
  const subject = (event: StoredEvent): string => (on === 'type' ? event.type : event.stream);
  if (regex !== '') {
    const pattern = compileExpression(regex);
    return (event) => pattern.test(subject(event));
  }
  return (event) => prefixes.some((prefix) => subject(event).startsWith(prefix));
}

export function filterOf(options: ReadOptions): EventFilter | undefined {
  const filter = options.getFilter();
  return filter && eventFilter(filterSpec(filter));
}

/** Writes an event as the reader asked for it: with links followed, or as stored. */
export const encodeFor =
  (store: EventStore, resolveLinks: boolean) =>
  (stored: StoredEvent): Buffer => {
    if (!resolveLinks) return encodeReadEvent(stored);
    const { event, link } = resolve(store, stored, true);
    return encodeReadEvent(event, link);
  };

const directionOf = (options: ReadOptions): Direction =>
  options.getReadDirection() === streams.ReadReq.Options.ReadDirection.BACKWARDS ? 'backwards' : 'forwards';

export type StreamReadOutcome = 'done' | 'stream-deleted';

/** A read of one stream, sections 3.3 and 3.4, as of the moment it starts. */
export async function readStream(
  store: EventStore,
  name: string,
  options: ReadOptions,
  outlet: Outlet,
): Promise<StreamReadOutcome> {
  const target = options.getStream()!;
  await readiness(store, name);
  if (store.isTombstoned(name)) return 'stream-deleted';
  const stream = readable(store, name);
  if (!stream || stream.lastRevision < 0 || store.metadataOf(name).softDeleted) {
    outlet.write(notFound(name));
    return 'done';
  }
  const direction = directionOf(options);
  const window = new StreamWindow(store, name);
  const last = stream.lastRevision;
  const from = streamStart(
    boundOf(target, () => target.getRevision()),
    direction,
    last,
  );
  await deliver(store, options, outlet, {
    next: direction === 'forwards' ? Math.max(from, window.first) : Math.min(from, last),
    step: direction === 'forwards' ? 1 : -1,
    first: window.first,
    last,
    page: (next, limit) => pageOf(store, stream, next, direction, limit),
    at: (event) => event.revision,
    shows: (event) => window.shows(event),
  });
  return 'done';
}

function streamStart(bound: Bound, direction: Direction, last: number): number {
  if (bound === 'start') return 0;
  if (bound === 'end') return direction === 'forwards' ? last + 1 : last;
  return bound;
}

/** A read of the whole log, section 3.3: forwards from a position it is included, backwards it is not. */
export async function readAll(store: EventStore, options: ReadOptions, outlet: Outlet): Promise<void> {
  const target = options.getAll()!;
  const bound = boundOf(target, () => target.getPosition()?.getCommitPosition());
  const direction = directionOf(options);
  const last = store.catalogue.lastPosition;
  const filter = filterOf(options);
  const start = allStart(bound, direction, last);
  await deliver(store, options, outlet, {
    next: direction === 'forwards' ? Math.max(start, 1) : Math.min(start, last),
    step: direction === 'forwards' ? 1 : -1,
    first: 1,
    last,
    page: (next, limit) => store.reader.allPage(next, direction, limit),
    at: (event) => event.position,
    shows: (event) => isInAll(event) && (!filter || filter(event)),
  });
}

function allStart(bound: Bound, direction: Direction, last: number): number {
  if (direction === 'forwards') return bound === 'start' ? 1 : bound === 'end' ? last + 1 : bound;
  return bound === 'start' ? 0 : bound === 'end' ? last : bound - 1;
}

/** A walk over revisions or positions, from `next` on by `step`, as long as it stays from `first` to `last`. */
interface Walk {
  next: number;
  readonly step: 1 | -1;
  readonly first: number;
  readonly last: number;
  page(next: number, limit: number): StoredEvent[];
  at(event: StoredEvent): number;
  /** Whether an event is delivered; hidden ones do not count. */
  shows(event: StoredEvent): boolean;
}

const isWithin = (walk: Walk): boolean => walk.next >= walk.first && walk.next <= walk.last;

async function deliver(store: EventStore, options: ReadOptions, outlet: Outlet, walk: Walk): Promise<void> {
  const encode = encodeFor(store, options.getResolveLinks());
  let left = options.hasCount() ? Number(options.getCount()) : Number.MAX_SAFE_INTEGER;
  while (left > 0 && isWithin(walk)) {
    const page = walk.page(walk.next, left);
    if (options.getResolveLinks() && awaitsIndex(store, page)) await store.system.ready();
    for (const event of page) {
      if (!isWithin(walk)) return;
      walk.next = walk.at(event) + walk.step;
      if (!walk.shows(event)) continue;
      outlet.write(encode(event));
      left -= 1;
      if (outlet.full) await outlet.room(sizeOf(page));
      if (outlet.closed || left === 0) return;
    }
    if (isWithin(walk)) await nextTurn();
    if (outlet.closed) return;
  }
}

/** What a reader keeps of memory while its client takes nothing. */
export const sizeOf = (page: readonly StoredEvent[]): number =>
  page.reduce((sum, { length }) => sum + length, 0);

/** Between pages others get their turn. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function notFound(name: string): Buffer {
  const identifier = new shared.StreamIdentifier().setStreamName(new Uint8Array(Buffer.from(name)));
  const message = new streams.ReadResp.StreamNotFound().setStreamIdentifier(identifier);
  return Buffer.from(new streams.ReadResp().setStreamNotFound(message).serializeBinary());
}
