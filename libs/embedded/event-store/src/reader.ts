import type { Catalogue, StreamState } from './catalogue.js';
import type { SegmentLog } from './log.js';
import { segmentOf } from './segments.js';
import type { RecentEvents } from './recent.js';
import { StoredEvent } from './record.js';

/** One page of a read: bounded, because a reader whose client is slow holds on to it. */
const PAGE_EVENTS = 128;
const PAGE_BYTES = 256 * 1024;
/** Events closer than this on disk are fetched in one read. */
const GAP_BYTES = 4 * 1024;

/** What says which positions the events of a stream have. */
export type Listing = Pick<StreamState, 'lastRevision' | 'positions'>;

export type Direction = 'forwards' | 'backwards';

/**
 * Reads durable events, newest ones from memory, others from the log with their checksum verified. A page may be
 * shorter than asked; only an empty page means that there is nothing (more).
 */
export class EventReader {
  constructor(
    private readonly log: SegmentLog,
    private readonly catalogue: Catalogue,
    private readonly recent: RecentEvents,
    private readonly salt: number,
  ) {}

  /** Throws `DamagedLog` when the stored bytes are not what was written. */
  at(position: number): StoredEvent {
    return this.recent.at(position) ?? this.fetch([position])[0]!;
  }

  /** Events of a stream from `revision` on, in the direction's order. */
  streamPage(stream: Listing, revision: number, direction: Direction, limit: number): StoredEvent[] {
    const step = direction === 'forwards' ? 1 : -1;
    let at = direction === 'forwards' ? revision : Math.min(revision, stream.lastRevision);
    const positions: number[] = [];
    for (
      ;
      at >= 0 && at <= stream.lastRevision && positions.length < Math.min(limit, PAGE_EVENTS);
      at += step
    )
      positions.push(stream.positions.at(at));
    return this.page(positions, direction);
  }

  /** Events of the whole log from `position` on, that one included, in the direction's order. */
  allPage(position: number, direction: Direction, limit: number): StoredEvent[] {
    const step = direction === 'forwards' ? 1 : -1;
    const last = this.catalogue.lastPosition;
    const positions: number[] = [];
    let at = direction === 'forwards' ? Math.max(position, 1) : Math.min(position, last);
    for (; at >= 1 && at <= last && positions.length < Math.min(limit, PAGE_EVENTS); at += step)
      positions.push(at);
    return this.page(positions, direction);
  }

  private page(positions: readonly number[], direction: Direction): StoredEvent[] {
    let bytes = 0;
    let count = 0;
    for (; count < positions.length && (count === 0 || bytes <= PAGE_BYTES); count++)
      bytes += this.sizeAt(positions[count]!);
    if (count > 1 && bytes > PAGE_BYTES) count -= 1;
    const taken = positions.slice(0, count);
    if (direction === 'forwards') return this.ascending(taken);
    return this.ascending(taken.reverse()).reverse();
  }

  private ascending(positions: readonly number[]): StoredEvent[] {
    const events: StoredEvent[] = [];
    for (let i = 0; i < positions.length;) {
      const recent = this.recent.at(positions[i]!);
      if (recent) {
        events.push(recent);
        i += 1;
        continue;
      }
      const end = this.spanEnd(positions, i);
      events.push(...this.fetch(positions.slice(i, end)));
      i = end;
    }
    return events;
  }

  /** The first index after `from` whose event does not lie near the one before it. */
  private spanEnd(positions: readonly number[], from: number): number {
    let i = from + 1;
    for (; i < positions.length && !this.recent.at(positions[i]!); i++) {
      const before = this.catalogue.locationOf(positions[i - 1]!);
      const location = this.catalogue.locationOf(positions[i]!);
      if (segmentOf(location) !== segmentOf(before)) break;
      if (location - before - this.sizeAt(positions[i - 1]!) > GAP_BYTES) break;
    }
    return i;
  }

  private fetch(positions: readonly number[]): StoredEvent[] {
    const start = this.catalogue.locationOf(positions[0]!);
    const last = positions[positions.length - 1]!;
    const bytes = this.log.read(start, this.catalogue.locationOf(last) + this.sizeAt(last) - start);
    return positions.map((position) => {
      const location = this.catalogue.locationOf(position);
      const event = new StoredEvent(bytes, location - start, position);
      if (!event.isIntact(this.salt, bytes.length))
        throw this.log.damaged(location, `the event at position ${position} fails its checksum`);
      return event;
    });
  }

  /** An upper bound: up to where the next event, or the segment, ends. */
  private sizeAt(position: number): number {
    const location = this.catalogue.locationOf(position);
    if (position < this.catalogue.lastPosition) {
      const next = this.catalogue.locationOf(position + 1);
      if (segmentOf(next) === segmentOf(location)) return next - location;
    }
    return this.log.endOfSegment(location) - location;
  }
}
