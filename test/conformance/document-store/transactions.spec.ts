import { MongoServerError, type Collection } from 'mongodb';
import { embeddedOnly, openTarget, type Target } from './target.js';

interface Account {
  _id: string;
  n: number;
}

let target: Target;
beforeAll(async () => {
  target = await openTarget();
});
afterAll(() => target.close());

let names = 0;
async function accounts(...all: Account[]): Promise<Collection<Account>> {
  const collection = target.db.collection<Account>(`accounts${++names}`);
  await target.db.createCollection(collection.collectionName);
  if (all.length > 0) await collection.insertMany(all);
  return collection;
}

const transient = (error: unknown): boolean =>
  error instanceof MongoServerError && error.hasErrorLabel('TransientTransactionError');

it('commits everything at once and shows nothing before', async () => {
  const items = await accounts({ _id: 'a', n: 1 });
  const positions = target.db.collection<Account>(`positions${names}`);
  await target.client.withSession((session) =>
    session.withTransaction(async () => {
      await items.bulkWrite(
        [
          { replaceOne: { filter: { _id: 'a' }, replacement: { n: 2 } } },
          { insertOne: { document: { _id: 'b', n: 3 } } },
        ],
        { session },
      );
      await positions.updateOne({ _id: 'p' }, { $set: { n: 7 } }, { upsert: true, session });
      expect(await items.find({}, { session }).sort({ _id: 1 }).toArray()).toEqual([
        { _id: 'a', n: 2 },
        { _id: 'b', n: 3 },
      ]);
      expect(await items.find().toArray()).toEqual([{ _id: 'a', n: 1 }]);
      expect(await positions.countDocuments()).toBe(0);
    }),
  );
  expect(await items.countDocuments()).toBe(2);
  expect(await positions.find().toArray()).toEqual([{ _id: 'p', n: 7 }]);
});

it('leaves nothing when aborted, not even a collection', async () => {
  const items = await accounts({ _id: 'a', n: 1 });
  const created = target.db.collection<Account>(`created${names}`);
  await target.client.withSession(async (session) => {
    session.startTransaction();
    await items.deleteOne({ _id: 'a' }, { session });
    await created.insertOne({ _id: 'x', n: 0 }, { session });
    await session.abortTransaction();
  });
  expect(await items.find().toArray()).toEqual([{ _id: 'a', n: 1 }]);
  expect(await target.db.listCollections({ name: created.collectionName }).toArray()).toEqual([]);
});

it('aborts as a whole when one statement fails', async () => {
  const items = await accounts({ _id: 'a', n: 1 });
  await target.client.withSession(async (session) => {
    session.startTransaction();
    await items.insertOne({ _id: 'b', n: 1 }, { session });
    await expect(items.insertOne({ _id: 'a', n: 1 }, { session })).rejects.toMatchObject({ code: 11000 });
    await expect(items.insertOne({ _id: 'c', n: 1 }, { session })).rejects.toMatchObject({ code: 251 });
  });
  expect(await items.countDocuments()).toBe(1);
});

it('reads one state however much is written meanwhile', async () => {
  const items = await accounts({ _id: 'a', n: 1 });
  await target.client.withSession(async (session) => {
    session.startTransaction();
    expect(await items.findOne({ _id: 'a' }, { session })).toEqual({ _id: 'a', n: 1 });
    await items.updateOne({ _id: 'a' }, { $set: { n: 2 } });
    await items.insertOne({ _id: 'b', n: 2 });
    expect(await items.find({}, { session }).toArray()).toEqual([{ _id: 'a', n: 1 }]);
    await session.commitTransaction();
  });
});

it('answers the second writer of a document with a labelled WriteConflict', async () => {
  const items = await accounts({ _id: 'a', n: 1 });
  const [first, second] = [target.client.startSession(), target.client.startSession()];
  first.startTransaction();
  second.startTransaction();
  await items.findOne({ _id: 'a' }, { session: second });
  await items.updateOne({ _id: 'a' }, { $inc: { n: 1 } }, { session: first });
  const lost = items.updateOne({ _id: 'a' }, { $inc: { n: 1 } }, { session: second });
  await expect(lost).rejects.toMatchObject({ code: 112, codeName: 'WriteConflict' });
  await lost.catch((error) => expect(transient(error)).toBe(true));
  await first.commitTransaction();
  await Promise.all([first.endSession(), second.endSession()]);
  expect(await items.findOne({ _id: 'a' })).toEqual({ _id: 'a', n: 2 });
});

it('answers a writer whose snapshot is older than the last commit with a WriteConflict', async () => {
  const items = await accounts({ _id: 'a', n: 1 });
  await target.client.withSession(async (session) => {
    session.startTransaction();
    await items.findOne({ _id: 'a' }, { session });
    await items.updateOne({ _id: 'a' }, { $set: { n: 5 } });
    await expect(items.updateOne({ _id: 'a' }, { $inc: { n: 1 } }, { session })).rejects.toMatchObject({
      code: 112,
    });
  });
  expect(await items.findOne({ _id: 'a' })).toEqual({ _id: 'a', n: 5 });
});

it('lets an ordinary write wait for the transaction that owns the document', async () => {
  const items = await accounts({ _id: 'a', n: 1 });
  await target.client.withSession(async (session) => {
    session.startTransaction();
    await items.updateOne({ _id: 'a' }, { $set: { n: 10 } }, { session });
    const waiting = items.updateOne({ _id: 'a' }, { $inc: { n: 1 } });
    await items.insertOne({ _id: 'other', n: 0 });
    await session.commitTransaction();
    await waiting;
  });
  expect(await items.findOne({ _id: 'a' })).toEqual({ _id: 'a', n: 11 });
});

it('loses no increment of ten transactions that retry', async () => {
  const items = await accounts({ _id: 'a', n: 0 });
  const increment = () =>
    target.client.withSession((session) =>
      session.withTransaction(async () => {
        const found = await items.findOne({ _id: 'a' }, { session });
        await items.updateOne({ _id: 'a' }, { $set: { n: (found?.n ?? 0) + 1 } }, { session });
      }),
    );
  await Promise.all(Array.from({ length: 10 }, increment));
  expect(await items.findOne({ _id: 'a' })).toEqual({ _id: 'a', n: 10 });
});

it('takes a repeated commit as done and refuses to go on after it', async () => {
  const items = await accounts();
  await target.client.withSession(async (session) => {
    session.startTransaction();
    await items.insertOne({ _id: 'a', n: 1 }, { session });
    await session.commitTransaction();
    await session.commitTransaction();
  });
  expect(await items.countDocuments()).toBe(1);
});

embeddedOnly('aborts when its session ends', async () => {
  const items = await accounts({ _id: 'a', n: 1 });
  const session = target.client.startSession();
  session.startTransaction();
  await items.updateOne({ _id: 'a' }, { $set: { n: 2 } }, { session });
  const waiting = items.updateOne({ _id: 'a' }, { $inc: { n: 1 } });
  await target.db.command({ endSessions: [session.id] });
  await waiting;
  expect(await items.findOne({ _id: 'a' })).toEqual({ _id: 'a', n: 2 });
  await session.endSession();
});

it('refuses what has no place in a transaction', async () => {
  const items = await accounts();
  await target.client.withSession(async (session) => {
    session.startTransaction();
    await expect(target.db.command({ count: items.collectionName }, { session })).rejects.toMatchObject({
      code: 263,
    });
  });
});
