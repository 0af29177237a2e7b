import type { StoredEvent } from './record.js';
import type { StreamState } from './catalogue.js';

const IDS_PER_GENERATION = 50_000;

/**
 * Event ids lately written, for the best-effort recognition of re-sends under `any` and `stream_exists`. Two
 * generations, the older one dropped whole: taking entries off the head of one large map costs what was ever taken.
 * At most about 15 MB; empty after a restart.
 */
export class RecentIds {
  private newer = new Map<string, number>();
  private older = new Map<string, number>();

  revisionOf(stream: StreamState, idKey: string): number | undefined {
    const key = keyOf(stream, idKey);
    return this.newer.get(key) ?? this.older.get(key);
  }

  /** Keeps the first revision that an id had in its stream. */
  remember(stream: StreamState, idKey: string, revision: number): void {
    const key = keyOf(stream, idKey);
    if (this.newer.has(key) || this.older.has(key)) return;
    if (this.newer.size >= IDS_PER_GENERATION) {
      this.older = this.newer;
      this.newer = new Map();
    }
    this.newer.set(key, revision);
  }

  /** Forgets an id whose write failed, unless it stands for an earlier event. */
  forget(stream: StreamState, idKey: string, revision: number): void {
    const key = keyOf(stream, idKey);
    if (this.newer.get(key) === revision) this.newer.delete(key);
    if (this.older.get(key) === revision) this.older.delete(key);
  }
}

const keyOf = (stream: StreamState, idKey: string): string =>
  idKey + String.fromCharCode(stream.ordinal & 0xffff, stream.ordinal >>> 16);

const SLOTS = 8192;
const SLOT_BYTES = 16 * 1024 * 1024;

/**
 * The newest durable events, so that subscriptions and read-backs of what was just written touch no disk. Bounded
 * by count and by bytes; who is slower than that reads from the log.
 */
export class RecentEvents {
  private readonly slots: (StoredEvent | undefined)[] = new Array<StoredEvent | undefined>(SLOTS);
  private oldest = 1;
  private next = 1;
  private bytes = 0;

  at(position: number): StoredEvent | undefined {
    return position >= this.oldest && position < this.next ? this.slots[position % SLOTS] : undefined;
  }

  /** Events are added in position order, without gaps after the first. */
  add(event: StoredEvent): void {
    if (event.position !== this.next) this.clear(event.position);
    while (this.next - this.oldest >= SLOTS) this.dropOldest();
    this.slots[event.position % SLOTS] = event;
    this.next += 1;
    this.bytes += event.length;
    while (this.bytes > SLOT_BYTES && this.next - this.oldest > 1) this.dropOldest();
  }

  /** From here on everything written before is read from the log. */
  forget(): void {
    this.clear(this.next);
  }

  private dropOldest(): void {
    const slot = this.oldest % SLOTS;
    this.bytes -= this.slots[slot]?.length ?? 0;
    this.slots[slot] = undefined;
    this.oldest += 1;
  }

  private clear(next: number): void {
    this.slots.fill(undefined);
    this.bytes = 0;
    this.oldest = this.next = next;
  }
}
