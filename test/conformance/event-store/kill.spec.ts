import { EventStoreDBClient, NO_STREAM } from '@eventstore/db-client';
import {
  type TemporaryFolder,
  all,
  events,
  newStream,
  reopen,
  startProcess,
  temporaryFolder,
} from './subject.js';

const WRITERS = 12;
const ROUNDS = 2;
/** Answers after which the store is killed in the middle of whatever it is doing. */
const ENOUGH = 150;

let folder: TemporaryFolder;
beforeAll(() => {
  folder = temporaryFolder();
});
afterAll(() => folder.remove());

interface Acknowledged {
  readonly stream: string;
  readonly revision: bigint;
  readonly position: bigint;
  readonly ids: readonly string[];
}

/** Writes pairs of events to streams of its own until the store is gone; tells what was acknowledged. */
async function write(client: EventStoreDBClient, told: (one: Acknowledged) => void): Promise<void> {
  for (;;) {
    const stream = newStream('kill');
    let revision: bigint | undefined;
    for (let n = 0; n < 5; n++) {
      const sent = events(2 * n, 2 * n + 1);
      const answer = await client
        .appendToStream(stream, sent, { expectedRevision: revision ?? NO_STREAM })
        .catch(() => undefined);
      if (!answer) return;
      revision = answer.nextExpectedRevision;
      told({ stream, revision, position: answer.position!.commit, ids: sent.map(({ id }) => id) });
    }
  }
}

it('loses nothing acknowledged and keeps no half append when it is killed under load', async () => {
  const acknowledged: Acknowledged[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const { child, url } = await startProcess(folder.path);
    const client = EventStoreDBClient.connectionString(url);
    const killAt = acknowledged.length + ENOUGH;
    const told = (one: Acknowledged): void => {
      if (acknowledged.push(one) === killAt) child.kill('SIGKILL');
    };
    await Promise.all(Array.from({ length: WRITERS }, () => write(client, told)));
    await client.dispose();
  }
  const store = await reopen(folder.path);
  const client = EventStoreDBClient.connectionString(store.url);
  const log = (await all(client.readAll())).map((one) => one.event!);
  const byId = new Map(log.map((one) => [one.id, one]));
  expect(byId.size).toBe(log.length);
  for (const { stream, revision, position, ids } of acknowledged) {
    const [first, second] = ids.map((id) => byId.get(id));
    expect([first?.streamId, first?.revision, second?.revision]).toEqual([stream, revision - 1n, revision]);
    expect(second?.position?.commit).toBe(position);
  }
  const halves = log.filter((one) => (one.data as { n: number }).n % 2 === 0);
  expect(halves).toHaveLength(log.length / 2);
  expect(acknowledged.length).toBeGreaterThanOrEqual(ROUNDS * ENOUGH);
  await client.dispose();
  await store.close();
}, 180_000);
