import { LRUCache } from 'lru-cache';
import type { DomainEvent } from '#libs/decider';
import type { Vault } from '#libs/vault';
import type { Connection } from './connection.js';
import { type StoredEvent, eventDigest, streamParts } from './envelope.js';
import { UnknownStoredEvent } from './errors.js';
import { type Appended, type Fold, type Foldable, emptyFold } from './fold.js';
import { openWhatOpens, type PayloadReader } from './open-event.js';
import { type Snapshots, openSnapshot, takeSnapshot } from './snapshots.js';
import { eventType } from './stream-kind.js';

/** Tells what went wrong where nothing fails: a snapshot that was not used, a connection made anew. */
export type Notice = (text: string, fields: Readonly<Record<string, unknown>>) => void;

interface FoldsOptions {
  readonly connection: Connection;
  readonly vault: Vault;
  readonly snapshots: Snapshots | undefined;
  readonly payloads?: PayloadReader | undefined;
  readonly cachedStreams: number;
  readonly onNotice: Notice;
}

const CACHED_BYTES = 512 * 1024 * 1024;
const EVENT_BYTES = 600;
const SNAPSHOT_AFTER_READING = 500;
const SNAPSHOT_AFTER_APPENDING = 1000n;
const SNAPSHOT_WAIT_MS = 1000;

/**
 * The folds of streams, the recent ones kept. A kept fold is current as far as this process knows; another process
 * may have appended since, which `refresh` finds out. Callers see to it that one stream is worked on by one at a time.
 *
 * A missing fold is made from its snapshot and the events after it, or from the whole stream. A snapshot counts only
 * if the event at its revision still has the digest it names: the stream decides, never what was saved of it.
 *
 * Content that does not open stands sealed in the state, and the fold says so (`unopenable`): whoever uses it must ask.
 */
export class Folds {
  private readonly kept: LRUCache<string, Fold<unknown>>;
  private readonly saving = new Set<Promise<void>>();

  constructor(private readonly options: FoldsOptions) {
    this.kept = new LRUCache({ max: options.cachedStreams, maxSize: CACHED_BYTES });
  }

  /** The kept fold, which may be behind (`fresh: false`), or one made now; of a missing stream, an empty one. */
  async current<State>(
    kind: Foldable<State>,
    stream: string,
  ): Promise<{ fold: Fold<State>; fresh: boolean }> {
    const kept = this.kept.get(stream) as Fold<State> | undefined;
    if (kept) return { fold: kept, fresh: false };
    return { fold: await this.load(kind, stream), fresh: true };
  }

  /**
   * Brings a fold up to the stream. A stream that does not continue the fold (it was restored from elsewhere) is
   * folded anew. A fold whose refreshing failed is not kept; it may be refreshed again.
   */
  async refresh<State>(kind: Foldable<State>, fold: Fold<State>): Promise<Fold<State>> {
    this.kept.delete(fold.stream);
    if (fold.revision < 0n || !(await this.extend(kind, fold, { check: true })))
      return this.load(kind, fold.stream);
    this.keep(fold);
    return fold;
  }

  /** A fold up to a revision (included) of a stream, made for the caller alone. */
  async asOf<State>(kind: Foldable<State>, stream: string, revision: bigint): Promise<Fold<State>> {
    const saved = await this.fromSnapshot(kind, stream, revision);
    const fold = saved ?? emptyFold(kind, stream);
    if (await this.extend(kind, fold, { check: saved !== undefined, to: revision })) return fold;
    const whole = emptyFold(kind, stream);
    await this.extend(kind, whole, { check: false, to: revision });
    return whole;
  }

  /** Folds events that were just appended, in the form in which they were decided, and keeps the fold. */
  advance<State>(
    kind: Foldable<State>,
    fold: Fold<State>,
    appended: readonly Appended[],
    position: bigint,
  ): void {
    this.kept.delete(fold.stream);
    for (const { opened, stored, digest, bytes } of appended) {
      this.take(kind, fold, opened, { ...stored, position });
      fold.digest = digest;
      fold.bytes += bytes;
    }
    this.keep(fold);
    if (fold.revision - fold.savedAt >= SNAPSHOT_AFTER_APPENDING) this.save(kind, fold);
  }

  /** Waits until snapshots that are being saved are. */
  async settle(): Promise<void> {
    while (this.saving.size > 0) await Promise.all(this.saving);
  }

  private async load<State>(kind: Foldable<State>, stream: string): Promise<Fold<State>> {
    let fold = (await this.fromSnapshot(kind, stream)) ?? emptyFold(kind, stream);
    if (!(await this.extend(kind, fold, { check: fold.revision >= 0n }))) {
      this.options.onNotice('a snapshot is not of its stream', { stream, revision: String(fold.revision) });
      fold = emptyFold(kind, stream);
      await this.extend(kind, fold, { check: false });
    }
    if (fold.revision < 0n) return fold;
    this.keep(fold);
    if (fold.revision - fold.savedAt > SNAPSHOT_AFTER_READING) this.save(kind, fold);
    return fold;
  }

  /**
   * Folds the events after the fold's revision. With `check`, first reads the event at that revision once more and
   * compares its digest; gives `false`, with nothing folded, if the stream is not the one that was folded.
   */
  private async extend<State>(
    kind: Foldable<State>,
    fold: Fold<State>,
    { check, to }: { check: boolean; to?: bigint },
  ): Promise<boolean> {
    let confirmed = !check;
    let last: StoredEvent | undefined;
    try {
      for await (const event of this.options.connection.read(
        fold.stream,
        fold.revision + (check ? 0n : 1n),
        to,
      )) {
        if (confirmed) {
          const { opened, unopenable } = await this.open(kind, event);
          fold.unopenable ??= unopenable;
          this.take(kind, fold, opened, event);
          fold.bytes += EVENT_BYTES + roughBytes(event.data);
          last = event;
        } else if (eventDigest(event) === fold.digest) confirmed = true;
        else return false;
      }
    } finally {
      if (last) fold.digest = eventDigest(last);
    }
    return confirmed;
  }

  private async open<State>(kind: Foldable<State>, event: StoredEvent) {
    if (!eventType(kind.events, event.type))
      throw new UnknownStoredEvent(event.stream, event.revision, event.type);
    return openWhatOpens(this.options.vault, event, this.options.payloads);
  }

  private take<State>(
    kind: Foldable<State>,
    fold: Fold<State>,
    opened: DomainEvent,
    stored: Pick<StoredEvent, 'revision' | 'position' | 'metadata'>,
  ): void {
    try {
      fold.state = kind.decider.evolve(fold.state, opened);
    } catch (error) {
      // What follows from content that does not open is left out; nothing is decided on it unless the caller says so.
      if (!fold.unopenable) throw error;
    }
    fold.commands.note(stored);
    fold.revision = stored.revision;
    fold.position = stored.position;
  }

  private keep(fold: Fold<unknown>): void {
    const size = Math.min(Math.max(fold.bytes, EVENT_BYTES), CACHED_BYTES / 16);
    this.kept.set(fold.stream, fold, { size });
  }

  private async fromSnapshot<State>(
    kind: Foldable<State>,
    stream: string,
    upTo?: bigint,
  ): Promise<Fold<State> | undefined> {
    const { snapshots, vault, onNotice } = this.options;
    if (!snapshots) return undefined;
    try {
      const found = await soon(snapshots.load(stream));
      if (!found || (upTo !== undefined && found.revision > upTo)) return undefined;
      return await openSnapshot(kind, found, vault, streamParts(stream).tenant);
    } catch (error) {
      onNotice('a snapshot was not used', { stream, error: String(error) });
      return undefined;
    }
  }

  /** What is saved is taken now; saving goes on beside the commands, and its failure harms nobody. */
  private save<State>(kind: Foldable<State>, fold: Fold<State>): void {
    const { snapshots, vault, onNotice } = this.options;
    if (!snapshots || kind.dataKind === undefined || fold.unopenable) return;
    fold.savedAt = fold.revision;
    const { stream, revision } = fold;
    const customerId = kind.customerOf(fold.state, []);
    const saving = vault
      .person(streamParts(stream).tenant, customerId)
      .then((keys) => takeSnapshot(kind, fold, customerId, keys))
      .then((snapshot) => snapshot && snapshots.save(snapshot))
      .catch((error: unknown) =>
        onNotice('a snapshot was not saved', { stream, revision: String(revision), error: String(error) }),
      )
      .finally(() => this.saving.delete(saving));
    this.saving.add(saving);
  }
}

function roughBytes(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 8;
  let bytes = 0;
  for (const each of Object.values(value)) bytes += 16 + roughBytes(each);
  return bytes;
}

/** A snapshot that takes longer than folding would is not waited for. */
async function soon<Result>(promised: Promise<Result>): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('no answer in time')), SNAPSHOT_WAIT_MS);
  });
  try {
    return await Promise.race([promised, late]);
  } finally {
    clearTimeout(timer);
  }
}
