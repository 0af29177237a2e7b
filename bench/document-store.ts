import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serialize } from 'bson';
import { MongoClient, type Collection, type Db } from 'mongodb';
import { EchoClient, MeasuredProcess } from './document-store-process.js';
import { interleave, measure, measureFsync, type Measured } from './measure.js';

const ROUNDS = 5;
const ROUND_MS = 1_000;
const WARM_UP = 8_000;
const DOCUMENTS = 200_000;
const BULK = 1_000;
const GATES = { cpuFind: 120, cpuInsert: 120, bytes: 750, memory: 300 };
const indexes: Record<string, 1 | -1>[] = [
  { tenant: 1, status: 1, at: -1 },
  { tenant: 1, customerId: 1 },
];

/** About 375 bytes of BSON. */
interface Item {
  _id: string;
  tenant: string;
  status: string;
  customerId: string;
  at: Date;
  revision: bigint;
  sealed: Buffer;
}

const statuses = ['open', 'waiting', 'approved', 'filing', 'completed'];

function item(n: number, _id: string = randomUUID()): Item {
  return {
    _id,
    tenant: `t${n % 20}`,
    status: statuses[n % statuses.length] as string,
    customerId: `c-${n % 5_000}`,
    at: new Date(1.7e12 + n * 1_000),
    revision: BigInt(n),
    sealed: Buffer.alloc(214, n & 0xff),
  };
}

/** With CPU of the server's process per operation: microseconds. */
interface Served extends Measured {
  cpu: number;
}

type Subjects = Record<string, () => Promise<Served>>;

/**
 * The embedded document store through the unmodified driver, beside its floors and all in one run: a synced block, an
 * echo of as many bytes, and `ping`. The server is a process of its own, so that its CPU and memory are its own.
 * Prints medians of interleaved rounds and fails when a gate does not hold.
 */
export async function documentStore(): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), 'waymark-bench-'));
  const echo = await MeasuredProcess.start();
  let server = await MeasuredProcess.start(folder);
  try {
    let client = await connect(server);
    const bytes = await load(client.db('bench'), join(folder, 'data.mdb'));
    await client.close();
    const loaded = await server.usage();
    await server.stop();
    server = await MeasuredProcess.start(folder);
    const { opening } = server.started;
    client = await connect(server);
    const meter = new Meter(server, loaded.memory);
    const { subjects, warmUp, close } = await subjectsOf(client.db('bench'), echo, meter);
    await warmUp();
    const figures = await interleave(ROUNDS, subjects);
    close();
    await client.close();
    print(figures);
    return judge(figures, bytes, meter.memory, opening);
  } finally {
    await server.stop();
    await echo.stop();
    rmSync(folder, { recursive: true });
  }
}

/** Reads the server's usage around each measurement. */
class Meter {
  constructor(
    private readonly server: MeasuredProcess,
    /** The most held at any reading. */
    public memory: number,
  ) {}

  async measure(lanes: number, ms: number, once: (lane: number) => Promise<void>): Promise<Served> {
    let operations = 0;
    const before = await this.server.usage();
    const measured = await measure(lanes, ms, async (lane) => {
      await once(lane);
      operations++;
    });
    const after = await this.server.usage();
    this.memory = Math.max(this.memory, after.memory);
    return { ...measured, cpu: (after.cpu - before.cpu) / operations };
  }
}

function connect(server: MeasuredProcess): Promise<MongoClient> {
  return MongoClient.connect(server.started.address, {
    maxPoolSize: 64,
    minPoolSize: 64,
    useBigInt64: true,
  });
}

/** Fills the store with documents and two indexes beside `_id`; answers the bytes of file each takes. */
async function load(db: Db, file: string): Promise<number> {
  const items = db.collection<Item>('items');
  for (const key of indexes) await items.createIndex(key);
  const before = statSync(file).size;
  for (let n = 0; n < DOCUMENTS; n += BULK)
    await items.insertMany(Array.from({ length: BULK }, (_, i) => item(n + i)));
  return (statSync(file).size - before) / DOCUMENTS;
}

async function subjectsOf(db: Db, echo: MeasuredProcess, meter: Meter) {
  const ids = await db.collection<Item>('items').distinct('_id', { tenant: 't7' });
  const echoes = await Promise.all(
    Array.from({ length: 64 }, () => EchoClient.open(Number(echo.started.address))),
  );
  const message = Buffer.from(serialize(item(1)));
  const operations = operationsOf(db, ids);
  const subjects: Subjects = {
    fsync: async () => ({ ...(await measureFsync(ROUND_MS / 2)), cpu: NaN }),
  };
  const add = (name: string, counts: readonly number[], once: (lane: number) => Promise<void>): void => {
    for (const n of counts) subjects[`${name} ${n}`] = () => meter.measure(n, ROUND_MS, once);
  };
  for (const n of [1, 16, 64])
    subjects[`echo ${n}`] = async () => ({
      ...(await measure(n, ROUND_MS / 2, (lane) => (echoes[lane] as EchoClient).send(message))),
      cpu: NaN,
    });
  add('ping', [64], async () => void (await db.command({ ping: 1 })));
  add('insert', [1, 16, 64], operations.insert);
  add('find by _id', [1, 16, 64], operations.findById);
  add('index sort limit', [1, 16, 64], operations.page);
  add('bulk of 1,000', [1], operations.bulk);
  add('20 and position', [1, 4], operations.commit);
  add('group 100,000', [1], operations.group);
  return { subjects, warmUp: () => warmUp(operations), close: () => echoes.forEach((one) => one.close()) };
}

/** So many of each that the compiler has seen the hot paths, however slow the machine. */
async function warmUp({ insert, findById, page, commit, bulk }: ReturnType<typeof operationsOf>) {
  const times = async (count: number, once: (lane: number) => Promise<void>): Promise<void> => {
    let left = count;
    await Promise.all(
      Array.from({ length: 16 }, async (_, lane) => {
        while (left-- > 0) await once(lane);
      }),
    );
  };
  await times(WARM_UP, insert);
  await times(WARM_UP, findById);
  await times(WARM_UP / 4, page);
  await times(WARM_UP / 40, commit);
  await times(10, bulk);
}

function operationsOf(db: Db, ids: readonly string[]) {
  const items = db.collection<Item>('items');
  const inserted = db.collection<Item>('inserted');
  let n = DOCUMENTS;
  return {
    insert: async () => void (await inserted.insertOne(item(n++))),
    findById: async () => void (await items.findOne({ _id: ids[n++ % ids.length] })),
    page: async () => {
      const filter = { tenant: `t${n++ % 20}`, status: statuses[n % statuses.length] as string };
      await items.find(filter).sort({ at: -1 }).limit(20).toArray();
    },
    bulk: async () => {
      await items.bulkWrite(upserts(BULK, n), { ordered: false });
      n += BULK;
    },
    commit: (lane: number) => commit(db, `p${lane}`, upserts(20, (n += 20), `${lane}-`)),
    group: async () => {
      const pipeline = [
        { $match: { tenant: { $in: Array.from({ length: 10 }, (_, i) => `t${i}`) } } },
        { $group: { _id: '$status', n: { $sum: 1 }, latest: { $max: '$at' } } },
      ];
      await items.aggregate(pipeline).toArray();
    },
  };
}

const upserts = (count: number, from: number, prefix = 'b') =>
  Array.from({ length: count }, (_, i) => {
    const _id = `${prefix}${(from + i) % 20_000}`;
    return { replaceOne: { filter: { _id }, replacement: item(from + i, _id), upsert: true } };
  });

/** What a projection commits: documents and its position, all or nothing. */
async function commit(db: Db, lane: string, writes: ReturnType<typeof upserts>): Promise<void> {
  const positions: Collection<{ _id: string; position: number }> = db.collection('positions');
  await db.client.withSession((session) =>
    session.withTransaction(async () => {
      await positions.updateOne({ _id: lane }, { $inc: { position: 1 } }, { session, upsert: true });
      await db.collection<Item>('projected').bulkWrite(writes, { session, ordered: false });
    }),
  );
}

function print(figures: Record<string, Served>): void {
  console.log(
    `${'operation, clients'.padEnd(22)}${'per second'.padStart(11)}${'p50 ms'.padStart(9)}${'p99 ms'.padStart(9)}${'server µs each'.padStart(16)}`,
  );
  for (const [name, { perSecond, p50, p99, cpu }] of Object.entries(figures)) {
    console.log(
      name.padEnd(22) +
        perSecond.toFixed(0).padStart(11) +
        p50.toFixed(2).padStart(9) +
        p99.toFixed(2).padStart(9) +
        (Number.isNaN(cpu) ? '' : cpu.toFixed(0)).padStart(16),
    );
  }
}

function judge(figures: Record<string, Served>, bytes: number, memory: number, opening: number): boolean {
  const gates: [string, number, number][] = [
    ['server µs per find by _id at 64', figures['find by _id 64']?.cpu ?? NaN, GATES.cpuFind],
    ['server µs per insert at 64', figures['insert 64']?.cpu ?? NaN, GATES.cpuInsert],
    ['bytes per document with two indexes beside _id', bytes, GATES.bytes],
    ['MB above the mapped file', memory / 1e6, GATES.memory],
  ];
  console.log();
  for (const [name, value, most] of gates)
    console.log(`${value <= most ? 'holds' : 'FAILS'}  ${name}: ${value.toFixed(0)} (at most ${most})`);
  const rate = (name: string, times = 1) => ((figures[name]?.perSecond ?? NaN) * times).toFixed(0);
  const group = ((figures['group 100,000 1']?.p50 ?? NaN) / 1000).toFixed(2);
  console.log(`
aims (reported): ${rate('insert 64')} inserts a second at 64 clients of 4,500; ${rate('bulk of 1,000 1', BULK)} upserts in bulks
of 25,000; ${rate('find by _id 64')} finds by _id of 3,500; ${rate('index sort limit 64')} pages by compound index of 1,500;
100,000 grouped in ${group} s of 1; ${DOCUMENTS} documents open in ${opening.toFixed(0)} ms of 100`);
  return gates.every(([, value, most]) => value <= most);
}
