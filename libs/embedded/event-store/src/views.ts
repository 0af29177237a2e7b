import type { StreamState } from './catalogue.js';
import type { Direction } from './reader.js';
import type { StoredEvent } from './record.js';
import type { EventStore } from './store.js';
import { firstVisible, isMetadataStream } from './streams.js';
import { LINK_TYPE, MadeLink, SystemStream, isSystemStream } from './system-streams.js';

const LINK_TARGET = /^(\d{1,15})@(.+)$/s;
/** What persistent subscriptions to all keep for themselves would else be delivered to them (section 3.4). */
const OWN_OF_ALL = Buffer.from('$persistentsubscription-$all::');

/** A stream as readers name it: one that was written, or one that the store makes itself. */
export type Readable = StreamState | SystemStream;

export const readable = (store: EventStore, name: string): Readable | undefined =>
  isSystemStream(name) ? store.system.peek(name) : store.catalogue.peek(name);

/** To be awaited before a stream is first read, so that making its index keeps nobody else waiting. */
export const readiness = (store: EventStore, name: string): Promise<void> =>
  isSystemStream(name) ? store.system.ready() : Promise.resolve();

export function pageOf(
  store: EventStore,
  stream: Readable,
  revision: number,
  direction: Direction,
  limit: number,
): StoredEvent[] {
  const page = store.reader.streamPage(stream, revision, direction, limit);
  return stream instanceof SystemStream ? page.map((event) => stream.link(event)) : page;
}

/** Calls `wake` after each group of commits that added to the stream, or to any, if undefined. */
export const watch = (store: EventStore, name: string | undefined, wake: () => void): (() => void) =>
  name !== undefined && isSystemStream(name) ? store.system.watch(name, wake) : store.watch(name, wake);

/** Whether readers of the whole log see the event. */
export const isInAll = (event: StoredEvent): boolean => !event.gone && isPublic(event);

const isPublic = ({ bytes, streamAt }: StoredEvent): boolean =>
  bytes[streamAt] !== OWN_OF_ALL[0] ||
  !bytes.subarray(streamAt, streamAt + OWN_OF_ALL.length).equals(OWN_OF_ALL);

/** What truncation, count and age leave of a stream for its readers, at one moment (section 3.4). */
export class StreamWindow {
  readonly first: number;
  private readonly notBefore: number;

  constructor(store: EventStore, name: string) {
    const metadata = store.metadataOf(name);
    const last = readable(store, name)?.lastRevision ?? -1;
    this.first = firstVisible(metadata, last, isMetadataStream(name));
    this.notBefore = metadata.maxAge === undefined ? 0 : Date.now() - metadata.maxAge * 1000;
  }

  shows(event: StoredEvent): boolean {
    return !event.gone && event.created >= this.notBefore;
  }
}

/** The newest event that readers of the stream see. */
export function newest(store: EventStore, name: string): StoredEvent | undefined {
  const stream = readable(store, name);
  if (!stream || stream.lastRevision < 0 || store.isTombstoned(name)) return undefined;
  if (stream.lastRevision < new StreamWindow(store, name).first) return undefined;
  return pageOf(store, stream, stream.lastRevision, 'forwards', 1)[0];
}

/** What is delivered for an event that was read; a link whose target is gone comes alone. */
export interface Resolved {
  readonly event: StoredEvent | undefined;
  readonly link: StoredEvent | undefined;
}

const targetIn = (event: StoredEvent): RegExpExecArray | null =>
  event.type === LINK_TYPE ? LINK_TARGET.exec(event.data.toString()) : null;

/**
 * Whether `store.system.ready()` is to be awaited before links among these are followed: one leads into a system
 * stream, and following it would make the whole index while nobody else gets a turn.
 */
export const awaitsIndex = (store: EventStore, events: readonly StoredEvent[]): boolean =>
  !store.system.isReady && events.some((event) => isSystemStream(targetIn(event)?.[2] ?? ''));

/** Follows a link, one level deep, if that was asked for (section 3.5). */
export function resolve(store: EventStore, event: StoredEvent, follow: boolean): Resolved {
  const target = follow ? targetIn(event) : null;
  if (!target) return { event, link: undefined };
  return { event: targetOf(store, event, target[2]!, Number(target[1])), link: event };
}

function targetOf(
  store: EventStore,
  link: StoredEvent,
  name: string,
  revision: number,
): StoredEvent | undefined {
  const stream = readable(store, name);
  if (!stream || store.isTombstoned(name) || revision > stream.lastRevision) return undefined;
  const window = new StreamWindow(store, name);
  if (revision < window.first) return undefined;
  const known = link instanceof MadeLink && link.source.type !== LINK_TYPE ? link.source : undefined;
  const [event] = known ? [known] : pageOf(store, stream, revision, 'forwards', 1);
  return event && window.shows(event) ? event : undefined;
}

/**
 * Whether no reader is shown the event any more, as of its stream's metadata now. Of a metadata stream the latest event
 * stays while its stream can be used again, and a tombstone stays for ever.
 */
export function isGone(store: EventStore, event: StoredEvent): boolean {
  if (event.gone) return true;
  if (event.tombstone) return false;
  const name = event.stream;
  if (store.isTombstoned(name)) return true;
  const window = new StreamWindow(store, name);
  return event.revision < window.first || !window.shows(event);
}
