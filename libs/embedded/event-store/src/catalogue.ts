import type { Location } from './segments.js';
import type { StoredEvent } from './record.js';
import type { StreamMetadata } from './streams.js';

const CHUNK_BITS = 16;
const CHUNK = 1 << CHUNK_BITS;

/** An append-only column of numbers that grows without ever copying what it holds: 8 bytes a row. */
class Column {
  private readonly chunks: Float64Array[] = [];
  length = 0;

  push(value: number): void {
    const index = this.length & (CHUNK - 1);
    if (index === 0) this.chunks.push(new Float64Array(CHUNK));
    this.chunks[this.chunks.length - 1]![index] = value;
    this.length += 1;
  }

  at(row: number): number {
    return this.chunks[row >>> CHUNK_BITS]![row & (CHUNK - 1)]!;
  }

  set(row: number, value: number): void {
    this.chunks[row >>> CHUNK_BITS]![row & (CHUNK - 1)] = value;
  }
}

/** The positions of one stream's events by revision: 4 bytes an event, hence at most 2^32 events in a store. */
export class Positions {
  private values = new Uint32Array(2);
  length = 0;

  push(position: number): void {
    if (this.length === this.values.length) {
      const wider = new Uint32Array(Math.ceil(this.length * 1.5) + 2);
      wider.set(this.values);
      this.values = wider;
    }
    this.values[this.length++] = position;
  }

  at(revision: number): number {
    return this.values[revision]!;
  }
}

/** An event that has its revision and position but is not on disk yet. */
export interface PendingEvent {
  readonly revision: number;
  readonly position: number;
  readonly idKey: string;
  readonly data: Buffer;
}

/**
 * One stream twice: as readers see it (what is durable) and as the next append must see it (that and what is in
 * flight). The two are equal whenever nothing is in flight.
 */
export class StreamState {
  readonly nameBytes: Buffer;
  readonly positions = new Positions();
  /** Position of the durable tombstone, 0 without one. */
  tombstonePosition = 0;
  tombstonePending = false;
  /** In flight, in order; what has become durable is dropped from the front. */
  pending: PendingEvent[] = [];
  /** Parsed metadata, undefined until it is first asked for. */
  metadata: StreamMetadata | undefined;
  /** Set while metadata of this stream is in flight. */
  pendingMetadata: StreamMetadata | undefined;

  constructor(
    readonly name: string,
    /** Small number of this stream in this process; distinguishes equal event ids of different streams. */
    readonly ordinal: number,
  ) {
    this.nameBytes = Buffer.from(name);
  }

  /** Revision of the last durable event, −1 without one. */
  get lastRevision(): number {
    return this.positions.length - 1;
  }
  /** Revision of the last event, durable or in flight, −1 without one. */
  get assignedRevision(): number {
    return this.positions.length + this.pending.length - 1;
  }
  get tombstoned(): boolean {
    return this.tombstonePosition !== 0;
  }

  /** Forgets what was in flight, after its write failed. */
  rollBack(): void {
    this.pending = [];
    this.tombstonePending = false;
    this.pendingMetadata = undefined;
  }
}

/**
 * What is durable, by stream and by position, in memory and rebuilt from the log at start. Positions count events
 * from 1, so the n-th row of `locations` is the event at position n + 1. An index snapshot would be loaded here.
 */
export class Catalogue {
  private readonly streams = new Map<string, StreamState>();
  private readonly locations = new Column();

  /** Position of the last durable event, 0 in an empty store. */
  get lastPosition(): number {
    return this.locations.length;
  }

  peek(name: string): StreamState | undefined {
    return this.streams.get(name);
  }

  stream(name: string): StreamState {
    let stream = this.streams.get(name);
    if (!stream) {
      stream = new StreamState(name, this.streams.size);
      this.streams.set(name, stream);
    }
    return stream;
  }

  locationOf(position: number): Location {
    return this.locations.at(position - 1);
  }

  /** The event lies elsewhere now. */
  relocate(position: number, location: Location): void {
    this.locations.set(position - 1, location);
  }

  /** Makes an event visible to readers. Events are added in position order, each once. */
  add(stream: StreamState, position: number, tombstone: boolean, location: Location): void {
    if (position !== this.lastPosition + 1)
      throw new Error(`position ${position} cannot follow position ${this.lastPosition}`);
    this.locations.push(location);
    if (tombstone) stream.tombstonePosition = position;
    else stream.positions.push(position);
  }

  /** Indexes a record found in the log at start. */
  recover(event: StoredEvent, location: Location): void {
    this.add(this.stream(event.stream), event.position, event.tombstone, location);
  }
}
