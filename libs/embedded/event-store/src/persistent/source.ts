import { ALL_STREAM } from '../proposed.js';
import { type EventFilter, eventFilter } from '../reads.js';
import type { StoredEvent } from '../record.js';
import type { EventStore } from '../store.js';
import { StreamWindow, isInAll, pageOf, readable, watch } from '../views.js';
import type { GroupConfig } from './settings.js';

/** An event with its place: its revision in the stream, or its position where the source is the whole log. */
export interface Placed {
  readonly place: number;
  readonly event: StoredEvent;
}

/** What a group reads: a cursor over what is durable and visible, moved only by taking a page. */
export class GroupSource {
  private readonly all: boolean;
  private readonly filter: EventFilter | undefined;

  constructor(
    private readonly store: EventStore,
    private readonly config: GroupConfig,
    /** The place from which the next page begins. */
    private next: number,
  ) {
    this.all = config.stream === ALL_STREAM;
    this.filter = config.filter && eventFilter(config.filter);
  }

  /** All before is taken or passed. */
  get passed(): number {
    return this.next - 1;
  }

  /** The last place there is, undefined before the first event. */
  get last(): number | undefined {
    if (this.all) return this.store.catalogue.lastPosition || undefined;
    return readable(this.store, this.config.stream)?.lastRevision;
  }

  get atEnd(): boolean {
    return this.next > (this.last ?? -1);
  }

  watch(wake: () => void): () => void {
    return watch(this.store, this.all ? undefined : this.config.stream, wake);
  }

  /** The next events that are wanted, and how many were looked at for them: 0 at the end. */
  page(limit: number): { events: Placed[]; examined: number } {
    return this.all ? this.allPage(limit) : this.streamPage(limit);
  }

  private allPage(limit: number): { events: Placed[]; examined: number } {
    const page = this.store.reader.allPage(this.next, 'forwards', limit);
    const last = page.at(-1);
    if (last) this.next = last.position + 1;
    // What groups of all write for themselves does not count, or a group would be busy with its own checkpoints.
    const visible = page.filter(isInAll);
    const events = visible
      .filter((event) => !this.filter || this.filter(event))
      .map((event) => ({ place: event.position, event }));
    return { events, examined: visible.length };
  }

  private streamPage(limit: number): { events: Placed[]; examined: number } {
    const { stream: name } = this.config;
    const stream = readable(this.store, name);
    if (!stream || this.store.isTombstoned(name)) return { events: [], examined: 0 };
    const window = new StreamWindow(this.store, name);
    const page = pageOf(this.store, stream, Math.max(this.next, window.first), 'forwards', limit);
    const last = page.at(-1);
    if (last) this.next = last.revision + 1;
    const events = page
      .filter((event) => window.shows(event))
      .map((event) => ({ place: event.revision, event }));
    return { events, examined: page.length };
  }
}
