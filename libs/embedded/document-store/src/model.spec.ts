import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Decimal128, Double, Long, UUID, deserialize, serialize, type Document } from 'bson';
import fc from 'fast-check';
import { dispatch } from './commands/dispatch.js';
import { documentValue } from './bson/values.js';
import { encodePlain } from './bson/encode.js';
import { Engine, type Peer } from './engine.js';
import type { StoreError } from './errors.js';

let engine: Engine;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-model-'));
  engine = await Engine.open(folder, (notice) => process.stderr.write(`${notice}\n`));
});
afterAll(async () => {
  await engine.close();
  rmSync(folder, { recursive: true });
});

const peer: Peer = { address: '127.0.0.1', port: 1, transactions: new Set() };

async function command(document: Document): Promise<Document> {
  const bytes = Buffer.from(serialize({ ...document, $db: 'model' }, { ignoreUndefined: true }));
  const reply = await dispatch(engine, peer, documentValue(bytes));
  return deserialize(Buffer.isBuffer(reply) ? reply : encodePlain(reply), { promoteValues: false });
}

/** Too long to be kept whole in an index. */
const long = (end: string): string => 'x'.repeat(2_000) + end;

/** Few values, so that conditions meet documents. */
const number = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 3 }) },
  fc.constantFrom(new Double(1), new Double(1.5), Long.fromNumber(2), Decimal128.fromString('2.0'), NaN),
);
const scalar = fc.oneof(
  { weight: 5, arbitrary: number },
  fc.constantFrom<unknown>('', 'x', 'xy', long('x'), long('y'), null, true, new Date(0), { z: 1 }),
);
const list = (one: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> => fc.array(one, { maxLength: 3 });
const part = fc.record({ d: number, e: number }, { requiredKeys: [] });
const content = fc.record(
  { a: fc.oneof(scalar, list(scalar)), b: scalar, c: fc.oneof(part, list(part)) },
  { requiredKeys: [] },
);
const id = fc.integer({ min: 0, max: 23 });

const range = fc.record({ $gt: scalar, $lte: scalar }, { requiredKeys: [] });
const condition = fc.oneof(
  { weight: 4, arbitrary: scalar },
  { weight: 2, arbitrary: range.filter((limits) => Object.keys(limits).length > 0) },
  { weight: 2, arbitrary: fc.record({ $gte: number, $lt: number }) },
  fc.array(fc.oneof(scalar, fc.constant([1])), { maxLength: 3 }).map(($in) => ({ $in })),
  fc.constantFrom<unknown>(
    { $exists: true },
    { $exists: false },
    { $ne: 1 },
    { $type: 'number' },
    { $regex: '^x' },
    [1, 2],
  ),
  fc.record({ $gte: scalar }).map(($elemMatch) => ({ $elemMatch })),
);
const filter = fc.oneof(
  fc.dictionary(fc.constantFrom('a', 'b', 'c.d', 'c.e'), condition, { minKeys: 1, maxKeys: 3 }),
  fc.dictionary(fc.constantFrom('a', 'b', 'c.d', 'c.e'), condition, { minKeys: 1, maxKeys: 1 }),
  fc.record({ 'c.d': number, 'c.e': number }),
  fc.record({ 'c.e': fc.constantFrom<unknown>(null, { $in: [null, 1] }) }),
  fc.record({ a: fc.record({ $gte: number }) }),
);
const sort = fc.oneof(
  fc.constant<Record<string, number>>({}),
  fc.constant<Record<string, number>>({ a: 1 }),
  fc.dictionary(fc.constantFrom('a', 'b', 'c.d'), fc.constantFrom(1, -1), { minKeys: 1, maxKeys: 2 }),
);

type Write =
  | { kind: 'replace'; id: number; content: Document }
  | { kind: 'set'; id: number; name: string; value: unknown }
  | { kind: 'unset'; id: number; name: string }
  | { kind: 'delete'; id: number };

const name = fc.constantFrom('a', 'b');
const write: fc.Arbitrary<Write> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('replace' as const), id, content }) },
  fc.record({ kind: fc.constant('set' as const), id, name, value: scalar }),
  fc.record({ kind: fc.constant('unset' as const), id, name }),
  fc.record({ kind: fc.constant('delete' as const), id }),
);
const step = fc.record({
  writes: fc.array(write, { minLength: 1, maxLength: 8 }),
  ending: fc.constantFrom('none' as const, 'commit' as const, 'abort' as const),
});

type Model = Map<number, Document>;

function applyToModel(model: Model, writes: readonly Write[]): void {
  for (const write of writes) {
    const known = model.get(write.id);
    if (write.kind === 'replace') model.set(write.id, { _id: write.id, ...write.content });
    else if (write.kind === 'delete') model.delete(write.id);
    else if (known && write.kind === 'set') known[write.name] = write.value;
    else if (known && write.kind === 'unset') delete known[write.name];
  }
}

const statementOf = (write: Exclude<Write, { kind: 'delete' }>): Document => {
  const q = { _id: write.id };
  if (write.kind === 'replace') return { q, u: write.content, upsert: true };
  return {
    q,
    u: write.kind === 'set' ? { $set: { [write.name]: write.value } } : { $unset: { [write.name]: '' } },
  };
};

let transactions = 0;

/** Runs the writes of a step in both collections: at once, or in a transaction that commits or aborts. */
async function applyToStore(writes: readonly Write[], ending: 'none' | 'commit' | 'abort'): Promise<void> {
  const numbered = {
    lsid: { id: new UUID() },
    txnNumber: Long.fromNumber(++transactions),
    autocommit: false,
  };
  let startTransaction: true | undefined = true;
  const send = async (document: Document): Promise<void> => {
    const reply = await command({
      ...document,
      ...(ending === 'none' ? {} : { ...numbered, startTransaction }),
    });
    expect(reply['writeErrors']).toBeUndefined();
    startTransaction = undefined;
  };
  for (const collection of ['plain', 'indexed'])
    for (const write of writes) {
      if (write.kind === 'delete')
        await send({ delete: collection, deletes: [{ q: { _id: write.id }, limit: 1 }] });
      else await send({ update: collection, updates: [statementOf(write)] });
    }
  if (ending === 'commit') await command({ commitTransaction: 1, ...numbered });
  if (ending === 'abort') await command({ abortTransaction: 1, ...numbered });
}

/** Ids in order, or the code of the refusal (a sort by two arrays is one). */
async function answer(collection: string, where: Document, order: Document): Promise<unknown> {
  try {
    const found = await command({
      find: collection,
      filter: where,
      sort: { ...order, _id: 1 },
      batchSize: 1000,
    });
    return (found['cursor'] as { firstBatch: Document[] }).firstBatch.map(({ _id }) => Number(_id));
  } catch (error) {
    return (error as StoreError).code;
  }
}

/** Name of the index that answers, '' when none does. */
async function indexUsed(where: Document, order: Document): Promise<string> {
  const explained = await command({
    explain: { find: 'indexed', filter: where, sort: { ...order, _id: 1 } },
  });
  return /"indexName":"(i\d+)"/.exec(JSON.stringify(explained))?.[1] ?? '';
}

const typed = (document: Document): Document =>
  deserialize(serialize(document, { ignoreUndefined: true }), { promoteValues: false });

const indexes: Document[] = [
  { key: { a: 1, b: -1 } },
  { key: { b: 1, a: 1 } },
  { key: { 'c.d': 1, 'c.e': -1 } },
  { key: { 'c.e': 1 }, sparse: true },
  { key: { b: -1, _id: -1 } },
  { key: { b: 1, 'c.d': -1, _id: 1 } },
  { key: { a: 1, b: 1, _id: 1 }, partialFilterExpression: { 'c.d': { $gte: 1 } } },
  { key: { b: 1, 'c.e': 1, _id: 1 }, partialFilterExpression: { 'c.e': { $exists: true } } },
  { key: { b: -1, 'c.e': 1, _id: 1 }, partialFilterExpression: { a: { $gte: 0 } } },
].map((index, i) => ({ ...index, name: `i${i}` }));

/** Both collections afresh, holding the same documents. */
async function begin(contents: readonly Document[]): Promise<Model> {
  const documents: Document[] = contents.map((one, i) => ({ _id: i, ...one }));
  for (const collection of ['plain', 'indexed']) await command({ drop: collection });
  await command({ createIndexes: 'indexed', indexes });
  for (const collection of ['plain', 'indexed']) await command({ insert: collection, documents });
  return new Map(documents.map((one) => [one['_id'] as number, { ...one }]));
}

it('answers like a model, with and without indexes, through transactions', async () => {
  let asked = 0;
  const answeredBy = new Map<string, number>();
  const start = fc.oneof(
    fc.array(content, { minLength: 16, maxLength: 24 }),
    fc.array(
      content.filter(({ a }) => !Array.isArray(a)),
      { minLength: 16, maxLength: 24 },
    ),
  );
  const history = fc.array(step, { maxLength: 3 });
  const questions = fc.array(fc.record({ where: filter, order: sort }), { minLength: 60, maxLength: 80 });
  await fc.assert(
    fc.asyncProperty(start, history, questions, async (contents, steps, all) => {
      const model = await begin(contents);
      for (const { writes, ending } of steps) {
        await applyToStore(writes, ending);
        if (ending !== 'abort') applyToModel(model, writes);
      }
      const { cursor } = await command({ find: 'indexed', sort: { _id: 1 }, batchSize: 1000 });
      const expected = [...model.values()].map(typed).sort((x, y) => Number(x['_id']) - Number(y['_id']));
      expect((cursor as Document)['firstBatch']).toEqual(expected);
      for (const { where, order } of all) {
        asked++;
        const index = await indexUsed(where, order);
        answeredBy.set(index, (answeredBy.get(index) ?? 0) + 1);
        expect(await answer('indexed', where, order)).toEqual(await answer('plain', where, order));
      }
      const check = await command({ validate: 'indexed' });
      expect(check['errors']).toEqual([]);
    }),
    { numRuns: 6, seed: 20_261_130 },
  );
  expect(answeredBy.get('')).toBeLessThan(asked / 2);
  expect(indexes.filter(({ name }) => !answeredBy.has(name as string))).toEqual([]);
});
