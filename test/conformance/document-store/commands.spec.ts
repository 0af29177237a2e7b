import { MongoClient, type Document } from 'mongodb';
import { embeddedOnly, openTarget, type Target } from './target.js';

interface Item extends Document {
  _id: number;
}

let target: Target;
beforeAll(async () => {
  target = await openTarget();
});
afterAll(() => target.close());

let names = 0;
async function holding(...documents: Item[]) {
  const collection = target.db.collection<Item>(`c${++names}`);
  if (documents.length > 0) await collection.insertMany(documents);
  return collection;
}

const projections: [filter: Document, projection: Document, result: Document][] = [
  [
    {},
    { list: { $slice: 2 } },
    {
      _id: 1,
      list: [1, 2],
      docs: [
        { k: 1, v: 1 },
        { k: 2, v: 5 },
      ],
      name: 'n',
    },
  ],
  [{}, { list: { $slice: [-2, 1] }, docs: 0 }, { _id: 1, list: [2], name: 'n' }],
  [{}, { name: 1, list: { $slice: 1 } }, { _id: 1, list: [1], name: 'n' }],
  [{}, { docs: { $elemMatch: { v: { $gt: 2 } } } }, { _id: 1, docs: [{ k: 2, v: 5 }] }],
  [{ list: { $gt: 1 } }, { 'list.$': 1, _id: 0 }, { list: [2] }],
  [{ 'docs.k': 2 }, { 'docs.$': 1 }, { _id: 1, docs: [{ k: 2, v: 5 }] }],
  [{}, { _id: 0, shout: { $toUpper: '$name' } }, { shout: 'N' }],
  [{}, { 'docs.v': 1 }, { _id: 1, docs: [{ v: 1 }, { v: 5 }] }],
];

describe('find', () => {
  it.each(projections)('%j with projection %j', async (filter, projection, result) => {
    const items = await holding({
      _id: 1,
      list: [1, 2, 3],
      docs: [
        { k: 1, v: 1 },
        { k: 2, v: 5 },
      ],
      name: 'n',
    });
    expect(await items.findOne(filter, { projection })).toEqual(result);
  });

  it('refuses projections that contradict themselves, and every collation but the simple one', async () => {
    const items = await holding({ _id: 1 });
    await expect(items.findOne({}, { projection: { a: 0, b: 1 } })).rejects.toMatchObject({ code: 31253 });
    await expect(items.findOne({}, { projection: { a: 1, 'a.b': 1 } })).rejects.toMatchObject({
      code: 31250,
    });
    expect(await items.findOne({}, { collation: { locale: 'simple' } })).toEqual({ _id: 1 });
  });

  embeddedOnly('refuses by name what is left out', async () => {
    const items = await holding({ _id: 1 });
    const refused = { code: 238, codeName: 'NotImplemented' };
    await expect(items.findOne({}, { collation: { locale: 'de' } })).rejects.toMatchObject(refused);
    const update = items.updateOne({}, { $set: { a: 1 } }, { collation: { locale: 'de' } });
    await expect(update).rejects.toMatchObject({ code: 238 });
    await expect(items.findOne({ $where: 'true' })).rejects.toMatchObject(refused);
    for (const key of [{ a: 'text' }, { a: '2dsphere' }, { a: 'hashed' }, { '$**': 1 }] as Document[])
      await expect(items.createIndex(key as never)).rejects.toMatchObject(refused);
    for (const command of [
      { mapReduce: 'c', map: '', reduce: '', out: 'o' },
      { shardCollection: 'a.b', key: { _id: 1 } },
    ])
      await expect(target.db.command(command)).rejects.toMatchObject(refused);
  });
});

const updates: [
  before: Document,
  filter: Document,
  update: Document | Document[],
  options: Document,
  after: Document,
][] = [
  [{ a: [1, 2, 3] }, { a: 2 }, { $set: { 'a.$': 9 } }, {}, { a: [1, 9, 3] }],
  [{ a: [1, 2, 3] }, {}, { $inc: { 'a.$[]': 1 } }, {}, { a: [2, 3, 4] }],
  [{ a: [1, 2, 3] }, {}, { $set: { 'a.$[x]': 0 } }, { arrayFilters: [{ x: { $gte: 2 } }] }, { a: [1, 0, 0] }],
  [{ a: 1, b: 2 }, {}, [{ $set: { sum: { $add: ['$a', '$b'] } } }, { $unset: ['a'] }], {}, { b: 2, sum: 3 }],
  [{ a: 12 }, {}, { $bit: { a: { and: 10, or: 1 } } }, {}, { a: 9 }],
  [{ a: [1, 2, 1] }, {}, { $pullAll: { a: [1] } }, {}, { a: [2] }],
];

describe('update', () => {
  it.each(updates)(
    '%j found by %j, changed by %j with %j',
    async (before, filter, update, options, after) => {
      const items = await holding({ _id: 1, ...before });
      await items.updateOne(filter, update, options);
      expect(await items.findOne()).toEqual({ _id: 1, ...after });
      await items.replaceOne({ _id: 1 }, before);
      await items.findOneAndUpdate(filter, update, options);
      expect(await items.findOne()).toEqual({ _id: 1, ...after });
    },
  );

  it('that cannot be made leaves the document as it was', async () => {
    const items = await holding({ _id: 1, a: [1] });
    const bad: [Document | Document[], number][] = [
      [{ $set: { 'a.$': 1 } }, 2],
      [{ $set: { 'b.$[]': 1 } }, 2],
      [{ $set: { 'a.$[x]': 1 } }, 2],
      [{ $inc: { a: 1 } }, 14],
      [[{ $match: {} }], 72],
      [[{ $set: { _id: 2 } }], 66],
    ];
    for (const [update, code] of bad)
      await expect(items.updateOne({ _id: 1 }, update)).rejects.toMatchObject({ code });
    expect(await items.findOne()).toEqual({ _id: 1, a: [1] });
  });
});

describe('a validator', () => {
  const validator = { $jsonSchema: { required: ['n'], properties: { n: { bsonType: 'int', minimum: 0 } } } };
  const failed = { code: 121, errInfo: { failingDocumentId: 2 } };

  it('refuses documents on every way in, and may be changed, loosened and passed by', async () => {
    const items = await target.db.createCollection<Item>(`c${++names}`, { validator });
    const command = { collMod: items.collectionName };
    await items.insertOne({ _id: 1, n: 1 });
    await expect(items.insertOne({ _id: 2, n: -1 })).rejects.toMatchObject(failed);
    await expect(items.updateOne({ _id: 2 }, { $set: { x: 1 } }, { upsert: true })).rejects.toMatchObject(
      failed,
    );
    await expect(items.updateOne({ _id: 1 }, { $set: { n: 'x' } })).rejects.toMatchObject({ code: 121 });
    await expect(items.findOneAndUpdate({ _id: 1 }, { $unset: { n: 1 } })).rejects.toMatchObject({
      code: 121,
    });
    expect(await items.find().toArray()).toEqual([{ _id: 1, n: 1 }]);
    await items.insertOne({ _id: 2, n: -1 }, { bypassDocumentValidation: true });
    await expect(items.updateOne({ _id: 2 }, { $set: { x: 1 } })).rejects.toMatchObject(failed);
    await target.db.command({ ...command, validationLevel: 'moderate' });
    expect(await items.updateOne({ _id: 2 }, { $set: { x: 1 } })).toMatchObject({ modifiedCount: 1 });
    await target.db.command({ ...command, validator: { n: { $lt: 100 } }, validationLevel: 'strict' });
    await expect(items.insertOne({ _id: 3, n: 100 })).rejects.toMatchObject({ code: 121 });
    const [listed] = await target.db.listCollections({ name: items.collectionName }).toArray();
    expect(listed).toMatchObject({ options: { validator: { n: { $lt: 100 } }, validationLevel: 'strict' } });
    await expect(
      target.db.command({ ...command, validator: { $jsonSchema: { foo: 1 } } }),
    ).rejects.toMatchObject({ code: 9 });
    await expect(target.db.command({ collMod: 'nowhere' })).rejects.toMatchObject({ code: 26 });
  });
});

describe('renameCollection', () => {
  it('keeps documents and indexes, and takes the place of another only when told to', async () => {
    const items = await holding({ _id: 1, a: 1 });
    await items.createIndex({ a: 1 }, { unique: true });
    const other = await holding({ _id: 9 });
    await expect(items.rename(other.collectionName)).rejects.toMatchObject({ code: 48 });
    await expect(target.db.collection<Item>('nowhere').rename('x')).rejects.toMatchObject({ code: 26 });
    const renamed = await items.rename(other.collectionName, { dropTarget: true });
    expect(await renamed.find().toArray()).toEqual([{ _id: 1, a: 1 }]);
    await expect(
      target.db.collection<Item>(other.collectionName).insertOne({ _id: 2, a: 1 }),
    ).rejects.toMatchObject({ code: 11000 });
    expect(await items.countDocuments()).toBe(0);
  });
});

describe('explain', () => {
  it('names the index and counts what was examined', async () => {
    const items = await holding(...Array.from({ length: 20 }, (_, i) => ({ _id: i, a: i % 4, b: i })));
    await items.createIndex({ a: 1, b: 1 });
    const indexed = await items.find({ a: 1 }).sort({ b: 1 }).explain('executionStats');
    expect(JSON.stringify(indexed)).toContain('"indexName":"a_1_b_1"');
    expect(indexed['executionStats']).toMatchObject({
      nReturned: 5,
      totalKeysExamined: 5,
      totalDocsExamined: 5,
    });
    const scanned = await items.find({ b: 3 }).explain('executionStats');
    expect(JSON.stringify(scanned)).toContain('COLLSCAN');
    expect(scanned['executionStats']).toMatchObject({
      nReturned: 1,
      totalKeysExamined: 0,
      totalDocsExamined: 20,
    });
    const planned = await items.find({ a: 1 }).explain('queryPlanner');
    expect(planned).not.toHaveProperty('executionStats');
    await target.db.command({
      explain: { delete: items.collectionName, deletes: [{ q: { a: 1 }, limit: 0 }] },
    });
    expect(await items.countDocuments()).toBe(20);
  });
});

describe('statistics', () => {
  it('count documents, indexes and databases', async () => {
    const items = await holding({ _id: 1 }, { _id: 2 });
    const size = 2 * 14;
    expect(await target.db.command({ collStats: items.collectionName })).toMatchObject({
      count: 2,
      size,
      nindexes: 1,
      avgObjSize: 14,
    });
    expect(await target.db.command({ dbStats: 1 })).toMatchObject({ db: target.db.databaseName, ok: 1 });
    const status = await target.client.db('admin').command({ serverStatus: 1 });
    expect((status['connections'] as Document)['current']).toBeGreaterThan(0);
  });
});

describe('dropDatabase', () => {
  it('takes all collections of one database and no other', async () => {
    const items = await holding({ _id: 1 });
    const other = target.client.db(`${target.db.databaseName}-2`);
    await other.collection<Item>('x').insertOne({ _id: 1 });
    await other.dropDatabase();
    expect(await other.listCollections().toArray()).toEqual([]);
    expect(await items.countDocuments()).toBe(1);
  });
});

describe('the driver', () => {
  it('compares what it is told with its own limits, and asks again by the legacy hello', async () => {
    const client = await MongoClient.connect(target.url, { maxPoolSize: 1 });
    expect(await client.db('admin').command({ isMaster: 1 })).toMatchObject({
      ismaster: true,
      helloOk: true,
      maxBsonObjectSize: 16_777_216,
      maxMessageSizeBytes: 48_000_000,
    });
    expect(await client.db('admin').command({ buildInfo: 1 })).toMatchObject({
      maxBsonObjectSize: 16_777_216,
    });
    await client.close();
  });
});
