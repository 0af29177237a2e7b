import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ProposedEvent } from './record.js';
import { Scavenger } from './scavenge.js';
import { EventStore } from './store.js';
import { METADATA_TYPE, metadataStreamOf } from './streams.js';
import { isInAll } from './views.js';

let folderFails = false;
jest.mock('./folder.js', () => {
  const real = jest.requireActual<typeof import('./folder.js')>('./folder.js');
  return {
    ...real,
    syncFolder: (path: string): void => {
      if (folderFails) throw new Error('EIO: refused by the test');
      real.syncFolder(path);
    },
  };
});

const base = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
let folder: string;
let store: EventStore;
const openStore = (): EventStore =>
  new EventStore({
    folder,
    salt: 7,
    segmentBytes: 2048,
    onNotice: (notice) => {
      throw new Error(notice);
    },
  });
beforeEach(() => {
  folder = mkdtempSync(join(base, 'waymark-scavenge-'));
  store = openStore();
});
afterEach(async () => {
  folderFails = false;
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

let made = 0;
const event = (data: string, type = 'happened'): ProposedEvent => ({
  id: Buffer.from(String(made++).padStart(16, '0')),
  type: Buffer.from(type),
  json: true,
  metadata: Buffer.from('private'),
  data: Buffer.from(data),
});
const limit = (stream: string, document: object) =>
  store.append(metadataStreamOf(stream), 'any', [event(JSON.stringify(document), METADATA_TYPE)]);

/** Five events in each of six streams, of which all but one are limited, deleted or both. */
async function fill(): Promise<void> {
  for (let n = 0; n < 5; n++)
    for (const stream of ['kept', 'truncated', 'counted', 'aged', 'deleted', 'buried'])
      await store.append(stream, 'any', [event(`${stream} ${n} ${'x'.repeat(60)}`)]);
  await limit('truncated', { $tb: 2 });
  await limit('truncated', { $tb: 3 });
  await limit('counted', { $maxCount: 1 });
  await limit('aged', { $maxAge: 1 });
  await store.delete('deleted', 'any');
  await store.tombstone('buried', 'any');
}

const later = (): void => void jest.spyOn(Date, 'now').mockReturnValue(Date.now() + 5000);
afterEach(() => jest.restoreAllMocks());

const onDisk = (): string =>
  readdirSync(folder)
    .map((name) => readFileSync(join(folder, name), 'latin1'))
    .join('');

/** Of the events that are written anew, which are there. */
const visible = (): string[] => {
  const seen: string[] = [];
  for (let at = 1; ;) {
    const page = store.reader.allPage(at, 'forwards', Infinity);
    if (page.length === 0) return seen;
    for (const one of page) if (isInAll(one)) seen.push(`${one.position} ${one.stream} ${one.revision}`);
    at = page.at(-1)!.position + 1;
  }
};

const KEPT = [
  ...[0, 1, 2, 3, 4].map((n) => `kept ${n}`),
  ...[3, 4].map((n) => `truncated ${n}`),
  'counted 4',
];

it('removes from the disk what is truncated, too many, expired, deleted or tombstoned, and nothing else', async () => {
  await fill();
  later();
  const { events, bytes } = await new Scavenger(store, 7).run();
  // 3 truncated, 4 counted, 5 aged, 5 deleted, 5 buried, and the first metadata of the truncated.
  expect(events).toBe(23);
  expect(bytes).toBeGreaterThan(22 * 60);
  const text = onDisk();
  const left = text
    .match(/(kept|truncated|counted|aged|deleted|buried) \d x/g)
    ?.map((found) => found.slice(0, -2));
  expect(left?.sort()).toEqual([...KEPT].sort());
  expect(await new Scavenger(store, 7).run()).toEqual({ events: 0, bytes: 0 });
});

it('changes no revision and no position, now and after a restart, and numbering goes on', async () => {
  await fill();
  later();
  const before = visible();
  await new Scavenger(store, 7).run();
  const after = visible();
  expect(before).toEqual(expect.arrayContaining(after));
  expect(
    after
      .map((line) => line.replace(/^\d+ /, ''))
      .filter((line) => !line.startsWith('$$'))
      .sort(),
  ).toEqual([...KEPT, 'buried 0'].sort());
  await store.close();
  store = openStore();
  expect(visible()).toEqual(after);
  expect(await store.append('deleted', 4n, [event('again')])).toMatchObject({ revision: 5 });
  expect(await store.append('aged', 4n, [event('again')])).toMatchObject({ revision: 5 });
  expect(await store.append('buried', 'any', [event('again')])).toEqual({ kind: 'stream-deleted' });
});

it('reads on where the new file has the events when the folder cannot be synced, and goes on later', async () => {
  await fill();
  later();
  const before = visible();
  const replace = store.log.replace.bind(store.log);
  const failing = jest.spyOn(store.log, 'replace').mockImplementation((...segment) => {
    folderFails = true;
    replace(...segment);
  });
  await expect(new Scavenger(store, 7).run()).rejects.toThrow('EIO');
  const between = visible();
  expect(before).toEqual(expect.arrayContaining(between));
  failing.mockRestore();
  folderFails = false;
  expect((await new Scavenger(store, 7).run()).events).toBeLessThan(23);
  expect(between).toEqual(expect.arrayContaining(visible()));
  expect(await new Scavenger(store, 7).run()).toEqual({ events: 0, bytes: 0 });
});

it('does nothing where the log cannot be closed first, and says why', async () => {
  await fill();
  const next = join(folder, `segment-${String(store.log.lastSegment + 1).padStart(8, '0')}.log`);
  mkdirSync(next);
  await expect(new Scavenger(store, 7).run()).rejects.toThrow('EISDIR');
  rmdirSync(next);
  expect((await new Scavenger(store, 7).run()).events).toBe(18);
});

it('lets others write and read meanwhile', async () => {
  await fill();
  const scavenger = new Scavenger(store, 7);
  const running = scavenger.run();
  expect(scavenger.run()).toBe(running);
  const revisions: number[] = [];
  while (scavenger.isRunning) {
    const answer = await store.append('kept', 'any', [event('meanwhile')]);
    if (answer.kind === 'written') revisions.push(answer.revision);
  }
  expect((await running).events).toBe(18);
  expect(revisions).toEqual(revisions.map((_, i) => i + 5));
  const page = store.reader.streamPage(store.catalogue.peek('kept')!, 0, 'forwards', 5);
  expect(page.map(({ data }) => data.toString().slice(0, 6))).toEqual(
    [0, 1, 2, 3, 4].map((n) => `kept ${n}`),
  );
});

it('leaves every visible event when a crash stops it after any segment, or before a rename', async () => {
  await fill();
  const before = visible();
  await store.close();
  const segments = readdirSync(folder).filter((name) => name.startsWith('segment'));
  const old = new Map(segments.map((name) => [name, readFileSync(join(folder, name))]));
  store = openStore();
  await new Scavenger(store, 7).run();
  const after = visible();
  await store.close();
  for (let done = 0; done <= segments.length; done++) {
    for (const name of segments.slice(done)) writeFileSync(join(folder, name), old.get(name)!);
    writeFileSync(join(folder, `${segments.at(-1)}.new`), 'half');
    store = openStore();
    const found = visible();
    expect(found).toEqual(expect.arrayContaining(after));
    expect(before).toEqual(expect.arrayContaining(found));
    expect(readdirSync(folder).some((name) => name.endsWith('.new'))).toBe(false);
    await new Scavenger(store, 7).run();
    expect(visible()).toEqual(after);
    await store.close();
  }
  store = openStore();
});
