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

/** What lies next. `upTo` is the last place looked at, wanted or not. */
export interface SourcePage {
  readonly events: readonly Placed[];
  /** Events looked at: 0 at the end. */
  readonly examined: number;
  /** Of these, those that readers see and that are not wanted. */
  readonly skipped: number;
  readonly upTo: number;
}

/** What a group reads: a cursor over what is durable and visible, moved only by `pass`. */
export class GroupSource {
  private readonly all: boolean;
  private readonly filter: EventFilter | undefined;

  constructor(
    private readonly store: EventStore,
    private readonly config: GroupConfig,
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

  /** The next events that are wanted. Throws, and so may be asked again, where what is stored cannot be read. */
  page(limit: number): SourcePage {
    return this.all ? this.allPage(limit) : this.streamPage(limit);
  }

  /** Moves on: the next page begins after that place. */
  pass(upTo: number): void {
    this.next = upTo + 1;
  }

  private allPage(limit: number): SourcePage {
    const page = this.store.reader.allPage(this.next, 'forwards', limit);
    const upTo = page.at(-1)?.position ?? this.passed;
    // What groups of all write for themselves does not count, or a group would be busy with its own checkpoints.
    const visible = page.filter(isInAll);
    const events = visible
      .filter((event) => !this.filter || this.filter(event))
      .map((event) => ({ place: event.position, event }));
    return { events, examined: page.length, skipped: visible.length - events.length, upTo };
  }

  private streamPage(limit: number): SourcePage {
    const { stream: name } = this.config;
    const stream = readable(this.store, name);
    if (!stream || this.store.isTombstoned(name))
      return { events: [], examined: 0, skipped: 0, upTo: this.passed };
    const window = new StreamWindow(this.store, name);
    const page = pageOf(this.store, stream, Math.max(this.next, window.first), 'forwards', limit);
    const upTo = page.at(-1)?.revision ?? this.passed;
    const events = page
      .filter((event) => window.shows(event))
      .map((event) => ({ place: event.revision, event }));
    return { events, examined: page.length, skipped: page.length - events.length, upTo };
  }
}
