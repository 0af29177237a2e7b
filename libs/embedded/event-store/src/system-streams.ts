import { createHash } from 'node:crypto';
import { Positions } from './catalogue.js';
import { StoredEvent, encodeFrame } from './record.js';
import type { EventStore } from './store.js';
import { uuidText } from './wire.js';

/** Type of an event that stands for another: its data is `revision@stream`. */
export const LINK_TYPE = '$>';
/** Type of an event that stands for a stream: its data is the stream's name. */
const REFERENCE_TYPE = '$@';

const STREAMS = '$streams';
const FAMILIES = ['$ce-', '$et-', '$category-'] as const;
type Family = (typeof FAMILIES)[number] | typeof STREAMS;

/** Whether the store itself says what the stream holds, so that nobody can write to it (section 7). */
export const isSystemStream = (name: string): boolean => familyOf(name) !== undefined;

function familyOf(name: string): Family | undefined {
  if (!name.startsWith('$')) return undefined;
  return name === STREAMS ? STREAMS : FAMILIES.find((family) => name.startsWith(family));
}

/** A link that nobody stored, with the event it was made from. */
export class MadeLink extends StoredEvent {
  constructor(
    bytes: Buffer,
    at: number,
    readonly source: StoredEvent,
  ) {
    super(bytes, at, source.position);
  }
}

/**
 * One system stream: the positions of the events it stands for, and the links to them, made as they are read. A link
 * has the position and the time of its event, and an id that follows from its event's id and the stream's name, so it
 * is the same whenever it is read.
 */
export class SystemStream {
  readonly positions = new Positions();
  readonly wakes = new Set<() => void>();
  private readonly name: Buffer;
  private readonly mask: Buffer;

  constructor(
    name: string,
    private readonly family: Family,
  ) {
    this.name = Buffer.from(name);
    this.mask = createHash('sha256').update(this.name).digest();
  }

  get lastRevision(): number {
    return this.positions.length - 1;
  }

  link(source: StoredEvent): MadeLink {
    const type = this.family === '$category-' ? REFERENCE_TYPE : LINK_TYPE;
    const event = {
      stream: this.name,
      revision: this.revisionOf(source.position),
      id: this.idOf(source),
      type: Buffer.from(type),
      json: false,
      metadata: Buffer.from(metadataOf(source)),
      data: this.dataOf(source),
    };
    const { bytes, offsets } = encodeFrame([event], source.position, source.created, 0);
    return new MadeLink(bytes, offsets[0]!, source);
  }

  /** Positions only grow, so the place of one is found by halving. */
  private revisionOf(position: number): number {
    let [low, high] = [0, this.positions.length - 1];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.positions.at(middle) < position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** A link inside a category stands there for its own target; one that was emptied by scavenging, for itself. */
  private dataOf(source: StoredEvent): Buffer {
    if (this.family === '$category-') return Buffer.from(source.stream);
    if (source.type === LINK_TYPE && source.data.length > 0) return source.data;
    return Buffer.from(`${source.revision}@${source.stream}`);
  }

  private idOf(source: StoredEvent): Buffer {
    const id = Buffer.allocUnsafe(16);
    for (let i = 0; i < id.length; i++) id[i] = source.bytes[source.idAt + i]! ^ this.mask[i]!;
    id[6] = (id[6]! & 0x0f) | 0x80;
    id[8] = (id[8]! & 0x3f) | 0x80;
    return id;
  }
}

function metadataOf(source: StoredEvent): string {
  const causedBy = uuidText(source.bytes.subarray(source.idAt, source.idAt + 16));
  const { position, stream } = source;
  return JSON.stringify({ $v: '1:-1:1:4', $c: position, $p: position, $o: stream, $causedBy: causedBy });
}

/** Events indexed before others get their turn. */
const TURN = 4096;

/**
 * `$ce-`, `$et-`, `$streams` and `$category-`, served from an index in memory (4 bytes an entry). The index is made by
 * one walk over the log when a system stream is first asked for, and from then on follows each commit before readers are
 * woken, so an acknowledged event is in its system streams at once. A store that nobody asks has no index.
 */
export class SystemStreams {
  private readonly streams = new Map<string, SystemStream>();
  private indexed = 0;
  private following = false;
  private touched = new Set<SystemStream>();

  constructor(private readonly store: EventStore) {}

  /** Whether the index follows each commit, so that `peek` has nothing to make up for. */
  get isReady(): boolean {
    return this.following;
  }

  /** Resolves when the index follows, letting others take turns meanwhile; without it `peek` catches up at once. */
  async ready(): Promise<void> {
    while (this.store.catalogue.lastPosition - this.indexed > TURN) {
      this.advance(TURN);
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.follow();
  }

  /** The stream, if it holds anything. */
  peek(name: string): SystemStream | undefined {
    this.follow();
    const stream = this.streams.get(name);
    return stream && stream.lastRevision >= 0 ? stream : undefined;
  }

  /** Calls `wake` after each group of commits that added to the stream. */
  watch(name: string, wake: () => void): () => void {
    this.follow();
    const { wakes } = this.stream(name);
    wakes.add(wake);
    return () => {
      wakes.delete(wake);
      if (wakes.size === 0 && !this.peek(name)) this.streams.delete(name);
    };
  }

  private follow(): void {
    this.advance(Infinity);
    if (this.following) return;
    this.following = true;
    const unwatch = this.store.watch(undefined, () => {
      try {
        this.advance(Infinity);
      } catch {
        // Commits must not fail of it: who reads a system stream next meets the same error, and all are woken for that.
        unwatch();
        this.following = false;
        for (const { wakes } of this.streams.values()) wakes.forEach((wake) => wake());
      }
    });
  }

  private advance(limit: number): void {
    const until = Math.min(this.indexed + limit, this.store.catalogue.lastPosition);
    while (this.indexed < until) {
      const page = this.store.reader.allPage(this.indexed + 1, 'forwards', until - this.indexed);
      for (const event of page) this.index(event);
      this.indexed = page.at(-1)?.position ?? until;
    }
    const touched = this.touched;
    this.touched = new Set();
    for (const stream of touched) stream.wakes.forEach((wake) => wake());
  }

  private index(event: StoredEvent): void {
    if (event.tombstone) return;
    const { stream, type, position } = event;
    const category = categoryOf(stream);
    if (category !== undefined) this.add(`$ce-${category}`, position);
    if (type !== LINK_TYPE) this.add(`$et-${type}`, position);
    if (event.revision > 0) return;
    if (!stream.replace(/^\$\$/, '').startsWith('$')) this.add(STREAMS, position);
    if (category !== undefined) this.add(`$category-${category}`, position);
  }

  private add(name: string, position: number): void {
    const stream = this.stream(name);
    stream.positions.push(position);
    this.touched.add(stream);
  }

  private stream(name: string): SystemStream {
    let stream = this.streams.get(name);
    if (!stream) {
      stream = new SystemStream(name, familyOf(name)!);
      this.streams.set(name, stream);
    }
    return stream;
  }
}

/** What stands before the first `-`; system streams and names without one, or with nothing before it, have none. */
function categoryOf(stream: string): string | undefined {
  const end = stream.indexOf('-');
  return end > 0 && !stream.startsWith('$') ? stream.slice(0, end) : undefined;
}
