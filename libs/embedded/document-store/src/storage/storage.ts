import { crc32 } from 'node:zlib';
import { open, type Database, type RootDatabase, type Transaction } from 'lmdb';
import { StoreError } from '../errors.js';
import { Layer, type Piece, type Range, type Table, type View } from './layers.js';

/** Tables (collections and indexes together) one store can hold. */
export const maximumTables = 1000;

/** Bytes on disk are not those that were written: they are never served. */
export class DamagedEntry extends Error {}

/** Tables with a checksum behind every value; those of folders of the first format have none. */
const sealedName = /^c\d+$/;

class StoredTable implements Table {
  mergedAt = 0;
  private readonly sealed: boolean;

  constructor(
    readonly name: string,
    readonly born: number,
    readonly database: Database<Buffer, Buffer>,
  ) {
    this.sealed = sealedName.test(name);
  }

  /** The value as it lies on disk: with the CRC-32 of key and value behind it. */
  seal(key: Buffer, value: Buffer): Buffer {
    if (!this.sealed) return value;
    const sealed = Buffer.allocUnsafe(value.length + 4);
    sealed.writeUInt32LE(crc32(value, crc32(key)), value.copy(sealed));
    return sealed;
  }

  /** @throws DamagedEntry when key or value are not what was written. */
  opened(key: Buffer, stored: Buffer): Buffer {
    if (!this.sealed) return stored;
    const value = stored.subarray(0, stored.length - 4);
    if (stored.length >= 4 && crc32(value, crc32(key)) === stored.readUInt32LE(value.length)) return value;
    throw new DamagedEntry(`damaged data: table ${this.name}, key ${key.toString('hex')}`);
  }
}

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

/**
 * The file: LMDB, one named database per table, and the group commit before it.
 *
 * A unit of work is a `Layer` merged into what gathers (`merge`); one LMDB transaction at a time carries all that
 * gathered since the last to disk, so a unit is there whole or not at all after a crash. `durable` resolves once
 * everything merged before the call is synced; nothing may be acknowledged earlier. When a commit fails (a full
 * disk) the store refuses every later write until it is opened again: its memory is ahead of its file.
 */
export class Storage {
  private readonly root: RootDatabase<Buffer, Buffer>;
  private gathering = new Layer();
  private flushing: Layer | undefined;
  private waiting: { resolve: () => void; reject: (error: Error) => void }[] = [];
  private running: Promise<void> | undefined;
  private failure: Error | undefined;
  private merges = 0;
  /** Number of the last merge that is on disk. */
  private onDisk = 0;
  /** Counts changes of the catalogue; snapshots carry it. */
  sequence = 0;

  constructor(folder: string) {
    this.root = open<Buffer, Buffer>({
      path: folder,
      maxDbs: maximumTables + 8,
      encoding: 'binary',
      keyEncoding: 'binary',
      overlappingSync: false,
      noMemInit: true,
    });
  }

  /** Opens the table of that name, creating it empty: an empty table nobody refers to is harmless after a crash. */
  table(name: string): Table {
    const database = this.root.openDB<Buffer, Buffer>(name, { encoding: 'binary', keyEncoding: 'binary' });
    return new StoredTable(name, ++this.sequence, database);
  }

  tableNames(): string[] {
    return [...this.root.getKeys()].map((key) => key.toString('latin1').replace(/\0$/, ''));
  }

  /** Frees the pages of a table that nothing refers to any more. */
  async drop(table: Table): Promise<void> {
    await (table as StoredTable).database.drop();
  }

  /** Empties a table; states already being read keep what they saw. */
  async clear(table: Table): Promise<void> {
    await (table as StoredTable).database.clearAsync();
    this.root.resetReadTxn();
  }

  /** An emptied table for a new use: older snapshots see nothing in it. */
  reborn(table: Table): Table {
    return new StoredTable(table.name, ++this.sequence, (table as StoredTable).database);
  }

  /** What is on disk, as of now. */
  snapshot(): Snapshot {
    return new Snapshot(this.root.useReadTransaction(), this.sequence, this.onDisk);
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
      const change = this.gathering.find(table, key) ?? this.flushing?.find(table, key);
      return change ? change.value : readOne(table as StoredTable, key);
    },
    read: (table, range, limit) => this.stacked().read(table, range, limit),
  };

  private readonly file: View = {
    get: (table, key) => readOne(table as StoredTable, key),
    read: (table, range, limit) => readPiece(table as StoredTable, range, limit),
  };

  private stacked(): View {
    const lower = this.flushing ? this.flushing.over(this.file) : this.file;
    return this.gathering.isEmpty ? lower : this.gathering.over(lower);
  }

  merge(layer: Layer): void {
    if (this.failure)
      throw new StoreError(1, `writes are refused since a commit failed: ${this.failure.message}`);
    this.merges++;
    for (const table of layer.changedTables()) table.mergedAt = this.merges;
    this.gathering.absorb(layer);
  }

  durable(): Promise<void> {
    if (this.failure) return Promise.reject(this.failure);
    if (this.gathering.isEmpty)
      return (this.running ?? Promise.resolve()).then(() => {
        if (this.failure) throw this.failure;
      });
    return new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject });
      this.running ??= new Promise<void>((done) => setImmediate(done)).then(() => this.flush());
    });
  }

  private async flush(): Promise<void> {
    const layer = (this.flushing = this.gathering);
    const waiting = this.waiting;
    const upTo = this.merges;
    this.gathering = new Layer();
    this.waiting = [];
    try {
      await this.root.batch(() => {
        layer.forEach((table, key, value) => {
          const { database } = table as StoredTable;
          void (value ? database.put(key, (table as StoredTable).seal(key, value)) : database.remove(key));
        });
      });
      this.root.resetReadTxn();
      this.onDisk = upTo;
      this.flushing = undefined;
      waiting.forEach(({ resolve }) => resolve());
    } catch (error) {
      this.failure = error as Error;
      [...waiting, ...this.waiting].forEach(({ reject }) => reject(error as Error));
      this.waiting = [];
    }
    this.running = this.gathering.isEmpty || this.failure ? undefined : this.flush();
  }

  async close(): Promise<void> {
    if (!this.failure) await this.durable();
    await this.root.close();
  }
}
