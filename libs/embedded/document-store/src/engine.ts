import { StoreError, writeConflict } from './errors.js';
import type { PlainDocument } from './bson/encode.js';
import type { Value } from './bson/values.js';
import { Catalogue, type Collection } from './storage/catalogue.js';
import { Cursors } from './storage/cursors.js';
import { expiryBatch, removeOlder } from './storage/expiry.js';
import { Layer, type Table, type View } from './storage/layers.js';
import { Locks, Sessions, Transaction, type Session } from './storage/sessions.js';
import { Storage } from './storage/storage.js';
import { Unit } from './storage/unit.js';
import { Users, type User } from './storage/users.js';
import type { Conversation } from './commands/scram.js';
import { atOnce, run, Writer, type Work } from './work.js';

export type Reply = PlainDocument | Buffer;

/** One connection, as far as commands know it. */
export interface Peer {
  readonly address: string;
  readonly port: number;
  /** Transactions whose last command came this way: they are aborted when it closes. */
  readonly transactions: Set<Transaction>;
  /** Who the connection logged in as. */
  user?: { readonly db: string; readonly name: string };
  /** A login that has begun. */
  login?: Conversation;
}

export interface Request {
  readonly name: string;
  readonly command: Value;
  readonly database: string;
  readonly peer: Peer;
  readonly session?: Session;
  /** Number of a retryable write or of the transaction. */
  readonly number?: bigint;
  readonly transaction?: Transaction;
  /** Throws 50 when the time the client gave is over. */
  readonly checkTime: () => void;
}

/** What a unit of work answers once it is on disk. Not awaited inside: the writer goes on with the next. */
interface Merged<T> {
  readonly value: T;
  readonly saved: Promise<void>;
}

/** Everything commands work with. */
export class Engine {
  readonly storage: Storage;
  readonly catalogue: Catalogue;
  readonly sessions: Sessions;
  readonly users: Users;
  readonly cursors = new Cursors();
  readonly locks = new Locks();
  readonly writer = new Writer();
  /** Open connections, as the server counts them. */
  connections = 0;
  private readonly timer: NodeJS.Timeout;

  private constructor(
    folder: string,
    private readonly onNotice: (notice: string) => void,
  ) {
    this.storage = new Storage({ folder, onNotice, onFailure: () => void this.restore() });
    this.catalogue = new Catalogue(this.storage);
    this.sessions = new Sessions(this.storage);
    this.users = new Users(this.storage);
    this.timer = setInterval(() => {
      this.expiring ??= this.expire(Date.now())
        .catch((error) => onNotice(`expiry failed: ${String(error)}`))
        .finally(() => (this.expiring = undefined));
    }, 5_000);
    this.timer.unref();
  }

  static async open(folder: string, onNotice: (notice: string) => void): Promise<Engine> {
    const engine = new Engine(folder, onNotice);
    try {
      engine.users.load();
      await engine.catalogue.load();
    } catch (error) {
      await engine.close();
      throw error;
    }
    return engine;
  }

  private sweptAt = 0;

  private expiring: Promise<void> | undefined;
  /** Documents removed because their time was over, since the store was opened. */
  expired = 0;

  /**
   * Ends what has outlived its time at `now`: transactions, sessions, cursors, documents by their TTL indexes. Runs
   * every five seconds; a reader that must not see an expired document earlier says so in its filter. An index whose
   * walk fails (a damaged entry) is told of and passed over until the next run.
   */
  async expire(now: number): Promise<void> {
    this.sessions.expire(now);
    this.cursors.expire(now);
    for (const collection of this.catalogue.all())
      for (const index of collection.indexes)
        if (index.expireAfterSeconds !== undefined)
          await this.removeExpired(collection, index.table, now).catch((error: unknown) =>
            this.onNotice(
              `expiry by index ${index.name} of ${collection.namespace} failed: ${String(error)}`,
            ),
          );
    if (now - this.sweptAt < 600_000) return;
    this.sweptAt = now;
    this.storage.forgetDeadReaders();
    const old = this.sessions.sweep(this.storage.latest, now);
    if (old.isEmpty) return;
    await this.storage.merge(old);
  }

  /**
   * After a failed commit, once the writes that were judged against what is lost have been refused: memory is what the
   * file holds again, and writing is tried anew.
   */
  private async restore(): Promise<void> {
    const work = function* (this: Engine): Work<void> {
      this.catalogue.restore();
      yield* this.sessions.restore();
      this.storage.goOn();
    }.bind(this);
    await this.writer
      .run(work)
      .catch((error: unknown) =>
        this.onNotice(`writes are refused until the next opening: ${String(error)}`),
      );
  }

  /** Batch by batch, each by what the index is by then: between two it may be changed, dropped or renamed away. */
  private async removeExpired(collection: Collection, table: Table, now: number): Promise<void> {
    const remove = function* (this: Engine): Work<Merged<number>> {
      const isThere = this.catalogue.get(collection.namespace) === collection;
      const index = isThere ? collection.indexes.find((known) => known.table === table) : undefined;
      if (index?.expireAfterSeconds === undefined) return { value: 0, saved: Promise.resolve() };
      const before = new Date(now - index.expireAfterSeconds * 1_000);
      const unit = new Unit(this.storage.latest, this.catalogue, this.locks.claim);
      const value = yield* removeOlder(unit, collection, index, before);
      return { value, saved: this.storage.merge(unit.layer) };
    }.bind(this);
    for (let more = true; more && !this.closing;) {
      const { value: removed, saved } = await this.writer.run(remove);
      await saved;
      this.expired += removed;
      more = removed === expiryBatch;
    }
  }

  beginTransaction(session: Session, number: bigint): Transaction {
    session.transaction?.abort();
    return (session.transaction = new Transaction(this.storage, this.catalogue, this.locks, number));
  }

  collection({ transaction }: Request, namespace: string): Collection | undefined {
    return transaction ? transaction.collection(namespace) : this.catalogue.get(namespace);
  }

  /** The collection, created when it is not there: at once, or with the commit of the transaction. */
  ensureCollection({ transaction }: Request, namespace: string): Collection {
    if (transaction) return transaction.collection(namespace) ?? transaction.create(namespace);
    const known = this.catalogue.get(namespace);
    if (known) return known;
    const collection = this.catalogue.build(namespace);
    const layer = new Layer();
    this.catalogue.install(collection, layer);
    void this.storage.merge(layer);
    return collection;
  }

  /** Reads from one state: the transaction's, or what is on disk now. */
  async read<T>(request: Request, body: (view: View) => Work<T>): Promise<T> {
    if (request.transaction) return run(body(request.transaction.unit), request.checkTime);
    const snapshot = this.storage.snapshot();
    try {
      return await run(body(snapshot), request.checkTime);
    } finally {
      snapshot.release();
    }
  }

  /**
   * Runs a write after those before it and answers when it is on disk. Inside a transaction it only adds to the
   * transaction. A retryable write that was answered before gets that answer.
   */
  async write(request: Request, body: (unit: Unit) => Work<PlainDocument>): Promise<Reply> {
    const { transaction, session, number } = request;
    if (transaction)
      return this.writer.run(() => {
        if (transaction.state !== 'open') throw writeConflict('the transaction was aborted');
        return body(transaction.unit);
      }, request.checkTime);
    const work = this.unitOfWork.bind(this, session, number, body);
    const { value: reply, saved } = await this.writer.run(work, request.checkTime);
    await saved;
    return reply;
  }

  private *unitOfWork(
    session: Session | undefined,
    number: bigint | undefined,
    body: (unit: Unit) => Work<PlainDocument>,
  ): Work<Merged<Reply>> {
    const last = session?.last;
    if (number !== undefined && last) {
      if (last.number === number && last.reply) return { value: last.reply, saved: this.storage.saved() };
      if (last.number >= number) throw tooOld(number, last.number);
    }
    const unit = new Unit(this.storage.latest, this.catalogue, this.locks.claim);
    const value = yield* body(unit);
    if (session && number !== undefined) this.sessions.remember(session, number, unit.layer, value);
    return { value, saved: this.storage.merge(unit.layer) };
  }

  /** A change of the catalogue: after the writes before it, on disk before it is answered. */
  async define<T>(body: (layer: Layer) => Work<T>): Promise<T> {
    const { value, saved } = await this.writer.run(
      function* (this: Engine): Work<Merged<T>> {
        const layer = new Layer();
        const result = yield* body(layer);
        return { value: result, saved: this.storage.merge(layer) };
      }.bind(this),
    );
    await saved;
    return value;
  }

  /** A change of the users the body answers: counts once it is on disk, for open connections too. */
  async defineUsers(body: (layer: Layer) => readonly User[]): Promise<void> {
    const changed = await this.define((layer) => atOnce(() => body(layer)));
    changed.forEach((user) => this.users.settle(user));
  }

  private closing = false;

  async close(): Promise<void> {
    this.closing = true;
    clearInterval(this.timer);
    this.sessions.abortAll();
    await this.expiring;
    this.cursors.clear();
    await this.writer.run(() => atOnce(() => undefined));
    await this.storage.close();
  }
}

export const tooOld = (number: bigint, last: bigint): StoreError =>
  new StoreError(225, `txnNumber ${number} is older than ${last}, which the session already used`);
