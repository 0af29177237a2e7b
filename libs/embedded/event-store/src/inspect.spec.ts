import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ForeignFolder } from './folder.js';
import { type DumpedEvent, backupEventStore, inspectEventStore } from './inspect.js';
import { DamagedLog } from './segments.js';
import { EventStoreDBClient, jsonEvent } from '@eventstore/db-client';
import { type RunningEventStore, startEventStore } from './start.js';

let root: string;
let folder: string;
let store: RunningEventStore;
let client: EventStoreDBClient;
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'waymark-inspect-'));
  folder = join(root, 'events');
  store = await startEventStore({ folder, port: 0, segmentBytes: 4096 });
  client = EventStoreDBClient.connectionString(store.url);
});
afterEach(async () => {
  await client.dispose();
  await store.close();
  rmSync(root, { recursive: true });
});

const append = (n: number) => client.appendToStream('s', jsonEvent({ type: 'happened', data: { n } }));
const numbers = (of: string): string[] => {
  const found: DumpedEvent[] = [];
  inspectEventStore(of, (event) => found.push(event));
  return found.map(({ stream, revision, data }) => `${stream} ${revision} ${data}`);
};

it('backs up a store that is written to: the copy opens, with all that was acknowledged before', async () => {
  for (let n = 0; n < 40; n++) await append(n);
  const copy = join(root, 'copy');
  let done = false;
  const backup = backupEventStore(folder, copy).finally(() => (done = true));
  for (let n = 40; !done; n++) await append(n);
  await backup;
  const restored = await startEventStore({ folder: copy, port: 0 });
  await restored.close();
  const copied = numbers(copy);
  expect(copied.length).toBeGreaterThanOrEqual(40);
  expect(copied).toEqual(numbers(folder).slice(0, copied.length));
  expect(copied[39]).toBe('s 39 {"n":39}');
});

it('backs up a store whose next segment is just being made', async () => {
  await append(0);
  writeFileSync(join(folder, 'segment-00000001.log'), '');
  const copy = join(root, 'copy');
  await backupEventStore(folder, copy);
  expect(numbers(copy)).toEqual(['s 0 {"n":0}']);
  await (await startEventStore({ folder: copy, port: 0 })).close();
  rmSync(join(folder, 'segment-00000001.log'));
});

it('changes nothing by looking, and names what is damaged', async () => {
  for (let n = 0; n < 40; n++) await append(n);
  const segment = join(folder, 'segment-00000000.log');
  const before = readFileSync(segment);
  expect(inspectEventStore(folder)).toEqual({ events: 40, notices: [] });
  expect(readFileSync(segment).equals(before)).toBe(true);
  const copy = join(root, 'copy');
  await backupEventStore(folder, copy);
  const damaged = Buffer.from(before);
  damaged[100]! ^= 1;
  writeFileSync(join(copy, 'segment-00000000.log'), damaged);
  expect(() => inspectEventStore(copy)).toThrow(DamagedLog);
  expect(readFileSync(join(copy, 'segment-00000000.log')).equals(damaged)).toBe(true);
});

it('copies into nothing that holds something', async () => {
  await append(0);
  await expect(backupEventStore(folder, folder)).rejects.toThrow(ForeignFolder);
  const empty = mkdtempSync(join(root, 'empty-'));
  await expect(backupEventStore(empty, join(root, 'copy'))).rejects.toThrow('holds no event store');
  expect(readdirSync(root).sort()).toEqual(['events', empty.slice(root.length + 1)].sort());
});
