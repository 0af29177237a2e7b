import { randomBytes } from 'node:crypto';
import { StoreError } from '../errors.js';
import { ArrayWriter, type PlainDocument, type Raw } from '../bson/encode.js';
import { documentValue } from '../bson/values.js';
import { isDue, type Work } from '../work.js';
import type { Piece, Range, Table, View } from './layers.js';
import type { Transaction } from './sessions.js';
import type { User } from './users.js';

/** Reads from whatever state it is pointed at: a cursor moves to a newer one with every batch. */
export class MovingView implements View {
  current: View | undefined;

  get(table: Table, key: Buffer): Buffer | undefined {
    return this.current?.get(table, key);
  }

  read(table: Table, range: Range, limit: number): Piece {
    return this.current ? this.current.read(table, range, limit) : { entries: [] };
  }
}

export type Documents = Generator<Buffer | undefined, void, void>;

export interface Cursor {
  readonly namespace: string;
  readonly documents: Documents;
  readonly view: MovingView;
  readonly transaction?: Transaction | undefined;
  readonly session?: Buffer | undefined;
  /** Who opened it: nobody else may go on with it or kill it. */
  readonly user?: Pick<User, 'db' | 'name'> | undefined;
  /** False once the collection or its indexes changed under the cursor. */
  readonly isValid: () => boolean;
  /** A document that was read but did not fit. */
  held?: Buffer | undefined;
  usedAt?: number;
  busy?: boolean;
}

const maximumCursors = 5_000;
const idleMilliseconds = 600_000;

/** Documents of one batch take this many bytes at most, which are encoded and sent in one go; one document always fits. */
const batchBytes = 4 * 1024 * 1024;

/** Open cursors by id; forgotten after ten idle minutes, with their session, or when killed. */
export class Cursors {
  private readonly open = new Map<bigint, Cursor>();

  /** The first batch; the cursor stays open only when there is more. */
  *first(cursor: Cursor, size: number, single: boolean): Work<PlainDocument> {
    const batch = yield* this.batch(cursor, size);
    const id = batch.more && !single ? this.keep(cursor) : 0n;
    return { cursor: { firstBatch: batch.documents, id, ns: cursor.namespace }, ok: 1 };
  }

  *next(id: bigint, size: number): Work<PlainDocument> {
    const cursor = this.find(id);
    if (cursor.busy) throw new StoreError(2, `cursor id ${id} is in use`);
    cursor.busy = true;
    try {
      const batch = yield* this.batch(cursor, size);
      if (!batch.more) this.open.delete(id);
      return {
        cursor: { nextBatch: batch.documents, id: batch.more ? id : 0n, ns: cursor.namespace },
        ok: 1,
      };
    } finally {
      cursor.busy = false;
      cursor.usedAt = Date.now();
    }
  }

  find(id: bigint): Cursor {
    const cursor = this.open.get(id);
    if (!cursor) throw new StoreError(43, `cursor id ${id} not found`);
    if (cursor.isValid()) return cursor;
    this.open.delete(id);
    throw new StoreError(175, `the collection or an index changed while cursor ${id} was open`);
  }

  kill(id: bigint, allowed: (cursor: Cursor) => boolean): boolean {
    const cursor = this.open.get(id);
    return cursor !== undefined && allowed(cursor) && this.open.delete(id);
  }

  killSession(session: Buffer): void {
    for (const [id, cursor] of this.open) if (cursor.session?.equals(session)) this.open.delete(id);
  }

  expire(now: number): void {
    for (const [id, { usedAt = 0, busy }] of this.open)
      if (!busy && now - usedAt > idleMilliseconds) this.open.delete(id);
  }

  clear(): void {
    this.open.clear();
  }

  private keep(cursor: Cursor): bigint {
    if (this.open.size >= maximumCursors)
      throw new StoreError(2, `more than ${maximumCursors} cursors are open`);
    const id = (randomBytes(8).readBigUInt64BE() >> 1n) | 1n;
    cursor.usedAt = Date.now();
    this.open.set(id, cursor);
    return id;
  }

  /** Reads one document ahead, so that an exhausted cursor is not left open. */
  private *batch(cursor: Cursor, size: number): Work<{ documents: Raw; more: boolean }> {
    const documents = new ArrayWriter();
    let bytes = 0;
    for (;;) {
      const document = cursor.held ?? (yield* nextDocument(cursor.documents));
      cursor.held = document;
      if (!document) return { documents: documents.finish(), more: false };
      if (documents.count >= size || (documents.count > 0 && bytes + document.length > batchBytes))
        return { documents: documents.finish(), more: true };
      documents.add(documentValue(document));
      bytes += document.length;
      cursor.held = undefined;
      if (isDue()) yield undefined;
    }
  }
}

function* nextDocument(documents: Documents): Work<Buffer | undefined> {
  for (;;) {
    const step = documents.next();
    if (step.done) return undefined;
    if (step.value) return step.value;
    yield undefined;
  }
}
