import { EventStoreDBClient, NO_STREAM, type ResolvedEvent, UnavailableError } from '@eventstore/db-client';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  FolderInUse,
  ForeignFolder,
  PortTaken,
  requestScavenge,
  startEventStore,
} from '#libs/embedded/event-store';
import {
  type TemporaryFolder,
  all,
  errorOf,
  event,
  events,
  newStream,
  reopen,
  temporaryFolder,
} from './subject.js';

let folder: TemporaryFolder;
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => folder.remove());

const essence = ({ event: one }: ResolvedEvent): unknown => ({
  ...one,
  data: JSON.stringify(one!.data),
});

it('shows after a restart what it showed before: events, positions, revisions, re-sends, deletions', async () => {
  let store = await reopen(folder.path);
  let client = EventStoreDBClient.connectionString(store.url);
  const [kept, hidden, gone] = [newStream(), newStream(), newStream()];
  const sent = events(0, 1, 2);
  const first = await client.appendToStream(kept, sent, { expectedRevision: NO_STREAM });
  for (const stream of [hidden, gone]) await client.appendToStream(stream, event(0));
  await client.deleteStream(hidden);
  await client.tombstoneStream(gone);
  const before = (await all(client.readAll())).map(essence);
  await client.dispose();
  await store.close();

  store = await reopen(folder.path);
  client = EventStoreDBClient.connectionString(store.url);
  expect((await all(client.readAll())).map(essence)).toEqual(before);
  expect(await client.appendToStream(kept, sent, { expectedRevision: NO_STREAM })).toEqual(first);
  expect((await client.appendToStream(kept, event(3), { expectedRevision: 2n })).nextExpectedRevision).toBe(
    3n,
  );
  expect((await client.appendToStream(hidden, event(1))).nextExpectedRevision).toBe(1n);
  expect(await errorOf(client.appendToStream(gone, event(1)))).toMatchObject({ type: 'stream-deleted' });
  await client.dispose();
  await store.close();
});

it('begins a new log file when one is full, and reads across them', async () => {
  const options = { folder: folder.path, port: 0, segmentBytes: 4096 };
  let store = await startEventStore(options);
  let client = EventStoreDBClient.connectionString(store.url);
  const stream = newStream();
  for (let n = 0; n < 60; n++)
    await client.appendToStream(stream, event(n), { expectedRevision: n === 0 ? NO_STREAM : BigInt(n - 1) });
  await client.dispose();
  await store.close();
  expect(readdirSync(folder.path).filter((name) => name.startsWith('segment-')).length).toBeGreaterThan(2);
  store = await startEventStore(options);
  client = EventStoreDBClient.connectionString(store.url);
  const read = await all(client.readStream(stream));
  expect(read.map((one) => (one.event!.data as { n: number }).n)).toEqual(
    Array.from({ length: 60 }, (_, n) => n),
  );
  await client.dispose();
  await store.close();
});

it('ends open calls with UNAVAILABLE when it closes, and soon', async () => {
  const store = await reopen(folder.path);
  const client = EventStoreDBClient.connectionString(store.url);
  const subscription = client.subscribeToStream(newStream());
  const failure = new Promise((resolve) => subscription.once('error', resolve));
  await new Promise((resolve) => subscription.once('caughtUp', resolve));
  const started = Date.now();
  await store.close();
  expect(Date.now() - started).toBeLessThan(5000);
  expect(await failure).toBeInstanceOf(UnavailableError);
  await client.dispose();
});

it('closes under load: every append is answered, and what was acknowledged is there', async () => {
  const store = await reopen(folder.path);
  const client = EventStoreDBClient.connectionString(store.url);
  const acknowledged: string[] = [];
  let enough = (): void => undefined;
  const loaded = new Promise<void>((resolve) => (enough = resolve));
  const writers = Array.from({ length: 16 }, async () => {
    for (;;) {
      const sent = event(acknowledged.length);
      const answer = await client.appendToStream(newStream(), sent).catch((error: unknown) => error);
      if (answer instanceof Error) return answer;
      if (acknowledged.push(sent.id) === 100) enough();
    }
  });
  await loaded;
  const started = Date.now();
  await store.close();
  expect(Date.now() - started).toBeLessThan(5000);
  const reasons = (await Promise.all(writers)).map((error) => error.constructor.name);
  expect(reasons).toEqual(Array(16).fill('UnavailableError'));
  await client.dispose();
  const again = await reopen(folder.path);
  const reader = EventStoreDBClient.connectionString(again.url);
  const stored = new Set((await all(reader.readAll())).map((one) => one.event!.id));
  expect(acknowledged.filter((id) => !stored.has(id))).toEqual([]);
  await reader.dispose();
  await again.close();
});

it('scavenges when a client asks for it, while it is used', async () => {
  let tell = (_notice: string): void => undefined;
  const told = new Promise<string>((resolve) => (tell = resolve));
  const store = await startEventStore({ folder: folder.path, port: 0, onNotice: (notice) => tell(notice) });
  const client = EventStoreDBClient.connectionString(store.url);
  const [kept, gone] = [newStream(), newStream()];
  await client.appendToStream(kept, events(0, 1));
  await client.appendToStream(gone, events(0, 1, 2));
  await client.deleteStream(gone);
  expect(await requestScavenge(`127.0.0.1:${store.port}`)).toBe(true);
  expect(await told).toMatch(/^scavenging removed 3 events and freed \d+ bytes$/);
  expect(await all(client.readStream(kept))).toHaveLength(2);
  expect((await all(client.readAll())).filter(({ event: one }) => one!.streamId === gone)).toEqual([]);
  expect((await client.appendToStream(gone, event(3))).nextExpectedRevision).toBe(3n);
  await client.dispose();
  await store.close();
});

describe('what it refuses to open', () => {
  it('a folder that is open already, until it is closed', async () => {
    const store = await reopen(folder.path);
    expect(await errorOf(reopen(folder.path))).toBeInstanceOf(FolderInUse);
    await store.close();
    await (await reopen(folder.path)).close();
  });

  it('a folder of something else, and one of a later format', async () => {
    writeFileSync(join(folder.path, 'letter.txt'), 'dear');
    expect(await errorOf(reopen(folder.path))).toBeInstanceOf(ForeignFolder);
    expect(readdirSync(folder.path)).toEqual(['letter.txt']);
    const later = join(folder.path, 'later');
    mkdirSync(later);
    writeFileSync(join(later, 'format.json'), '{"format":"waymark-event-store","version":2,"salt":1}');
    expect(String(await errorOf(reopen(later)))).toContain('format 2; this program knows format 1');
  });

  it('a port that is taken, leaving the folder free', async () => {
    const store = await reopen(folder.path);
    const other = join(folder.path, 'other');
    expect(await errorOf(startEventStore({ folder: other, port: store.port }))).toBeInstanceOf(PortTaken);
    await (await reopen(other)).close();
    await store.close();
  });

  it('an address that others can reach', async () => {
    const refused = await errorOf(startEventStore({ folder: folder.path, port: 0, host: '0.0.0.0' }));
    expect(String(refused)).toContain('host 0.0.0.0 is refused: beyond loopback TLS is needed');
    expect(readdirSync(folder.path)).toEqual([]);
  });
});
