import {
  existsSync,
  copyFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { SegmentLog } from './log.js';
import { FRAME_HEADER, type NewEvent, StoredEvent, encodeFrame } from './record.js';
import { DamagedLog } from './segments.js';

const SALT = 0x5a17;
const SEGMENT = 'segment-00000000.log';

/** Memory where there is some: these cases are about bytes, and there are a thousand of them. */
const base = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

let folder: string;
let notices: string[];
beforeEach(() => {
  folder = mkdtempSync(join(base, 'waymark-log-'));
  notices = [];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const event = (stream: string, revision: number, data = `${stream} ${revision}`): NewEvent => ({
  stream: Buffer.from(stream),
  revision,
  id: Buffer.alloc(16, revision + 1),
  type: Buffer.from('happened'),
  json: true,
  metadata: Buffer.from('{}'),
  data: Buffer.from(data),
});

function open(segmentBytes = 1 << 20): { log: SegmentLog; found: string[] } {
  const found: string[] = [];
  const options = { folder, salt: SALT, segmentBytes, onNotice: (notice: string) => notices.push(notice) };
  const log = SegmentLog.open(options, (stored) =>
    found.push(`${stored.position} ${stored.data.toString()}`),
  );
  return { log, found };
}

const frame = (events: NewEvent[], position: number): Buffer => encodeFrame(events, position, 1, SALT).bytes;

/** What stands behind the last durable frame is the mark that says so. */
const end = (): number => statSync(join(folder, SEGMENT)).size - FRAME_HEADER;

/** Three appends, the last of two events, each synced alone; closed without a word, as by a crash. */
async function writeThree(): Promise<{ before: number; after: number; durable: string[]; whole: string[] }> {
  const { log } = open();
  await log.write([frame([event('a', 0)], 1)]);
  await log.write([frame([event('b', 0)], 2)]);
  const before = end();
  await log.write([frame([event('a', 1), event('a', 2)], 3)]);
  log.close();
  const durable = ['1 a 0', '2 b 0'];
  return { before, after: end(), durable, whole: [...durable, '3 a 1', '4 a 2'] };
}

function change(offset: number, to: (byte: number) => number): void {
  const bytes = readFileSync(join(folder, SEGMENT));
  bytes[offset] = to(bytes[offset]!);
  writeFileSync(join(folder, SEGMENT), bytes);
}

/** Opens what is there and answers what it holds; a second opening must find the same and nothing to say. */
function recover(): string[] {
  const first = open();
  first.log.close();
  const said = notices.length;
  const second = open();
  second.log.close();
  expect(second.found).toEqual(first.found);
  expect(notices).toHaveLength(said);
  return first.found;
}

describe('the tail of the log after a crash', () => {
  it('cut at any byte of the last append, leaves the others and no half append', async () => {
    const { before, after, durable } = await writeThree();
    copyFileSync(join(folder, SEGMENT), join(folder, 'whole'));
    for (let size = before; size < after; size++) {
      copyFileSync(join(folder, 'whole'), join(folder, SEGMENT));
      truncateSync(join(folder, SEGMENT), size);
      expect(recover()).toEqual(durable);
      expect(statSync(join(folder, SEGMENT)).size).toBe(before);
    }
    expect(notices).toHaveLength(after - before - 1);
    expect(notices[0]).toBe(
      `${SEGMENT}: an append that was never acknowledged was cut off (1 bytes at offset ${before})`,
    );
  });

  const changes: [string, (byte: number) => number][] = [
    ['flipped', (byte) => byte ^ 0x10],
    ['zeroed', (byte) => (byte === 0 ? 1 : 0)],
  ];

  it.each(changes)('%s at any byte of a write that was not synced, leaves the others', async (_name, to) => {
    const { before, after, durable } = await writeThree();
    truncateSync(join(folder, SEGMENT), after);
    copyFileSync(join(folder, SEGMENT), join(folder, 'whole'));
    for (let offset = before; offset < after; offset++) {
      copyFileSync(join(folder, 'whole'), join(folder, SEGMENT));
      change(offset, to);
      expect(recover()).toEqual(durable);
    }
  });

  it.each(changes)(
    '%s at any byte of an acknowledged append, is damage and cuts nothing',
    async (_name, to) => {
      const { before, after } = await writeThree();
      copyFileSync(join(folder, SEGMENT), join(folder, 'whole'));
      for (let offset = before; offset < after; offset++) {
        copyFileSync(join(folder, 'whole'), join(folder, SEGMENT));
        change(offset, to);
        const changed = readFileSync(join(folder, SEGMENT));
        const error = thrown(() => open());
        expect(error).toBeInstanceOf(DamagedLog);
        expect(error).toMatchObject({ file: SEGMENT, offset: before });
        expect(readFileSync(join(folder, SEGMENT)).equals(changed)).toBe(true);
      }
    },
  );

  it('zeros from any byte of the last append to the end, leaves the others and no half append', async () => {
    const { before, after, durable } = await writeThree();
    const whole = readFileSync(join(folder, SEGMENT));
    for (let offset = before; offset < after; offset++) {
      writeFileSync(join(folder, SEGMENT), Buffer.from(whole).fill(0, offset));
      expect(recover()).toEqual(durable);
    }
  });

  it('cut or changed in the mark behind it, loses nothing', async () => {
    const { after, whole } = await writeThree();
    copyFileSync(join(folder, SEGMENT), join(folder, 'whole'));
    for (let offset = after; offset < after + FRAME_HEADER; offset++) {
      copyFileSync(join(folder, 'whole'), join(folder, SEGMENT));
      change(offset, (byte) => byte ^ 1);
      expect(recover()).toEqual(whole);
      copyFileSync(join(folder, 'whole'), join(folder, SEGMENT));
      truncateSync(join(folder, SEGMENT), offset);
      expect(recover()).toEqual(whole);
    }
  });

  it('filled with zeros, is cut', async () => {
    const { after, whole } = await writeThree();
    truncateSync(join(folder, SEGMENT), after + FRAME_HEADER + 5000);
    expect(recover()).toEqual(whole);
    expect(notices).toEqual([
      `${SEGMENT}: an append that was never acknowledged was cut off (5000 bytes at offset ${after + FRAME_HEADER})`,
    ]);
  });

  it('torn in the middle of one write of several appends, is cut at the first bad one', async () => {
    const { log } = open();
    await log.write([frame([event('a', 0)], 1)]);
    const torn = end();
    await log.write([frame([event('a', 1)], 2), frame([event('b', 0)], 3), frame([event('c', 0)], 4)]);
    log.close();
    truncateSync(join(folder, SEGMENT), end());
    change(torn + 40, (byte) => byte ^ 1);
    expect(recover()).toEqual(['1 a 0']);
  });

  it('goes on where the cut was', async () => {
    const { before } = await writeThree();
    truncateSync(join(folder, SEGMENT), before + 10);
    const { log } = open();
    await log.write([frame([event('c', 0)], 3)]);
    log.close();
    expect(recover()).toEqual(['1 a 0', '2 b 0', '3 c 0']);
  });
});

describe('damage', () => {
  it('anywhere before a later append is named and not served', async () => {
    const { before } = await writeThree();
    copyFileSync(join(folder, SEGMENT), join(folder, 'whole'));
    const named = new Set<number>();
    for (let offset = 0; offset < before; offset++) {
      copyFileSync(join(folder, 'whole'), join(folder, SEGMENT));
      change(offset, (byte) => byte ^ 0x80);
      const error = thrown(() => open());
      expect(error).toBeInstanceOf(DamagedLog);
      const { file, offset: at } = error as DamagedLog;
      expect(file).toBe(SEGMENT);
      named.add(at);
    }
    const frames = [0, 16, 16 + frame([event('a', 0)], 1).length];
    expect([...named]).toEqual(frames);
  });

  it('of the last append is told from a crash once the log was closed', async () => {
    await writeThree();
    const { log } = open();
    await log.write([frame([event('a', 3)], 5)]);
    const last = end();
    log.finish();
    log.close();
    expect(recover()).toHaveLength(5);
    change(last - 3, (byte) => byte ^ 1);
    expect(() => open()).toThrow(DamagedLog);
  });

  it('of an earlier segment is never taken for a torn tail', async () => {
    await writeTwoSegments();
    change(end() - 1, (byte) => byte ^ 1);
    expect(() => open()).toThrow(/segment-00000000\.log is damaged at offset 16/);
  });

  it.each([
    ['the first', 'segment-00000000.log'],
    ['the last', 'segment-00000001.log'],
  ])('%s file of the log missing, is told', async (_which, name) => {
    await writeTwoSegments();
    rmSync(join(folder, name));
    expect(() => open()).toThrow(`${name} is damaged at offset 0: the file is missing`);
  });

  it('the end of a log that was closed missing, is told', async () => {
    const { before } = await writeThree();
    const { log } = open();
    await log.write([frame([event('a', 3)], 5)]);
    log.finish();
    log.close();
    truncateSync(join(folder, SEGMENT), before);
    expect(() => open()).toThrow('the log ends with the event at position 2, and had 5 before');
  });
});

async function writeTwoSegments(): Promise<void> {
  const { log } = open(64);
  await log.write([frame([event('a', 0)], 1)]);
  await log.write([frame([event('a', 1)], 2)]);
  log.close();
}

it('is not fooled by bytes of a client that look like a frame', async () => {
  const { log } = open();
  const forged = encodeFrame([event('forged', 0)], 9, 1, SALT + 1).bytes;
  await log.write([frame([event('a', 0)], 1)]);
  await log.write([frame([{ ...event('a', 1), data: forged }], 2)]);
  log.close();
  truncateSync(join(folder, SEGMENT), end() - 1);
  expect(recover()).toEqual(['1 a 0']);
});

it('gives back every field of every record', () => {
  const bytes = (max: number): fc.Arbitrary<Buffer> =>
    fc.uint8Array({ maxLength: max }).map((b) => Buffer.from(b));
  const arbitrary = fc.record({
    stream: bytes(40),
    revision: fc.integer({ min: 0, max: 2 ** 48 - 1 }),
    id: fc.uint8Array({ minLength: 16, maxLength: 16 }).map((b) => Buffer.from(b)),
    type: bytes(40),
    json: fc.boolean(),
    metadata: bytes(60),
    data: bytes(200),
  });
  fc.assert(
    fc.property(fc.array(arbitrary, { minLength: 1, maxLength: 5 }), (events) => {
      const { bytes: encoded, offsets } = encodeFrame(events, 7, 1_700_000_000_000, SALT);
      events.forEach((sent, i) => {
        const stored = new StoredEvent(encoded, offsets[i]!, 7 + i);
        const part = (from: number, to: number): Buffer => encoded.subarray(from, to);
        expect({
          stream: part(stored.streamAt, stored.typeAt),
          revision: stored.revision,
          id: part(stored.idAt, stored.idAt + 16),
          type: part(stored.typeAt, stored.metadataAt),
          json: stored.json,
          metadata: part(stored.metadataAt, stored.dataAt),
          data: stored.data,
        }).toEqual(sent);
        expect([stored.created, stored.tombstone]).toEqual([1_700_000_000_000, false]);
        expect(stored.isIntact(SALT, encoded.length)).toBe(true);
      });
    }),
    { numRuns: 40 },
  );
});

function thrown(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  return undefined;
}
