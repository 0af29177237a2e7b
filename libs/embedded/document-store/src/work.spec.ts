import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serialize, type Document } from 'bson';
import { documentValue } from './bson/values.js';
import { dispatch } from './commands/dispatch.js';
import { Engine, type Peer } from './engine.js';
import { slices } from './work.js';

const documents = 2_000;
let folder: string;
let engine: Engine;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-turns-'));
  engine = await Engine.open(folder, (notice) => process.stderr.write(`${notice}\n`));
  for (let n = 0; n < documents; n += 1_000)
    await command({
      insert: 'c',
      documents: Array.from({ length: 1_000 }, (_, i) => ({ _id: n + i, n: (i * 7) % 1_000, list: [1, 2] })),
    });
});
afterEach(() => jest.restoreAllMocks());
afterAll(async () => {
  await engine.close();
  rmSync(folder, { recursive: true });
});

const peer: Peer = { address: '127.0.0.1', port: 1, transactions: new Set() };
const command = (document: Document) =>
  dispatch(engine, peer, documentValue(Buffer.from(serialize({ ...document, $db: 'test' }))));
const pipeline = (...stages: Document[]): Document => ({
  aggregate: 'c',
  pipeline: stages,
  cursor: { batchSize: documents },
});

/** Every reading of the clock takes a millisecond: a loop that does not look at it gives nobody a turn. */
function slowClock(): void {
  let now = 1e9;
  jest.spyOn(performance, 'now').mockImplementation(() => now++);
}

describe('others get a turn every few documents of', () => {
  it.each<[string, Document]>([
    ['a scan that finds nothing', { find: 'c', filter: { n: -1 } }],
    ['a scan that finds all', { find: 'c', batchSize: documents }],
    ['a count', { count: 'c', query: { n: { $gte: 0 } } }],
    ['a distinct', { distinct: 'c', key: '_id' }],
    ['a sort without an index', { find: 'c', sort: { n: 1 } }],
    ['a group', pipeline({ $group: { _id: '$n', sum: { $sum: 1 } } })],
    ['a sort of groups', pipeline({ $group: { _id: '$_id' } }, { $sort: { _id: -1 } })],
    ['an unwind', pipeline({ $unwind: '$list' }, { $count: 'n' })],
    ['a facet', pipeline({ $facet: { all: [{ $count: 'n' }] } })],
    ['a lookup', pipeline({ $lookup: { from: 'c', localField: '_id', foreignField: '_id', as: 'o' } })],
    ['an index build', { createIndexes: 'c', indexes: [{ key: { n: 1 }, name: 'n' }] }],
    ['an update of many', { update: 'c', updates: [{ q: {}, u: { $set: { m: 1 } }, multi: true }] }],
    ['a validation', { validate: 'c' }],
    ['statistics', { collStats: 'c' }],
  ])('%s', async (_, asked) => {
    slowClock();
    const before = slices.count;
    await command(asked);
    expect(slices.count - before).toBeGreaterThan(documents / 15);
  });
});

it('the turns are counted, and the longest time between two is told', async () => {
  slowClock();
  await command({ count: 'c', query: { n: 1 } });
  const { slices: told } = (await command({ serverStatus: 1 })) as { slices: typeof slices };
  expect(Number(told.count)).toBe(slices.count);
  expect(told.longestMillis).toBeGreaterThanOrEqual(10);
});
