import * as fs from 'node:fs';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FRAME_HEADER, type ProposedEvent } from './record.js';
import { Scavenger } from './scavenge.js';
import { DamagedLog, LogUnwritable } from './segments.js';
import { EventStore } from './store.js';

type Fs = typeof fs;

/** What the disk refuses, while a test says so. */
const disk: {
  write?: string;
  sync?: string;
  cut?: string;
  halfWritten: boolean;
  syncs: number;
  hold?: Promise<void>;
} = {
  halfWritten: false,
  syncs: 0,
};

jest.mock('node:fs', () => {
  const real = jest.requireActual<Fs>('node:fs');
  const refusal = (code: string): Error => Object.assign(new Error(`${code}: refused by the test`), { code });
  return {
    ...real,
    writeSync: (fd: number, bytes: Buffer, offset: number, length: number, position: number): number => {
      if (!disk.write) return real.writeSync(fd, bytes, offset, length, position);
      if (disk.halfWritten) throw refusal(disk.write);
      disk.halfWritten = true;
      return real.writeSync(fd, bytes, offset, Math.ceil(length / 2), position);
    },
    ftruncateSync: (fd: number, size: number): void => {
      if (disk.cut) throw refusal(disk.cut);
      real.ftruncateSync(fd, size);
    },
    fdatasync: (fd: number, done: (error: Error | null) => void): void => {
      disk.syncs += 1;
      const code = disk.sync;
      void (disk.hold ?? Promise.resolve()).then(() =>
        code ? done(refusal(code)) : real.fdatasync(fd, done),
      );
    },
  };
});

let folder: string;
let notices: string[];
let store: EventStore;
const segment = (): string => join(folder, 'segment-00000000.log');
const openStore = (): EventStore =>
  new EventStore({ folder, salt: 7, segmentBytes: 1 << 20, onNotice: (notice) => notices.push(notice) });

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-store-'));
  notices = [];
  store = openStore();
});
afterEach(async () => {
  Object.assign(disk, {
    write: undefined,
    sync: undefined,
    cut: undefined,
    hold: undefined,
    halfWritten: false,
  });
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

const proposal = (n: number): ProposedEvent => ({
  id: Buffer.alloc(16, n),
  type: Buffer.from('happened'),
  json: true,
  metadata: Buffer.alloc(0),
  data: Buffer.from(String(n)),
});

const inLog = (of: EventStore): string[] =>
  of.reader
    .allPage(1, 'forwards', Infinity)
    .map((event) => `${event.position} ${event.stream} ${event.data.toString()}`);

describe('a full disk', () => {
  it.each([
    ['write', 'ENOSPC'],
    ['sync', 'ENOSPC'],
    ['write', 'EDQUOT'],
  ] as const)(
    'refuses appends at the %s (%s), goes on reading, and recovers when there is room',
    async (at, code) => {
      await store.append('s', 'no_stream', [proposal(1)]);
      const size = statSync(segment()).size;
      disk[at] = code;
      const refused = await Promise.allSettled([
        store.append('s', 0n, [proposal(2)]),
        store.append('s', 1n, [proposal(3)]),
        store.append('s', 'no_stream', [proposal(1)]),
        store.tombstone('t', 'any'),
        store.delete('s', 'any'),
      ]);
      expect(refused.map(({ status }) => status)).toEqual(Array(5).fill('rejected'));
      expect((refused[0] as PromiseRejectedResult).reason).toBeInstanceOf(LogUnwritable);
      expect((refused[0] as PromiseRejectedResult).reason).toMatchObject({ lasting: false });
      expect(inLog(store)).toEqual(['1 s 1']);
      expect(statSync(segment()).size).toBe(size - FRAME_HEADER);
      disk[at] = undefined;
      expect(await store.append('s', 0n, [proposal(2)])).toEqual({
        kind: 'written',
        revision: 1,
        position: 2,
      });
      expect(await store.append('t', 'no_stream', [proposal(4)])).toEqual({
        kind: 'written',
        revision: 0,
        position: 3,
      });
      await store.close();
      store = openStore();
      expect(inLog(store)).toEqual(['1 s 1', '2 s 2', '3 t 4']);
      expect(notices).toEqual([]);
    },
  );
});

it('refuses every append after a sync that failed for another reason, and still reads', async () => {
  await store.append('s', 'no_stream', [proposal(1)]);
  disk.sync = 'EIO';
  await expect(store.append('s', 0n, [proposal(2)])).rejects.toMatchObject({ lasting: true });
  disk.sync = undefined;
  await expect(store.append('s', 0n, [proposal(2)])).rejects.toThrow('it must be restarted');
  expect(inLog(store)).toEqual(['1 s 1']);
  await store.close();
  store = openStore();
  expect(await store.append('s', 0n, [proposal(2)])).toEqual({ kind: 'written', revision: 1, position: 2 });
});

it('begins no segment behind a torn tail: scavenging cuts it first, or is refused', async () => {
  await store.append('s', 'no_stream', [proposal(1)]);
  Object.assign(disk, { write: 'ENOSPC', cut: 'EIO' });
  await expect(store.append('s', 0n, [proposal(2)])).rejects.toBeInstanceOf(LogUnwritable);
  disk.write = undefined;
  await expect(new Scavenger(store, 7).run()).rejects.toThrow('EIO');
  expect(store.log.lastSegment).toBe(0);
  disk.cut = undefined;
  await new Scavenger(store, 7).run();
  expect(store.log.lastSegment).toBe(1);
  await store.close();
  store = openStore();
  expect(inLog(store)).toEqual(['1 s 1']);
});

it('is not scavenged after a sync that failed for good', async () => {
  await store.append('s', 'no_stream', [proposal(1)]);
  disk.sync = 'EIO';
  await expect(store.append('s', 0n, [proposal(2)])).rejects.toMatchObject({ lasting: true });
  disk.sync = undefined;
  await expect(new Scavenger(store, 7).run()).rejects.toThrow('it must be restarted');
  expect(store.log.lastSegment).toBe(0);
});

describe('while a sync is under way', () => {
  it('answers nothing, not even re-sends and refusals that rest on it, and readers see nothing of it', async () => {
    let release = (): void => undefined;
    disk.hold = new Promise((resolve) => (release = resolve));
    const answered: string[] = [];
    const note = (what: string) => (): void => void answered.push(what);
    const pending = [
      store.append('s', 'no_stream', [proposal(1)]).then(note('first')),
      store.append('s', 'no_stream', [proposal(1)]).then(note('re-send')),
      store.append('s', 'no_stream', [proposal(2)]).then(note('refusal')),
      store.append('s', 'any', [proposal(1)]).then(note('re-send under any')),
    ];
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect([answered, inLog(store)]).toEqual([[], []]);
    release();
    await Promise.all(pending);
    expect(answered).toEqual(['first', 're-send', 'refusal', 're-send under any']);
    expect(inLog(store)).toEqual(['1 s 1']);
  });

  it('gathers what arrives for the next sync', async () => {
    const before = disk.syncs;
    await Promise.all(
      Array.from({ length: 200 }, (_, n) => store.append(`s-${n}`, 'no_stream', [proposal(n)])),
    );
    expect(disk.syncs - before).toBeLessThanOrEqual(2);
  });
});

it('never serves bytes that changed on disk while it runs', async () => {
  await store.append('s', 'no_stream', [proposal(1)]);
  await store.append('t', 'no_stream', [proposal(2)]);
  await store.close();
  store = openStore();
  const bytes = readFileSync(segment());
  const at = bytes.indexOf('happened');
  bytes[at] = 0;
  writeFileSync(segment(), bytes);
  expect(() => store.reader.at(1)).toThrow(DamagedLog);
  expect(() => store.reader.at(1)).toThrow(
    /segment-00000000\.log is damaged at offset 44: the event at position 1/,
  );
  expect(store.reader.at(2).data.toString()).toBe('2');
  writeFileSync(segment(), Buffer.concat([bytes.subarray(0, at), Buffer.from('h'), bytes.subarray(at + 1)]));
});

it('tells callers when more waits for the disk than it should', async () => {
  const small = new EventStore(
    { folder: mkdtempSync(join(folder, 'x-')), salt: 1, segmentBytes: 1 << 20, onNotice: () => undefined },
    100,
  );
  const append = small.append('s', 'any', [proposal(1), proposal(2)]);
  expect(small.overloaded).toBe(true);
  await small.hasRoom();
  expect(small.overloaded).toBe(false);
  await append;
  await small.close();
});
