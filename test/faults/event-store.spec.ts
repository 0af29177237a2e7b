import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomInt, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { EventStoreDBClient, type JSONRecordedEvent, NO_STREAM, jsonEvent } from '@eventstore/db-client';
import fc from 'fast-check';
import { requestScavenge } from '#libs/embedded/event-store';

const full = process.env.WAYMARK_FAULTS === 'full';
const KILLS = full ? 200 : 3;
const WRITERS = 12;
const seed = Number(process.env.WAYMARK_SEED ?? randomInt(2 ** 31));
const program = join('test', 'conformance', 'event-store', 'store-process.mjs');

/** After how many more answers each kill comes. */
const schedule = fc.sample(fc.integer({ min: 1, max: 150 }), { seed, numRuns: KILLS });

let folder: string;
let child: ChildProcess | undefined;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-faults-'));
  const built = spawnSync(process.execPath, [join('bin', 'build.mjs')], { encoding: 'utf8' });
  if (built.status !== 0) throw new Error(`the build failed: ${built.stderr}`);
}, 120_000);
afterAll(() => {
  child?.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

interface Acknowledged {
  readonly stream: string;
  readonly revision: bigint;
  readonly position: bigint;
  readonly ids: readonly string[];
}

async function start(): Promise<string> {
  child = spawn(process.execPath, [program, folder], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [url] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string];
  return url;
}

const pair = (n: number) => [n, n + 1].map((each) => jsonEvent({ type: 'happened', data: { n: each } }));

/** Writes pairs of events to streams of its own until the store is gone; tells what was acknowledged. */
async function write(client: EventStoreDBClient, told: (one: Acknowledged) => void): Promise<void> {
  for (;;) {
    const stream = `kill-${randomUUID()}`;
    let revision: bigint | undefined;
    for (let n = 0; n < 10; n += 2) {
      const sent = pair(n);
      const answer = await client
        .appendToStream(stream, sent, { expectedRevision: revision ?? NO_STREAM })
        .catch(() => undefined);
      if (!answer) return;
      revision = answer.nextExpectedRevision;
      told({ stream, revision, position: answer.position!.commit, ids: sent.map(({ id }) => id) });
    }
  }
}

/** Something to remove in each life of the store, so that kills hit a scavenge too. */
async function scavenge(client: EventStoreDBClient, url: string): Promise<void> {
  const doomed = `doomed-${randomUUID()}`;
  await client.appendToStream(doomed, pair(0));
  await client.deleteStream(doomed);
  await requestScavenge(url.replace(/^esdb:\/\/|\?.*$/g, ''));
}

/** The writers hear of the end of the store by an error; whether the scavenge got its answer before is chance. */
const whateverComes = (work: Promise<void>): Promise<void> => work.catch(() => undefined);

it(
  `${KILLS} kills while it writes and scavenges lose nothing acknowledged and leave no half append (seed ${seed})`,
  async () => {
    const acknowledged: Acknowledged[] = [];
    for (const answers of schedule) {
      const url = await start();
      const gone = once(child!, 'exit');
      const client = EventStoreDBClient.connectionString(url);
      const killAt = acknowledged.length + answers;
      const told = (one: Acknowledged): void => {
        if (acknowledged.push(one) === killAt) child!.kill('SIGKILL');
      };
      const writers = Array.from({ length: WRITERS }, () => write(client, told));
      await Promise.all([...writers, whateverComes(scavenge(client, url))]);
      await gone;
      await client.dispose();
    }
    await compare(acknowledged);
  },
  full ? 1_800_000 : 180_000,
);

async function compare(acknowledged: readonly Acknowledged[]): Promise<void> {
  const client = EventStoreDBClient.connectionString(await start());
  const log: JSONRecordedEvent[] = [];
  for await (const { event } of client.readAll())
    if (event?.isJson && event.streamId.startsWith('kill-')) log.push(event);
  await client.dispose();
  const byId = new Map(log.map((one) => [one.id, one]));
  expect(byId.size).toBe(log.length);
  const wrong = acknowledged.filter(({ stream, revision, position, ids }) => {
    const [first, second] = ids.map((id) => byId.get(id));
    return !(
      first?.streamId === stream &&
      first.revision === revision - 1n &&
      second?.revision === revision &&
      second.position?.commit === position
    );
  });
  expect(wrong).toEqual([]);
  expect(log.filter(({ data }) => (data as { n: number }).n % 2 === 0)).toHaveLength(log.length / 2);
  expect(acknowledged.length).toBeGreaterThanOrEqual(schedule.reduce((sum, answers) => sum + answers, 0));
}
