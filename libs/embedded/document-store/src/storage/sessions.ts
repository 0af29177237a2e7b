import { encodePlain, Raw, type PlainDocument } from '../bson/encode.js';
import * as options from '../bson/options.js';
import { documentValue, valueBytes } from '../bson/values.js';
import { StoreError, writeConflict } from '../errors.js';
import type { Catalogue, Collection } from './catalogue.js';
import { Layer, type Table, type View } from './layers.js';
import type { Snapshot, Storage } from './storage.js';
import { Unit } from './unit.js';
import type { Work } from '../work.js';

/** A write met a document that a transaction owns; it may be tried again once that transaction ended. */
export class Blocked extends Error {
  constructor(readonly until: Promise<void>) {
    super('waits for a transaction');
  }
}

/** The documents and unique keys open transactions have written. */
export class Locks {
  private readonly owners = new Map<Table, Map<string, Transaction>>();

  ownerOf(table: Table, key: Buffer): Transaction | undefined {
    return this.owners.get(table)?.get(key.toString('latin1'));
  }

  take(table: Table, key: Buffer, owner: Transaction): void {
    let owners = this.owners.get(table);
    if (!owners) this.owners.set(table, (owners = new Map<string, Transaction>()));
    const name = key.toString('latin1');
    owners.set(name, owner);
    owner.locked.push([table, name]);
  }

  release(owner: Transaction): void {
    for (const [table, name] of owner.locked) {
      const owners = this.owners.get(table);
      owners?.delete(name);
      if (owners?.size === 0) this.owners.delete(table);
    }
  }

  /** The claim of a write outside any transaction. */
  readonly claim = (table: Table, key: Buffer): void => {
    const owner = this.ownerOf(table, key);
    if (owner) throw new Blocked(owner.ended);
  };
}

/**
 * A transaction: a snapshot, its changes above it, and the locks on what it wrote. The first writer of a document or
 * unique key wins: a second transaction, or one whose snapshot is older than the last commit there, fails with 112
 * and `TransientTransactionError`. Nothing is visible or on disk before `commit`.
 */
export class Transaction {
  readonly ended: Promise<void>;
  readonly startedAt = Date.now();
  readonly unit: Unit;
  /** What it owns, for `Locks`. */
  readonly locked: [Table, string][] = [];
  state: 'open' | 'committed' | 'aborted' = 'open';
  private readonly snapshot: Snapshot;
  private readonly created = new Map<string, Collection>();
  private readonly touched = new Set<Collection>();
  private end: () => void = () => undefined;

  constructor(
    private readonly storage: Storage,
    private readonly catalogue: Catalogue,
    private readonly locks: Locks,
    readonly number: bigint,
  ) {
    this.snapshot = storage.snapshot();
    this.ended = new Promise((resolve) => (this.end = resolve));
    this.unit = new Unit(this.snapshot, catalogue, (table, key) => this.claim(table, key));
  }

  collection(namespace: string): Collection | undefined {
    const created = this.created.get(namespace);
    if (created) return created;
    const known = this.catalogue.get(namespace);
    if (known) this.checkUnchanged(known);
    return known;
  }

  /** A collection that comes into being with the commit. */
  create(namespace: string): Collection {
    const collection = this.catalogue.build(namespace);
    this.created.set(namespace, collection);
    return collection;
  }

  private checkUnchanged(collection: Collection): void {
    this.touched.add(collection);
    if (collection.changedAt > this.snapshot.sequence)
      throw writeConflict(`the indexes of ${collection.namespace} changed since the transaction began`);
  }

  private claim(table: Table, key: Buffer): void {
    const owner = this.locks.ownerOf(table, key);
    if (owner === this) return;
    if (owner) throw writeConflict('another transaction wrote the same document or key');
    if (table.mergedAt <= this.snapshot.mergedAt) return this.locks.take(table, key, this);
    const [seen, now] = [this.snapshot.get(table, key), this.storage.latest.get(table, key)];
    if (seen === now || (seen && now && seen.equals(now))) return this.locks.take(table, key, this);
    throw writeConflict('a document or key changed since the transaction began');
  }

  /** Merges the transaction into what goes to disk next; resolves when it is there. */
  commit(): Promise<void> {
    for (const collection of this.touched) {
      if (this.catalogue.get(collection.namespace) !== collection)
        throw writeConflict(`${collection.namespace} was dropped`);
      this.checkUnchanged(collection);
    }
    for (const namespace of this.created.keys())
      if (this.catalogue.get(namespace)) throw writeConflict(`${namespace} was created meanwhile`);
    for (const collection of this.created.values()) this.catalogue.install(collection, this.unit.layer);
    const saved = this.storage.merge(this.unit.layer);
    this.finish('committed');
    return saved;
  }

  abort(): void {
    if (this.state !== 'open') return;
    this.finish('aborted');
    const tables = [...this.created.values()].flatMap(({ records, indexes }) => [
      records,
      ...indexes.map(({ table }) => table),
    ]);
    this.catalogue.spareAll(tables);
  }

  private finish(state: 'committed' | 'aborted'): void {
    this.state = state;
    this.snapshot.release();
    this.locks.release(this);
    this.end();
  }
}

/** What a session last did, as kept on disk: the answer of a retryable write, or that a transaction committed. */
interface Remembered {
  readonly number: bigint;
  readonly reply?: Buffer;
}

export class Session {
  usedAt = Date.now();
  transaction: Transaction | undefined;

  constructor(
    readonly id: Buffer,
    public last: Remembered | undefined,
  ) {}
}

/** Sessions are forgotten this long after their last use, in minutes; drivers are told. */
export const sessionMinutes = 30;
const maximumSessions = 100_000;

/** Longest life of a transaction, in milliseconds: its snapshot keeps pages from reuse. */
const transactionMilliseconds = 60_000;

/**
 * Sessions by lsid. The answer of a retryable write is kept in the same commit as its changes, so that a driver that
 * asks again (also after a crash) gets the answer and nothing is done twice.
 */
export class Sessions {
  private readonly open = new Map<string, Session>();
  private readonly table: Table;

  constructor(private readonly storage: Storage) {
    this.table = storage.table('retries');
  }

  of(id: Buffer): Session {
    const name = id.toString('latin1');
    let session = this.open.get(name);
    if (!session) {
      if (this.open.size >= maximumSessions)
        throw new StoreError(2, `more than ${maximumSessions} sessions are open`);
      this.open.set(name, (session = new Session(id, this.stored(id))));
    }
    session.usedAt = Date.now();
    return session;
  }

  private stored(id: Buffer): Remembered | undefined {
    const bytes = this.storage.latest.get(this.table, id);
    if (!bytes) return undefined;
    const value = documentValue(bytes);
    const reply = options.document(value, 'reply');
    return { number: options.long(value, 'number') ?? -1n, ...(reply ? { reply: valueBytes(reply) } : {}) };
  }

  /** Keeps what the session did, in the layer of what it did. */
  remember(session: Session, number: bigint, layer: Layer, reply?: PlainDocument): Remembered {
    const bytes = reply && encodePlain(reply);
    const kept = { number, at: new Date(), ...(bytes ? { reply: Raw.document(bytes) } : {}) };
    layer.set(this.table, session.id, encodePlain(kept));
    return (session.last = { number, ...(bytes ? { reply: bytes } : {}) });
  }

  end(id: Buffer): void {
    const name = id.toString('latin1');
    this.open.get(name)?.transaction?.abort();
    this.open.delete(name);
  }

  /** Aborts transactions past their time, forgets idle sessions. */
  expire(now: number): void {
    for (const [name, { transaction, usedAt }] of this.open) {
      if (transaction && now - transaction.startedAt > transactionMilliseconds) transaction.abort();
      if (now - usedAt > sessionMinutes * 60_000) this.open.delete(name);
    }
  }

  /** Forgets answers and commits that never reached the file: asked again, they are done again. */
  *restore(): Work<void> {
    let count = 0;
    for (const session of [...this.open.values()]) {
      session.last = this.stored(session.id);
      const { transaction } = session;
      if (transaction?.state === 'committed' && transaction.number > (session.last?.number ?? -1n))
        session.transaction = undefined;
      if (++count % 256 === 0) yield undefined;
    }
  }

  /** Removes kept answers older than any session. */
  sweep(view: View, now: number): Layer {
    const layer = new Layer();
    const { entries } = view.read(
      this.table,
      { from: Buffer.alloc(0), to: Buffer.alloc(64, 0xff) },
      maximumSessions,
    );
    for (const { key, value } of entries) {
      const at = options.present(documentValue(value), 'at');
      if (at && now - Number(at.bytes.readBigInt64LE(at.at)) > 2 * sessionMinutes * 60_000)
        layer.set(this.table, key, undefined);
    }
    return layer;
  }

  abortAll(): void {
    for (const { transaction } of this.open.values()) transaction?.abort();
  }
}
