import { spawn, type ChildProcess } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import fc from 'fast-check';
import { MongoClient, type Db } from 'mongodb';

const full = process.env.WAYMARK_FAULTS === 'full';
const KILLS = full ? 200 : 3;
const WRITERS = 3;
/** Documents that bulks write again and again. */
const UPSERTED = 50;
const seed = Number(process.env.WAYMARK_SEED ?? randomInt(2 ** 31));
const program = join(__dirname, '../conformance/document-store/serve.cjs');

/** After how many more acknowledgements each kill comes. */
const schedule = fc.sample(fc.integer({ min: 1, max: 60 }), { seed, numRuns: KILLS });

interface Pair {
  _id: string;
  n: number;
}

interface Upserted extends Pair {
  group: number;
}

/** What the store said is done: pairs written by one transaction each, and the last bulk of each document. */
class Journal {
  readonly pairs = new Set<string>();
  readonly upserts = new Map<string, number>();
  written = 0;
}

let folder: string;
let child: ChildProcess | undefined;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-documents-'));
});
afterAll(() => {
  child?.kill('SIGKILL');
  rmSync(folder, { recursive: true });
});

it(
  `${KILLS} kills under transactions and bulks (seed ${seed}) lose nothing acknowledged and leave nothing half`,
  async () => {
    const journal = new Journal();
    for (const [round, acknowledgements] of schedule.entries()) {
      const client = await open();
      await inspect(client.db('load'), journal);
      await writeUntilKilled(client, journal, round, acknowledgements);
    }
    const client = await open();
    await inspect(client.db('load'), journal);
    await client.close();
    expect(journal.pairs.size).toBeGreaterThan(0);
    expect(journal.upserts.size).toBeGreaterThan(0);
  },
  full ? 3_600_000 : 180_000,
);

async function open(): Promise<MongoClient> {
  child = spawn(process.execPath, [program, folder], { stdio: ['ignore', 'pipe', 'inherit'] });
  if (!child.stdout) throw new Error('the store has no output');
  const [url] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const client = await MongoClient.connect(url, { retryWrites: false, serverSelectionTimeoutMS: 2_000 });
  const upserted = client.db('load').collection('upserted');
  await upserted.createIndex({ group: 1, n: -1 });
  await upserted.createIndex({ n: 1 }, { partialFilterExpression: { group: 1 } });
  return client;
}

/** Writers go on until their connections are gone; the kill comes with the acknowledgement that was asked for. */
async function writeUntilKilled(client: MongoClient, journal: Journal, round: number, after: number) {
  const process = child as ChildProcess;
  const exited = once(process, 'exit');
  const last = journal.written + after;
  const acknowledged = (): void => {
    if (++journal.written === last) process.kill('SIGKILL');
  };
  const gone = exited.then(() => client.close());
  const writers = Array.from({ length: WRITERS }, (_, writer) => [
    pairs(client, journal, `${round}-${writer}`, acknowledged),
    upserts(client.db('load'), journal, writer, acknowledged),
  ]).flat();
  await Promise.allSettled(writers);
  await gone;
}

async function pairs(client: MongoClient, journal: Journal, name: string, acknowledged: () => void) {
  const [left, right] = ['left', 'right'].map((side) => client.db('load').collection<Pair>(side));
  for (let n = 0; ; n++) {
    const _id = `${name}-${n}`;
    const session = client.startSession();
    session.startTransaction();
    await left?.insertOne({ _id, n }, { session });
    await right?.insertOne({ _id, n }, { session });
    await session.commitTransaction();
    await session.endSession();
    journal.pairs.add(_id);
    acknowledged();
  }
}

async function upserts(db: Db, journal: Journal, writer: number, acknowledged: () => void) {
  const collection = db.collection<Upserted>('upserted');
  const known = [...journal.upserts].filter(([id]) => id.startsWith(`${writer}-`)).map(([, n]) => n);
  for (let n = Math.max(0, ...known) + UPSERTED; ; n += 10) {
    const all = Array.from({ length: 10 }, (_, i): Upserted => {
      return { _id: `${writer}-${(n + i) % UPSERTED}`, n: n + i, group: n % 3 };
    });
    await collection.bulkWrite(
      all.map(({ _id, ...replacement }) => ({ replaceOne: { filter: { _id }, replacement, upsert: true } })),
    );
    for (const { _id, n: number } of all) journal.upserts.set(_id, number);
    acknowledged();
  }
}

async function inspect(db: Db, { pairs: written, upserts: last }: Journal): Promise<void> {
  const idsOf = async (side: string) =>
    new Set((await db.collection<Pair>(side).find().toArray()).map(({ _id }) => _id));
  const [left, right] = [await idsOf('left'), await idsOf('right')];
  expect([...left].filter((id) => !right.has(id))).toEqual([]);
  expect([...right].filter((id) => !left.has(id))).toEqual([]);
  expect([...written].filter((id) => !left.has(id))).toEqual([]);
  const found = await db.collection<Upserted>('upserted').find().toArray();
  const stored = new Map(found.map(({ _id, n }) => [_id, n]));
  expect([...last].filter(([id, n]) => (stored.get(id) ?? -1) < n)).toEqual([]);
  for (const { name } of await db.listCollections().toArray())
    expect(await db.command({ validate: name })).toMatchObject({ valid: true, errors: [] });
}
