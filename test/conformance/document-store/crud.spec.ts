import { Binary, Decimal128, Double, type Document, Int32, Long, MongoClient, ObjectId, UUID } from 'mongodb';
import { openTarget, type Target } from './target.js';

interface Item extends Document {
  _id: string | number;
}

let target: Target;
beforeAll(async () => {
  target = await openTarget();
});
afterAll(() => target.close());

let names = 0;
const fresh = () => target.db.collection<Item>(`c${++names}`);

describe('connecting', () => {
  it('works with a plain URL, a direct connection and a replica set name', async () => {
    const { host, port } = target.client.options.hosts[0] as { host: string; port: number };
    for (const query of ['', '?directConnection=true', '?replicaSet=rs0']) {
      const client = await MongoClient.connect(`mongodb://${host}:${port}/${query}`, {
        serverSelectionTimeoutMS: 3000,
      });
      expect(await client.db('admin').command({ ping: 1 })).toMatchObject({ ok: 1 });
      await client.close();
    }
  });

  it('refuses what it does not know by MongoDB’s codes', async () => {
    await expect(target.db.command({ noSuchThing: 1 })).rejects.toMatchObject({
      code: 59,
      codeName: 'CommandNotFound',
    });
    await expect(target.db.command({ find: 'c', nonsense: 1 })).rejects.toMatchObject({ code: 40415 });
    await expect(fresh().findOne({ a: { $near: 1 } })).rejects.toMatchObject({
      code: 2,
      codeName: 'BadValue',
    });
  });
});

describe('values', () => {
  it('come back with their types and exact contents', async () => {
    const items = fresh();
    const stored = {
      _id: 'all',
      long: 9007199254740993n,
      least: -(2n ** 63n),
      int: new Int32(7),
      double: new Double(7),
      decimal: Decimal128.fromString('1.10'),
      date: new Date(1_700_000_000_123),
      id: new ObjectId('65f000000000000000000001'),
      uuid: new UUID('00112233-4455-4677-8899-aabbccddeeff'),
      bytes: new Binary(Buffer.from([0, 255, 1])),
      nothing: null,
      list: [1, 'two', { three: 3 }, [4]],
      10: 'numbers as names',
      2: 'keep their order',
    };
    await items.insertOne(stored);
    const raw = await items.findOne({ _id: 'all' }, { promoteValues: false, useBigInt64: false });
    expect(raw).toEqual({
      ...stored,
      _id: 'all',
      long: Long.fromBigInt(9007199254740993n),
      least: Long.MIN_VALUE,
      10: 'numbers as names',
      list: [new Int32(1), 'two', { three: new Int32(3) }, [new Int32(4)]],
    });
    expect(await items.findOne({ long: 9007199254740993n })).toMatchObject({ long: 9007199254740993n });
    expect(await items.findOne({ long: 9007199254740992n })).toBeNull();
    await items.updateOne({ _id: 'all' }, { $inc: { long: 1n, int: 1 } });
    const after = await items.findOne({ _id: 'all' }, { promoteValues: false, useBigInt64: false });
    expect(after).toMatchObject({
      long: Long.fromString('9007199254740994'),
      int: new Int32(8),
      double: new Double(7),
    });
  });

  it('of several megabytes survive', async () => {
    const bytes = Buffer.alloc(6_000_000, 7);
    const items = fresh();
    await items.insertOne({ _id: 'large', bytes: new Binary(bytes) });
    const found = await items.findOne({ _id: 'large' });
    expect(Buffer.compare((found?.['bytes'] as Binary).buffer, bytes)).toBe(0);
  });

  it('over 16 MB are refused and nothing is written', async () => {
    const items = fresh();
    const update = {
      $set: { bytes: new Binary(Buffer.alloc(9_000_000)), more: new Binary(Buffer.alloc(9_000_000)) },
    };
    await expect(items.updateOne({ _id: 'x' }, update, { upsert: true })).rejects.toThrow();
    expect(await items.countDocuments()).toBe(0);
  });
});

describe('writing', () => {
  it('inserts, replaces, updates and deletes', async () => {
    const items = fresh();
    expect(await items.insertMany([{ _id: 1 }, { _id: 2 }])).toMatchObject({ insertedCount: 2 });
    expect(await items.replaceOne({ _id: 1 }, { a: 1 })).toMatchObject({ matchedCount: 1, modifiedCount: 1 });
    expect(await items.replaceOne({ _id: 1 }, { a: 1 })).toMatchObject({ matchedCount: 1, modifiedCount: 0 });
    expect(await items.updateMany({}, { $set: { b: 2 } })).toMatchObject({
      matchedCount: 2,
      modifiedCount: 2,
    });
    expect(await items.updateOne({ _id: 3 }, { $set: { c: 1 } }, { upsert: true })).toMatchObject({
      matchedCount: 0,
      upsertedCount: 1,
      upsertedId: 3,
    });
    expect(await items.deleteOne({ _id: 2 })).toMatchObject({ deletedCount: 1 });
    expect(await items.deleteMany({ _id: { $gt: 100 } })).toMatchObject({ deletedCount: 0 });
    expect(await items.find().sort({ _id: 1 }).toArray()).toEqual([
      { _id: 1, a: 1, b: 2 },
      { _id: 3, c: 1 },
    ]);
  });

  it('stops an ordered bulk at the first error and goes on with an unordered one', async () => {
    const items = fresh();
    const bulk = [1, 1, 2].map((id) => ({ insertOne: { document: { _id: id } } }));
    await expect(items.bulkWrite(bulk)).rejects.toMatchObject({ code: 11000, result: { insertedCount: 1 } });
    expect(await items.countDocuments()).toBe(1);
    await expect(items.bulkWrite(bulk, { ordered: false })).rejects.toMatchObject({
      code: 11000,
      result: { insertedCount: 1 },
      writeErrors: [{ index: 0 }, { index: 1 }],
    });
    expect(await items.countDocuments()).toBe(2);
  });

  it('mixes operations of a bulk in order', async () => {
    const items = fresh();
    const result = await items.bulkWrite([
      { replaceOne: { filter: { _id: 'a' }, replacement: { n: 1 }, upsert: true } },
      { updateOne: { filter: { _id: 'a' }, update: { $inc: { n: 1 } } } },
      { replaceOne: { filter: { _id: 'b' }, replacement: { n: 5 }, upsert: true } },
      { deleteOne: { filter: { n: 5 } } },
    ]);
    expect(result).toMatchObject({ upsertedCount: 2, matchedCount: 1, modifiedCount: 1, deletedCount: 1 });
    expect(result.upsertedIds).toEqual({ 0: 'a', 2: 'b' });
    expect(await items.find().toArray()).toEqual([{ _id: 'a', n: 2 }]);
  });

  it('finds and modifies: before, after, upserted, removed, nothing', async () => {
    const items = fresh();
    const both = { upsert: true, returnDocument: 'after' } as const;
    expect(await items.findOneAndUpdate({ _id: 'k', owner: 'x' }, { $inc: { token: 1 } }, both)).toEqual({
      _id: 'k',
      owner: 'x',
      token: 1,
    });
    expect(await items.findOneAndUpdate({ _id: 'k' }, { $inc: { token: 1 } })).toMatchObject({ token: 1 });
    expect(await items.findOneAndUpdate({ _id: 'k', token: { $lt: 2 } }, { $set: { token: 9 } })).toBeNull();
    expect(await items.findOneAndReplace({ _id: 'k' }, { fresh: true }, { returnDocument: 'after' })).toEqual(
      {
        _id: 'k',
        fresh: true,
      },
    );
    expect(await items.findOneAndDelete({ _id: 'k' }, { projection: { _id: 0 } })).toEqual({ fresh: true });
    expect(await items.findOneAndDelete({ _id: 'k' })).toBeNull();
  });

  it('gives 50 parallel first upserts of one key one document', async () => {
    const items = fresh();
    await items.createIndex({ key: 1 }, { unique: true });
    const all = Array.from({ length: 50 }, () =>
      items.updateOne({ key: 'one' }, { $inc: { n: 1 } }, { upsert: true }),
    );
    const results = await Promise.all(all);
    expect(results.filter(({ upsertedCount }) => upsertedCount === 1)).toHaveLength(1);
    expect(await items.find({}, { projection: { _id: 0 } }).toArray()).toEqual([{ key: 'one', n: 50 }]);
  });
});

describe('indexes', () => {
  it('report a duplicate with its key and leave the document as it was', async () => {
    const items = fresh();
    await items.createIndex({ tenant: 1, number: -1 }, { unique: true, name: 'by-number' });
    await items.insertMany([
      { _id: 1, tenant: 't', number: 1 },
      { _id: 2, tenant: 't', number: 2 },
    ]);
    const shape = {
      code: 11000,
      keyPattern: { tenant: 1, number: -1 },
      keyValue: { tenant: 't', number: 1 },
    };
    await expect(items.insertOne({ _id: 3, tenant: 't', number: 1 })).rejects.toMatchObject(shape);
    await expect(items.updateOne({ _id: 2 }, { $set: { number: 1 } })).rejects.toMatchObject(shape);
    await expect(items.findOneAndUpdate({ _id: 2 }, { $set: { number: 1 } })).rejects.toMatchObject(shape);
    await expect(items.insertOne({ _id: 1 })).rejects.toMatchObject({
      keyPattern: { _id: 1 },
      keyValue: { _id: 1 },
    });
    expect(await items.findOne({ _id: 2 })).toEqual({ _id: 2, tenant: 't', number: 2 });
  });

  it('are listed, built over what is there, and dropped', async () => {
    const items = fresh();
    await items.insertMany([
      { _id: 1, a: [1, 2] },
      { _id: 2, a: 1 },
    ]);
    await expect(items.createIndex({ a: 1 }, { unique: true })).rejects.toMatchObject({ code: 11000 });
    expect(await items.createIndex({ a: 1, b: -1 })).toBe('a_1_b_-1');
    expect(await items.createIndex({ a: 1, b: -1 })).toBe('a_1_b_-1');
    await expect(items.createIndex({ a: 1, b: -1 }, { name: 'other' })).rejects.toMatchObject({ code: 85 });
    expect((await items.indexes()).map(({ name }) => name)).toEqual(['_id_', 'a_1_b_-1']);
    expect(await items.find({ a: 1 }).hint('a_1_b_-1').sort({ _id: 1 }).toArray()).toHaveLength(2);
    await items.dropIndex('a_1_b_-1');
    await expect(items.dropIndex('a_1_b_-1')).rejects.toMatchObject({ code: 27 });
    expect(await items.countDocuments({ a: 1 })).toBe(2);
  });

  it('of kinds that are left out are refused by name', async () => {
    if (process.env['WAYMARK_MONGODB_URL']) return;
    await expect(fresh().createIndex({ a: 'text' })).rejects.toMatchObject({
      code: 238,
      codeName: 'NotImplemented',
    });
  });
});

describe('reading', () => {
  it('pages with a compound index, sort, skip and limit', async () => {
    const items = fresh();
    await items.createIndex({ tenant: 1, at: -1 });
    await items.insertMany(Array.from({ length: 200 }, (_, i) => ({ _id: i, tenant: i % 2, at: i })));
    const page = await items.find({ tenant: 1 }).sort({ at: -1 }).skip(2).limit(3).toArray();
    expect(page.map(({ _id }) => _id)).toEqual([195, 193, 191]);
    const range = await items
      .find({ tenant: 0, at: { $gte: 10, $lt: 14 } })
      .sort({ at: 1 })
      .toArray();
    expect(range.map(({ _id }) => _id)).toEqual([10, 12]);
  });

  it('fetches large results in batches and closes cursors', async () => {
    const items = fresh();
    await items.insertMany(Array.from({ length: 1000 }, (_, i) => ({ _id: i })));
    const seen: unknown[] = [];
    for await (const { _id } of items.find({}, { batchSize: 7 })) seen.push(_id);
    expect(seen).toEqual(Array.from({ length: 1000 }, (_, i) => i));
    const cursor = items.find({}, { batchSize: 2 });
    await cursor.next();
    const id = cursor.id as Long;
    await cursor.close();
    await expect(target.db.command({ getMore: id, collection: items.collectionName })).rejects.toMatchObject({
      code: 43,
    });
  });

  it('counts, groups, lists distinct values and projects', async () => {
    const items = fresh();
    await items.insertMany([
      { _id: 1, kind: 'a', n: 1, tags: ['x', 'y'], deep: { in: 1, out: 2 } },
      { _id: 2, kind: 'b', n: 2n, tags: ['y'] },
      { _id: 3, kind: 'a', n: 2.5 },
    ]);
    expect(await items.countDocuments({ kind: 'a' })).toBe(2);
    expect(await items.countDocuments({}, { skip: 1, limit: 1 })).toBe(1);
    expect(await items.estimatedDocumentCount()).toBe(3);
    expect(await items.distinct('tags')).toEqual(['x', 'y']);
    const groups = [
      { $group: { _id: '$kind', sum: { $sum: '$n' }, all: { $push: '$_id' } } },
      { $sort: { _id: 1 } },
    ];
    expect(await items.aggregate(groups).toArray()).toEqual([
      { _id: 'a', sum: 3.5, all: [1, 3] },
      { _id: 'b', sum: 2n, all: [2] },
    ]);
    expect(await items.aggregate([{ $match: { kind: 'a' } }, { $count: 'found' }]).toArray()).toEqual([
      { found: 2 },
    ]);
    expect(await items.findOne({ _id: 1 }, { projection: { 'deep.in': 1, kind: 1 } })).toEqual({
      _id: 1,
      kind: 'a',
      deep: { in: 1 },
    });
    expect(await items.findOne({ _id: 2 }, { projection: { tags: 0, _id: 0 } })).toEqual({
      kind: 'b',
      n: 2n,
    });
  });

  it('lists collections and databases', async () => {
    const items = fresh();
    await items.insertOne({ _id: 1 });
    const names = await target.db
      .listCollections({ name: items.collectionName }, { nameOnly: true })
      .toArray();
    expect(names).toMatchObject([{ name: items.collectionName, type: 'collection' }]);
    const { databases } = await target.client.db().admin().listDatabases({ nameOnly: true });
    expect(databases.map(({ name }) => name)).toContain(target.db.databaseName);
    expect(await items.drop()).toBe(true);
    expect(await items.countDocuments()).toBe(0);
  });
});
