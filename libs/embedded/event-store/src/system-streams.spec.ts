import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ProposedEvent } from './record.js';
import { Scavenger } from './scavenge.js';
import { EventStore } from './store.js';
import { METADATA_TYPE, metadataStreamOf } from './streams.js';
import { pageOf, readable, resolve } from './views.js';

const base = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
let folder: string;
let store: EventStore;
const openStore = (): EventStore =>
  new EventStore({ folder, salt: 7, segmentBytes: 2048, onNotice: () => undefined });
beforeEach(() => {
  folder = mkdtempSync(join(base, 'waymark-system-'));
  store = openStore();
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

let made = 0;
const event = (data: string, type = 'happened'): ProposedEvent => ({
  id: Buffer.from(String(made++).padStart(16, '0')),
  type: Buffer.from(type),
  json: true,
  metadata: Buffer.alloc(0),
  data: Buffer.from(data),
});

/** Every link of a system stream, and the data of what it leads to, if that is still there. */
function linksOf(name: string): { links: string[]; led: (string | undefined)[] } {
  const read = pageOf(store, readable(store, name)!, 0, 'forwards', Infinity);
  const links = read.map((link) => `${link.position} ${link.revision} ${link.idKey} ${link.data.toString()}`);
  return { links, led: read.map((link) => resolve(store, link, true).event?.data.toString()) };
}

const NAMES = ['$ce-order', '$et-happened', '$streams', '$category-order'];

it('keep every link, its place and its id when what it leads to is scavenged, also after a restart', async () => {
  for (const n of [0, 1, 2])
    for (const stream of ['order-cut', 'order-gone', 'order-kept'])
      await store.append(stream, 'any', [event(`${stream} ${n} ${'x'.repeat(100)}`)]);
  await store.append(metadataStreamOf('order-cut'), 'any', [event('{"$tb":2}', METADATA_TYPE)]);
  await store.tombstone('order-gone', 'any');
  const before = NAMES.map((name) => linksOf(name).links);
  const { led } = linksOf('$ce-order');
  expect(before.map(({ length }) => length)).toEqual([9, 9, 4, 3]);
  expect(led.filter((data) => data !== undefined)).toHaveLength(4);
  expect(await new Scavenger(store, 7).run()).toMatchObject({ events: 5 });
  expect(NAMES.map((name) => linksOf(name).links)).toEqual(before);
  expect(linksOf('$ce-order').led).toEqual(led);
  await store.close();
  store = openStore();
  expect(NAMES.map((name) => linksOf(name).links)).toEqual(before);
  expect(linksOf('$ce-order').led).toEqual(led);
});
