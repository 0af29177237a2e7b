import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deserialize, serialize, type Document } from 'bson';
import { encodePlain } from '../bson/encode.js';
import { documentValue } from '../bson/values.js';
import { dispatch } from '../commands/dispatch.js';
import { Engine, type Peer } from '../engine.js';
import type { StoreError } from '../errors.js';

let engine: Engine;
let folder: string;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-indexes-'));
  engine = await Engine.open(folder, (notice) => process.stderr.write(`${notice}\n`));
});
afterEach(async () => {
  await engine.close();
  rmSync(folder, { recursive: true });
});

const peer: Peer = { address: '127.0.0.1', port: 1, transactions: new Set() };

async function command(document: Document): Promise<Document> {
  const $db = (document['$db'] ?? 'test') as string;
  const bytes = Buffer.from(serialize({ ...document, $db }, { ignoreUndefined: true }));
  const reply = await dispatch(engine, peer, documentValue(bytes));
  return deserialize(Buffer.isBuffer(reply) ? reply : encodePlain(reply));
}

const refusal = (document: Document): Promise<unknown> =>
  command(document).then(
    ({ writeErrors }) => (writeErrors as [{ code: number }] | undefined)?.[0].code,
    ({ code }: StoreError) => code,
  );

const createIndex = (key: Document, options: Document = {}): Document => ({
  createIndexes: 'c',
  indexes: [{ key, name: 'i', ...options }],
});

const idsOf = (reply: Document): unknown[] =>
  ((reply['cursor'] as Document)['firstBatch'] as Document[]).map(({ _id }) => _id as unknown);

async function ids(filter: Document, sort: Document = { _id: 1 }): Promise<unknown[]> {
  return idsOf(await command({ find: 'c', filter, sort }));
}

/** Name of the index a filter is answered by. */
async function indexFor(filter: Document, sort?: Document): Promise<string | undefined> {
  const explained = JSON.stringify(await command({ explain: { find: 'c', filter, sort } }));
  return /"indexName":"(\w+)"/.exec(explained)?.[1];
}

const valid = async (): Promise<unknown> => (await command({ validate: 'c' }))['errors'];

describe('a partial index', () => {
  it('holds only what its filter takes, and answers only questions that imply it', async () => {
    await command(createIndex({ a: 1 }, { unique: true, partialFilterExpression: { n: { $gt: 5 } } }));
    const documents = [
      { _id: 1, a: 'x', n: 6 },
      { _id: 2, a: 'x', n: 5 },
      { _id: 3, a: 'x', n: 'text' },
      { _id: 4, a: 'y' },
    ];
    expect(await command({ insert: 'c', documents })).toEqual({ n: 4, ok: 1 });
    expect(await refusal({ insert: 'c', documents: [{ _id: 5, a: 'x', n: 7 }] })).toBe(11000);
    expect((await command({ validate: 'c' }))['keysPerIndex']).toEqual({ _id_: 4, i: 1 });
    const used = [{ n: { $gt: 5 } }, { n: { $gte: 6 } }, { n: 6 }, { n: { $in: [6, 7] } }];
    for (const n of used) {
      expect(await indexFor({ a: 'x', ...n })).toBe('i');
      expect(await ids({ a: 'x', ...n })).toEqual([1]);
    }
    for (const n of [{}, { n: { $gt: 4 } }, { n: 'text' }, { n: { $gt: 'a' } }, { n: { $in: [6, 4] } }])
      expect(await indexFor({ a: 'x', ...n })).toBeUndefined();
    expect(await ids({ a: 'x' })).toEqual([1, 2, 3]);
    expect(await refusal({ find: 'c', filter: { a: 'x' }, hint: 'i' })).toBe(238);
  });

  it('takes documents in and lets them go as they change', async () => {
    await command(createIndex({ a: 1 }, { partialFilterExpression: { open: { $exists: true } } }));
    await command({ insert: 'c', documents: [{ _id: 1, a: 1 }] });
    const change = (u: Document) => command({ update: 'c', updates: [{ q: { _id: 1 }, u }] });
    await change({ $set: { open: 1 } });
    expect(await indexFor({ a: 1, open: 1 })).toBe('i');
    expect(await ids({ a: 1, open: 1 })).toEqual([1]);
    await change({ $unset: { open: '' } });
    expect((await command({ validate: 'c' }))['keysPerIndex']).toEqual({ _id_: 1, i: 0 });
    expect(await valid()).toEqual([]);
  });

  it('of an operator that has no place there is refused', async () => {
    for (const filter of [{ a: { $exists: false } }, { a: { $regex: 'x' } }, { $nor: [{ a: 1 }] }])
      expect(await refusal(createIndex({ a: 1 }, { partialFilterExpression: filter }))).toBe(67);
  });
});

describe('a TTL index', () => {
  const at = (seconds: number): Date => new Date(1_700_000_000_000 + seconds * 1_000);

  it('lets dates expire, the earliest of an array, and nothing else', async () => {
    await command(createIndex({ at: 1 }, { expireAfterSeconds: 60 }));
    const values = [at(0), at(1), [at(100), at(0)], 'text', 0, null];
    await command({ insert: 'c', documents: values.map((value, _id) => ({ _id, at: value })) });
    await engine.expire(at(61).getTime());
    expect(await ids({})).toEqual([1, 3, 4, 5]);
    await engine.expire(at(62).getTime());
    expect(await ids({})).toEqual([3, 4, 5]);
    expect(engine.expired).toBe(3);
    expect(await valid()).toEqual([]);
  });

  it('that is partial lets only its own documents expire', async () => {
    const partialFilterExpression = { done: true };
    await command(createIndex({ at: -1 }, { expireAfterSeconds: 0, partialFilterExpression }));
    const documents = [
      { _id: 1, at: at(0), done: true },
      { _id: 2, at: at(0) },
    ];
    await command({ insert: 'c', documents });
    await engine.expire(at(1).getTime());
    expect(await ids({})).toEqual([2]);
  });

  describe('changed between two batches of its walk', () => {
    const change = { collMod: 'c', index: { name: 'i', expireAfterSeconds: 3_600 } };
    it.each([
      ['to keep longer', change],
      ['away', { dropIndexes: 'c', index: 'i' }],
      ['together with its collection', { renameCollection: 'test.c', to: 'test.d', $db: 'admin' }],
    ])('%s removes nothing more', async (_, second) => {
      await command(createIndex({ at: 1 }, { expireAfterSeconds: 0 }));
      const documents = Array.from({ length: 700 }, (_, _id) => ({ _id, at: at(0) }));
      await command({ insert: 'c', documents });
      const expired = engine.expire(at(1).getTime());
      expect(await command(second)).toMatchObject({ ok: 1 });
      await expired;
      expect(engine.expired).toBe(500);
    });
  });

  it('is of one field, not _id, and is listed with its time', async () => {
    expect(await refusal(createIndex({ a: 1, b: 1 }, { expireAfterSeconds: 1 }))).toBe(67);
    expect(await refusal(createIndex({ a: 1 }, { expireAfterSeconds: 2 ** 31 }))).toBe(67);
    await command(createIndex({ a: 1 }, { expireAfterSeconds: 7 }));
    const listed = await command({ listIndexes: 'c' });
    const [, index] = (listed['cursor'] as Document)['firstBatch'] as Document[];
    expect(index).toEqual({ v: 2, key: { a: 1 }, name: 'i', expireAfterSeconds: 7 });
    const change = { keyPattern: { a: 1 }, expireAfterSeconds: 9 };
    const answer = { expireAfterSeconds_old: 7, expireAfterSeconds_new: 9, ok: 1 };
    expect(await command({ collMod: 'c', index: change })).toEqual(answer);
    expect(await refusal(createIndex({ a: 1 }, { expireAfterSeconds: 7 }))).toBe(85);
  });
});

describe('a long key', () => {
  const long = (end: string): string => 'k'.repeat(3_000) + end;

  it('is told from others that begin alike, also where it must be unique', async () => {
    await command(createIndex({ a: 1 }, { unique: true }));
    const documents = ['1', '2', ''].map((end, _id) => ({ _id, a: long(end) }));
    await command({ insert: 'c', documents: [...documents, { _id: 9, a: 'short' }] });
    expect(await refusal({ insert: 'c', documents: [{ a: long('2') }] })).toBe(11000);
    expect(await indexFor({ a: long('2') })).toBe('i');
    expect(await ids({ a: long('2') })).toEqual([1]);
    expect(await ids({ a: { $gt: long('1') } })).toEqual([1, 9]);
    expect(await ids({ a: { $lte: long('1') } })).toEqual([0, 2]);
    expect(await ids({ a: { $gte: 'k' } }, { a: 1 })).toEqual([2, 0, 1, 9]);
    expect(await ids({ a: { $regex: `^${long('')}` } })).toEqual([0, 1, 2]);
    expect(await valid()).toEqual([]);
  });

  it('of an _id is refused, and one that is asked for is not found', async () => {
    expect(await refusal({ insert: 'c', documents: [{ _id: long('') }] })).toBe(17280);
    await command({ insert: 'c', documents: [{ _id: 1 }] });
    expect(await ids({ _id: long('') })).toEqual([]);
    expect(await ids({ _id: { $gt: long(''), $lt: long('x') } })).toEqual([]);
  });
});
