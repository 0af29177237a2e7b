import { closeSync, fsync, openSync, unlinkSync } from 'node:fs';
import { type NewEvent, type StoredEvent, encodeFrame, framePosition, sealFrame } from './record.js';
import { SEGMENT_HEADER, SEGMENT_MAGIC, SEGMENT_SPAN, segmentOf, writeAll } from './segments.js';
import type { EventStore } from './store.js';
import { isGone } from './views.js';

/** What a scavenge removed: events, and bytes of disk. */
export interface Scavenged {
  readonly events: number;
  readonly bytes: number;
}

interface Draft {
  readonly file: string;
  readonly descriptor: number;
  size: number;
  /** Where each event lies in it, from the segment's first position on. */
  readonly offsets: number[];
}

const EMPTY = Buffer.alloc(0);

/**
 * Removes the data and metadata of events that no reader can see any more, segment by segment and page by page, while
 * others read and write. Of a removed event there remains that its stream had one of that type, under that revision,
 * position and id, so that nothing is numbered anew and re-sends are still recognised.
 *
 * A segment is written anew beside the old one, synced, and takes its name by renaming: a crash at any point leaves one
 * or the other, whole. What is being written to is closed first, so that all that was written before is looked at.
 */
export class Scavenger {
  private running: Promise<Scavenged> | undefined;
  private stopped = false;

  constructor(
    private readonly store: EventStore,
    private readonly salt: number,
  ) {}

  get isRunning(): boolean {
    return this.running !== undefined;
  }

  /**
   * One runs at a time: who asks meanwhile gets the outcome of that one. Rejects with `DamagedLog`, and with what the
   * disk refuses; what was removed until then stays removed.
   */
  run(): Promise<Scavenged> {
    return (this.running ??= this.sweepAll().finally(() => (this.running = undefined)));
  }

  /** Ends a run before its next segment, and resolves when it has ended. */
  async stop(): Promise<void> {
    this.stopped = true;
    // What ends a run is told to those who asked for it.
    await this.running?.catch(() => undefined);
    this.stopped = false;
  }

  private async sweepAll(): Promise<Scavenged> {
    const { log } = this.store;
    const removed = { events: 0, bytes: 0 };
    await this.store.betweenWrites(() => log.rollOver());
    let first = 1;
    for (let number = 0; number < log.lastSegment && !this.stopped; number++) {
      const next = this.firstAfter(number, first);
      const { events, bytes } = await this.sweep(number, first, next);
      removed.events += events;
      removed.bytes += bytes;
      first = next;
    }
    return removed;
  }

  private firstAfter(number: number, first: number): number {
    let next = first;
    while (
      next <= this.store.catalogue.lastPosition &&
      segmentOf(this.store.catalogue.locationOf(next)) === number
    )
      next += 1;
    return next;
  }

  private async sweep(number: number, first: number, next: number): Promise<Scavenged> {
    let gone = 0;
    await this.walk(first, next, (page) => {
      for (const event of page) if (!event.gone && isGone(this.store, event)) gone += 1;
    });
    if (gone === 0) return { events: 0, bytes: 0 };
    const draft = await this.rewrite(number, first, next);
    const before = this.store.log.sizeOf(number);
    this.store.log.replace(number, draft.file, draft.size);
    draft.offsets.forEach((offset, i) =>
      this.store.catalogue.relocate(first + i, number * SEGMENT_SPAN + offset),
    );
    this.store.recentEvents.forget();
    // Only now, for it may fail: what is read from here on must already be looked for in the new file.
    this.store.log.syncNames();
    return { events: gone, bytes: before - draft.size };
  }

  private async rewrite(number: number, first: number, next: number): Promise<Draft> {
    const file = this.store.log.draftOf(number);
    const draft: Draft = { file, descriptor: openSync(file, 'w'), size: SEGMENT_HEADER, offsets: [] };
    try {
      writeAll(draft.descriptor, Buffer.from(SEGMENT_MAGIC), 0);
      await this.walk(first, next, (page) => this.add(draft, page));
      await sync(draft.descriptor);
      return draft;
    } catch (error) {
      unlinkSync(file);
      throw error;
    } finally {
      closeSync(draft.descriptor);
    }
  }

  /** A page becomes one frame. */
  private add(draft: Draft, page: readonly StoredEvent[]): void {
    const kept = page.map((event) => (isGone(this.store, event) ? emptied(event) : whole(event)));
    const { bytes, offsets } = encodeFrame(kept, page[0]!.position, 0, this.salt);
    sealFrame(bytes, framePosition(bytes, 0), this.salt);
    writeAll(draft.descriptor, bytes, draft.size);
    for (const offset of offsets) draft.offsets.push(draft.size + offset);
    draft.size += bytes.length;
  }

  /** Between pages others get their turn. */
  private async walk(first: number, next: number, take: (page: StoredEvent[]) => void): Promise<void> {
    for (let at = first; at < next;) {
      const page = this.store.reader.allPage(at, 'forwards', next - at);
      take(page);
      at += page.length;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

function whole(event: StoredEvent): NewEvent {
  const { bytes, idAt, streamAt, typeAt, metadataAt, dataAt, revision, json, tombstone, gone, created } =
    event;
  return {
    stream: bytes.subarray(streamAt, typeAt),
    revision,
    id: bytes.subarray(idAt, idAt + 16),
    type: bytes.subarray(typeAt, metadataAt),
    json,
    metadata: bytes.subarray(metadataAt, dataAt),
    data: event.data,
    tombstone,
    gone,
    created,
  };
}

const emptied = (event: StoredEvent): NewEvent => ({
  ...whole(event),
  metadata: EMPTY,
  data: EMPTY,
  gone: true,
});

const sync = (descriptor: number): Promise<void> =>
  new Promise((resolve, reject) => fsync(descriptor, (error) => (error ? reject(error) : resolve())));
