import { statfsSync } from 'node:fs';
import { constants } from 'node:os';
import { crc32 } from 'node:zlib';
import { open, type Database, type RootDatabase, type Transaction } from 'lmdb';
import { StoreError } from '../errors.js';
import { Layer, type Piece, type Range, type Table, type View } from './layers.js';

/** Tables (collections and indexes together) one store can hold. */
export const maximumTables = 1000;

/** Bytes on disk are not those that were written: they are never served. */
export class DamagedEntry extends Error {}

/** Tables with a checksum behind every value; those of collections of the first format (`t1`, …) have none. */
const sealedName = /^c\d+$/;

/** The store's own tables: their values are BSON, which ends with a 0, and this behind the checksum tells them from it. */
const sealedOwn = 1;
export const ownTables: readonly string[] = ['catalogue', 'retries', 'users'];

class StoredTable implements Table {
  mergedAt = 0;
  private readonly isOwn: boolean;
  private readonly sealed: boolean;

  constructor(
    readonly name: string,
    readonly born: number,
    readonly database: Database<Buffer, Buffer>,
  ) {
    this.isOwn = ownTables.includes(name);
    this.sealed = this.isOwn || sealedName.test(name);
  }

  /** The value as it lies on disk: with the CRC-32 of key and value behind it. */
  seal(key: Buffer, value: Buffer): Buffer {
    if (!this.sealed) return value;
    const sealed = Buffer.allocUnsafe(value.length + (this.isOwn ? 5 : 4));
    sealed.writeUInt32LE(crc32(value, crc32(key)), value.copy(sealed));
    if (this.isOwn) sealed[value.length + 4] = sealedOwn;
    return sealed;
  }

  /** @throws DamagedEntry when key or value are not what was written. */
  opened(key: Buffer, stored: Buffer): Buffer {
    if (!this.sealed || (this.isOwn && isUnsealed(stored))) return stored;
    const end = stored.length - (this.isOwn ? 5 : 4);
    const marked = !this.isOwn || stored[end + 4] === sealedOwn;
    if (end >= 0 && marked) {
      const value = stored.subarray(0, end);
      if (crc32(value, crc32(key)) === stored.readUInt32LE(end)) return value;
    }
    const named = this.isOwn ? JSON.stringify(key.toString('latin1')) : key.toString('hex');
    throw new DamagedEntry(`damaged data: table ${this.name}, key ${named}`);
  }
}

/** As the store's own tables were kept by the first two formats. */
const isUnsealed = (stored: Buffer): boolean =>
  stored.length >= 5 && stored[stored.length - 1] === 0 && stored.readInt32LE(0) === stored.length;

/** A state of the file that later commits do not change. Held too long it keeps freed pages from reuse: release it. */
export class Snapshot implements View {
  private released = false;

  constructor(
    private readonly transaction: Transaction,
    readonly sequence: number,
    /** Number of the last merge it shows: a table merged later is another one now. */
    readonly mergedAt: number,
  ) {}

  get(table: Table, key: Buffer): Buffer | undefined {
    this.checkHeld();
    if (table.born > this.sequence) return undefined;
    return readOne(table as StoredTable, key, this.transaction);
  }

  read(table: Table, range: Range, limit: number): Piece {
    this.checkHeld();
    if (table.born > this.sequence) return { entries: [] };
    return readPiece(table as StoredTable, range, limit, this.transaction);
  }

  private checkHeld(): void {
    if (this.released)
      throw new StoreError(251, 'the transaction has ended', {}, ['TransientTransactionError']);
  }

  release(): void {
    if (!this.released) this.transaction.done();
    this.released = true;
  }
}

function readOne(table: StoredTable, key: Buffer, transaction?: Transaction): Buffer | undefined {
  const stored = transaction ? table.database.get(key, { transaction }) : table.database.get(key);
  return stored && table.opened(key, stored);
}

/** lmdb walks `[start, end)` forwards; backwards its bounds change places and inclusiveness. */
function readPiece(
  table: StoredTable,
  { from, to, reverse, after }: Range,
  limit: number,
  transaction?: Transaction,
): Piece {
  const entries = [
    ...table.database.getRange({
      ...(reverse
        ? { start: after ?? to, end: from, reverse: true, inclusiveEnd: true, exclusiveStart: true }
        : { start: after ?? from, end: to, exclusiveStart: after !== undefined }),
      limit,
      ...(transaction ? { transaction } : {}),
    }),
  ];
  for (const entry of entries) entry.value = table.opened(entry.key, entry.value);
  return entries.length < limit ? { entries } : { entries, next: entries[entries.length - 1]?.key };
}

/** Changes that reach the file together, and the promise that they did. */
class Batch {
  readonly layer = new Layer();
  readonly saved: Promise<void>;
  resolve: () => void = () => undefined;
  reject: (failure: StoreError) => void = () => undefined;

  constructor() {
    this.saved = new Promise((resolve, reject) => Object.assign(this, { resolve, reject }));
    // Who merged without waiting is told by the failure that the next merge meets.
    this.saved.catch(() => undefined);
  }
}

export interface StorageOptions {
  readonly folder: string;
  readonly onNotice: (notice: string) => void;
  /** A commit failed: called once, before anything else can be merged. */
  readonly onFailure: () => void;
  /** For looking only: nothing is made, and another process may have the store open. */
  readonly readOnly?: boolean;
}

/**
 * The file: LMDB, one named database per table, and the group commit before it.
 *
 * A unit of work is a `Layer` given to `merge`; one LMDB transaction at a time carries all that gathered since the
 * last to disk, so a unit is there whole or not at all after a crash. Nothing may be acknowledged before the promise
 * that `merge` answers is resolved.
 *
 * A commit that fails (a full disk) leaves the file as it was. Everything merged and not yet on disk is dropped and its
 * promises reject; merging is refused until `goOn` says that what was derived from it is forgotten. Reading goes on.
 */
export class Storage {
  private readonly root: RootDatabase<Buffer, Buffer>;
  private gathering: Batch | undefined;
  private flushing: Batch | undefined;
  private running: Promise<void> | undefined;
  private failure: StoreError | undefined;
  /** Why the last commit failed: the next that succeeds is told of. */
  private trouble: StoreError | undefined;
  private merges = 0;
  /** Number of the last merge that is on disk. */
  private onDisk = 0;
  /** Counts changes of the catalogue; snapshots carry it. */
  sequence = 0;

  constructor(private readonly options: StorageOptions) {
    this.root = open<Buffer, Buffer>({
      path: options.folder,
      maxDbs: maximumTables + 8,
      encoding: 'binary',
      keyEncoding: 'binary',
      overlappingSync: false,
      // Batches of its own would come with promises that nobody can catch when a commit fails.
      eventTurnBatching: false,
      noMemInit: true,
      readOnly: options.readOnly === true,
    });
  }

  /** Opens the table of that name, creating it empty: an empty table nobody refers to is harmless after a crash. */
  table(name: string): Table {
    try {
      const database = this.root.openDB<Buffer, Buffer>(name, { encoding: 'binary', keyEncoding: 'binary' });
      return new StoredTable(name, ++this.sequence, database);
    } catch (error) {
      throw this.refusal(error);
    }
  }

  tableNames(): string[] {
    return [...this.root.getKeys()].map((key) => key.toString('latin1').replace(/\0$/, ''));
  }

  /** Writes one state into a new file of an existing folder, leaving free pages out. Not synced. */
  copyTo(folder: string): Promise<void> {
    return this.root.backup(folder, true);
  }

  /** Pages held for a process that looked at the store and was killed are free again. */
  forgetDeadReaders(): void {
    this.root.readerCheck();
  }

  /** Frees the pages of a table that nothing refers to any more. */
  async drop(table: Table): Promise<void> {
    await (table as StoredTable).database.drop();
  }

  /** Empties a table; states already being read keep what they saw. False when that failed, and nothing changed. */
  async clear(table: Table): Promise<boolean> {
    try {
      await (table as StoredTable).database.clearAsync();
    } catch (error) {
      const { message } = this.refusal(await causeOf(error));
      this.options.onNotice(`the space of table ${table.name} is free after the next opening: ${message}`);
      return false;
    }
    this.root.resetReadTxn();
    return true;
  }

  /** An emptied table for a new use: older snapshots see nothing in it. */
  reborn(table: Table): Table {
    return new StoredTable(table.name, ++this.sequence, (table as StoredTable).database);
  }

  /** What is on disk, as of now. */
  snapshot(): Snapshot {
    if (!this.options.readOnly)
      return new Snapshot(this.root.useReadTransaction(), this.sequence, this.onDisk);
    // Another process may have written since the last look; tables are not made anew here.
    this.root.resetReadTxn();
    return new Snapshot(this.root.useReadTransaction(), Infinity, this.onDisk);
  }

  /** The highest key on disk; its value is not looked at, so that damage there keeps nothing from opening. */
  lastKey(table: Table): Buffer | undefined {
    return [...(table as StoredTable).database.getKeys({ reverse: true, limit: 1 })][0];
  }

  /** Entries on disk, without counting them one by one. */
  committedCount(table: Table): number {
    return ((table as StoredTable).database.getStats() as { entryCount: number }).entryCount;
  }

  /** Bytes of the file a table takes. */
  bytesOf(table: Table): number {
    const { pageSize, treeBranchPageCount, treeLeafPageCount, overflowPages } = (
      table as StoredTable
    ).database.getStats() as Record<
      'pageSize' | 'treeBranchPageCount' | 'treeLeafPageCount' | 'overflowPages',
      number
    >;
    return pageSize * (treeBranchPageCount + treeLeafPageCount + overflowPages);
  }

  /** The newest state, which the next unit of work is judged against: it may not be on disk yet. */
  readonly latest: View = {
    get: (table, key) => {
      const change = this.gathering?.layer.find(table, key) ?? this.flushing?.layer.find(table, key);
      return change ? change.value : readOne(table as StoredTable, key);
    },
    read: (table, range, limit) => this.stacked().read(table, range, limit),
  };

  private readonly file: View = {
    get: (table, key) => readOne(table as StoredTable, key),
    read: (table, range, limit) => readPiece(table as StoredTable, range, limit),
  };

  private stacked(): View {
    const lower = this.flushing ? this.flushing.layer.over(this.file) : this.file;
    return this.gathering ? this.gathering.layer.over(lower) : lower;
  }

  /** Takes the layer over; resolves when it, and all that was merged before it, is on disk. */
  merge(layer: Layer): Promise<void> {
    if (layer.isEmpty) return this.saved();
    if (this.failure) throw this.failure;
    this.merges++;
    for (const table of layer.changedTables()) table.mergedAt = this.merges;
    this.gathering ??= new Batch();
    this.gathering.layer.absorb(layer);
    this.running ??= new Promise<void>((done) => setImmediate(done)).then(() => this.flush());
    return this.gathering.saved;
  }

  /** Resolves when all that was merged is on disk: the newest state an answer may rest on. */
  saved(): Promise<void> {
    if (this.failure) throw this.failure;
    return (this.gathering ?? this.flushing)?.saved ?? Promise.resolve();
  }

  /** After a failed commit: memory holds what the file does again. */
  goOn(): void {
    this.failure = undefined;
  }

  private async flush(): Promise<void> {
    for (let batch = this.gathering; batch; batch = this.gathering) {
      this.flushing = batch;
      this.gathering = undefined;
      const upTo = this.merges;
      try {
        await this.commit(batch.layer);
        this.root.resetReadTxn();
        this.onDisk = upTo;
        this.flushing = undefined;
        batch.resolve();
        if (this.trouble) this.options.onNotice('commits succeed again');
        this.trouble = undefined;
      } catch (error) {
        this.fail(this.refusal(error));
      }
    }
    this.running = undefined;
  }

  /** One LMDB transaction, synced. */
  async commit(layer: Layer): Promise<void> {
    try {
      await this.root.batch(() => {
        layer.forEach((table, key, value) => {
          const { database } = table as StoredTable;
          void (value ? database.put(key, (table as StoredTable).seal(key, value)) : database.remove(key));
        });
      });
    } catch (error) {
      throw await causeOf(error);
    }
  }

  private fail(failure: StoreError): void {
    this.failure = failure;
    const lost = [this.flushing, this.gathering];
    this.flushing = this.gathering = undefined;
    if (!this.trouble) this.options.onNotice(`a commit failed, nothing of it is kept: ${failure.message}`);
    this.trouble = failure;
    this.options.onFailure();
    lost.forEach((batch) => batch?.reject(failure));
  }

  private refusal(error: unknown): StoreError {
    const { code, message } = error as { code?: unknown; message: string };
    if (!outOfSpace.has(code) && !(code === errno.EIO && this.isFull()))
      return new StoreError(1, `the write failed and nothing of it is kept: ${message}`);
    return new StoreError(full, 'the disk is full: writes are refused until there is room, reading goes on');
  }

  /** LMDB names a write that was cut short an input/output error: the room that is left tells one from the other. */
  private isFull(): boolean {
    if (this.trouble?.code === full) return true;
    const { bavail, bsize } = statfsSync(this.options.folder);
    return bavail * bsize < leastRoom;
  }

  async close(): Promise<void> {
    await this.running;
    await this.root.close();
  }
}

/** OutOfDiskSpace. */
const full = 14031;
const { errno } = constants;
const mapFull = -30792;
const outOfSpace: ReadonlySet<unknown> = new Set([errno.ENOSPC, errno.EDQUOT, errno.EFBIG, mapFull]);
const leastRoom = 16 * 1024 * 1024;

/** lmdb rejects with an error that says where the cause is: in a promise of its own. */
async function causeOf(error: unknown): Promise<unknown> {
  const { commitError } = error as { commitError?: Promise<never> };
  return commitError ? commitError.catch((cause: unknown) => cause) : error;
}
