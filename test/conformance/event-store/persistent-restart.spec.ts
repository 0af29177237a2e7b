import { EventStoreDBClient } from '@eventstore/db-client';
import { GROUP, Worker, eager, settings } from './groups.js';
import {
  type TemporaryFolder,
  event,
  events,
  newStream,
  reopen,
  startProcess,
  temporaryFolder,
} from './subject.js';

let folder: TemporaryFolder;
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => folder.remove());

const joined = (client: EventStoreDBClient, stream: string, answer?: Worker['answer']): Worker =>
  new Worker(client.subscribeToPersistentSubscriptionToStream(stream, GROUP), answer);

it('goes on after a restart with what was not done with, with its settings and what it had parked', async () => {
  let store = await reopen(folder.path);
  let client = EventStoreDBClient.connectionString(store.url);
  const [stream, parking] = [newStream(), newStream()];
  const given = settings({ maxRetryCount: 7 });
  await client.createPersistentSubscriptionToStream(stream, GROUP, given);
  await client.createPersistentSubscriptionToStream(parking, GROUP, settings());
  for (const one of [stream, parking]) await client.appendToStream(one, events(0, 1, 2, 3));
  const worker = joined(client, stream, 'nothing');
  await worker.count(4);
  await worker.ack(...worker.given.slice(0, 2));
  const parked = joined(client, parking, 'park');
  await parked.count(4);
  const entries = client.subscribeToStream(`$persistentsubscription-${parking}::${GROUP}-parked`);
  let left = 4;
  for await (const _entry of entries) if (--left === 0) break;
  await client.dispose();
  await store.close();

  store = await reopen(folder.path);
  client = EventStoreDBClient.connectionString(store.url);
  const again = joined(client, stream);
  await again.count(2);
  await client.appendToStream(stream, event(4));
  await again.count(3);
  expect(again.revisions).toEqual(['2', '3', '4']);
  const info = await client.getPersistentSubscriptionToStreamInfo(stream, GROUP);
  expect(info.settings).toEqual(given);
  const other = await client.getPersistentSubscriptionToStreamInfo(parking, GROUP);
  expect(other.stats).toMatchObject({ parkedMessageCount: 4n, lastCheckpointedEventRevision: 3n });
  await client.replayParkedMessagesToStream(parking, GROUP);
  const replayed = joined(client, parking);
  await replayed.count(4);
  expect(replayed.numbers()).toEqual([0, 1, 2, 3]);
  await client.dispose();
  await store.close();
});

it('loses nothing when the process is killed while clients acknowledge, and does not begin from the start', async () => {
  const TOTAL = 400;
  const stream = newStream();
  const acknowledged = new Set<number>();
  for (let round = 0; round < 2; round++) {
    const { child, url } = await startProcess(folder.path);
    const client = EventStoreDBClient.connectionString(url);
    if (round === 0) {
      await client.createPersistentSubscriptionToStream(stream, GROUP, settings(eager));
      await client.appendToStream(stream, events(...Array.from({ length: TOTAL }, (_, n) => n)));
    }
    const worker = joined(client, stream);
    await worker.count(100);
    const dead = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await Promise.all([dead, worker.until(({ log }) => log.length > 1)]);
    worker.numbers().forEach((n) => acknowledged.add(n));
    if (round > 0) expect(worker.numbers()[0]).toBeGreaterThan(0);
    await client.dispose();
  }
  const store = await reopen(folder.path);
  const client = EventStoreDBClient.connectionString(store.url);
  const rest = joined(client, stream);
  await rest.until((worker) => worker.numbers().includes(TOTAL - 1));
  rest.numbers().forEach((n) => acknowledged.add(n));
  expect(rest.numbers()[0]).toBeGreaterThan(1);
  expect([...acknowledged].sort((a, b) => a - b)).toEqual(Array.from({ length: TOTAL }, (_, n) => n));
  await client.dispose();
  await store.close();
}, 180_000);
