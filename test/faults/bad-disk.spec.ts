import { execFileSync, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmdirSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDataFolder } from '#apps/waymark';
import { startEventStore } from '#libs/embedded/event-store';
import { type Caller, Installation, StreamReader } from '#test/support';

/** Real processes take their time on a busy machine. */
jest.setTimeout(120_000);

const SMALL_DISK = ['-t', 'tmpfs', '-o', 'size=24m', 'waymark'];
const workflow = { name: 'motor-loss', version: '1' };

/** A run with its lease. */
async function held(
  assistant: Caller,
): Promise<{ path: string; stream: string; lease: Record<string, string> }> {
  const runId = randomUUID();
  const path = `/v1/runs/${runId}`;
  await assistant('POST', '/v1/runs', { runId, workflow, customerId: randomUUID() });
  const { status, body } = await assistant('POST', `${path}/resume`, { workerId: 'w' });
  expect(status).toBe(200);
  return { path, stream: `run-acme.${runId}`, lease: { 'waymark-lease': String(body.leaseToken) } };
}

function flip(file: string, offset: number): void {
  const descriptor = openSync(file, 'r+');
  const byte = Buffer.alloc(1);
  readSync(descriptor, byte, 0, 1, offset);
  writeSync(descriptor, Buffer.of(byte[0]! ^ 0x10), 0, 1, offset);
  closeSync(descriptor);
}

describe('a data folder whose bytes are not what was written', () => {
  let installation: Installation;
  beforeEach(async () => {
    installation = await Installation.create();
    await openDataFolder(installation.data);
  });
  afterEach(() => installation.remove());

  /** Fills the log with so many segments, as a server would, in little ones. */
  async function segments(): Promise<string[]> {
    const folder = join(installation.data, 'event-store');
    const store = await startEventStore({ folder, port: 0, segmentBytes: 4096 });
    const streams = new StreamReader(store.url);
    for (let n = 0; n < 4; n += 1) await streams.fill(`before-${n}`, 100);
    await streams.close();
    await store.close();
    const files = readdirSync(folder).filter((name) => name.startsWith('segment-'));
    expect(files.length).toBeGreaterThan(3);
    return files.sort().map((name) => join(folder, name));
  }

  const refused = (words: string) => ({
    status: 1,
    out: '',
    err: expect.stringMatching(new RegExp(`^waymark: ${words}\n$`)) as string,
  });
  const eventStore = () => `the event store in ${join(installation.data, 'event-store')} cannot be opened`;
  const advice = 'restore the data folder from a backup';

  it('is refused in one sentence for a flipped bit in a middle segment, naming the place', async () => {
    const [, middle = ''] = await segments();
    flip(middle, 700);
    const outcome = await installation.run(['start']);
    expect(outcome).toEqual(
      refused(`${eventStore()}: segment-00000001.log is damaged at offset \\d+: .*; ${advice}`),
    );
    expect(await installation.run(['engines', '--event-store'])).toEqual(outcome);
  });

  it.each(['middle', 'last'])(
    'is refused in one sentence for a missing segment: the %s one',
    async (which) => {
      const files = await segments();
      const missing = (which === 'middle' ? files[1] : files.at(-1)) ?? '';
      rmSync(missing);
      const outcome = await installation.run(['start']);
      expect(outcome).toEqual(refused(`${eventStore()}: .*; ${advice}`));
    },
  );

  it('is refused in one line for pages of the document store that are none', async () => {
    const server = await installation.start();
    await server.stop();
    const file = join(installation.data, 'document-store', 'data.mdb');
    const descriptor = openSync(file, 'r+');
    writeSync(descriptor, Buffer.alloc(8192, 0x5a), 0, 8192, 0);
    closeSync(descriptor);
    const folder = join(installation.data, 'document-store');
    const found = `the document store in ${folder} cannot be opened: .*; ${advice}`;
    const died = 'the engines process could not be started: it was ended by SIG[A-Z]+';
    expect(await installation.run(['start'])).toEqual(refused(`(${found}|${died})`));
  });
});

describe('a data folder that somebody else owns', () => {
  it('is refused in one sentence', async () => {
    const installation = await Installation.create();
    const root = process.getuid?.() === 0;
    chmodSync(installation.data, 0o555);
    const { status, err } = await installation.run(['start'], {}, root ? { uid: 65_534, gid: 65_534 } : {});
    const why = 'that is not permitted (EACCES); mend that, or name another in WAYMARK_DATA';
    expect({ status, err }).toEqual({
      status: 1,
      err: `waymark: the data folder ${installation.data} cannot be used: ${why}\n`,
    });
    chmodSync(installation.data, 0o755);
    await installation.remove();
  });
});

describe('a second server on the same folder', () => {
  it('is refused, whatever part it would be, and the first goes on', async () => {
    const installation = await Installation.create();
    try {
      const server = await installation.start();
      const running = readFileSync(join(installation.data, 'running.json'), 'utf8');
      const first = await held(await server.as('assistant'));
      const inUse = `waymark: the data folder ${installation.data} is in use by process`;
      const others = [['start'], ['engines'], ['engines', '--document-store']];
      for (const { status, err } of await Promise.all(others.map((args) => installation.run(args)))) {
        expect(status).toBe(1);
        expect(err).toMatch(new RegExp(`^${inUse} \\d+\n$`));
      }
      expect(readFileSync(join(installation.data, 'running.json'), 'utf8')).toBe(running);
      const assistant = await server.as('assistant');
      const entered = await assistant('POST', `${first.path}/phase`, { phase: 'next' }, first.lease);
      expect(entered).toMatchObject({ status: 200, body: { revision: '2' } });
    } finally {
      await installation.remove();
    }
  });
});

const mountable = process.platform === 'linux' && canMount();
if (!mountable)
  console.warn('left out: 3 cases of a disk that is full or read-only, since none can be mounted');
const onDisk = mountable ? it : it.skip;

describe('a disk', () => {
  let installation: Installation;
  let disk: string;
  beforeAll(async () => {
    disk = mkdtempSync(join(tmpdir(), 'waymark-disk-'));
    execFileSync('mount', [...SMALL_DISK, disk]);
    installation = await Installation.create(join(disk, 'data'));
  });
  afterAll(async () => {
    remount(disk, 'rw');
    await installation.remove();
    execFileSync('umount', [disk]);
    rmdirSync(disk);
  });
  const cannot = (why: string) => ({
    status: 1,
    out: '',
    err:
      `waymark: the data folder ${installation.data} cannot be used: ${why}; ` +
      'mend that, or name another in WAYMARK_DATA\n',
  });

  onDisk('that fills up refuses commands and goes on reading; with room again it takes them', async () => {
    let server = await installation.start();
    const assistant = await server.as('assistant');
    const { path, stream, lease } = await held(assistant);
    const rest = { name: 's', kind: 'tool', status: 'completed', output: 'x'.repeat(20_000) };
    const send = (stepId: string) =>
      assistant('POST', `${path}/steps`, { stepId, ...rest }, { ...lease, 'idempotency-key': stepId });
    const first = await send('first');
    const list = { 'waymark-min-position': String(first.body.position) };
    expect(await assistant('GET', '/v1/runs', undefined, list)).toMatchObject({ status: 200 });

    const filled = fillUp(disk);
    for (const stepId of ['second', 'third']) {
      const refused = await send(stepId);
      expect(refused).toMatchObject({ status: 503, body: { code: 'store-unavailable' } });
      expect(refused.headers.get('retry-after')).toBe('1');
      expect(await assistant('GET', path)).toMatchObject({ status: 200, body: { revision: '2' } });
      expect(await assistant('GET', '/v1/runs')).toMatchObject({ status: 200 });
    }
    rmSync(filled);

    expect(await send('second')).toMatchObject({ status: 200, body: { revision: '3' } });
    await server.stop();
    server = await installation.start(server.ports);
    expect(await send('second')).toMatchObject({ status: 200, body: { revision: '3' } });
    expect(await send('third')).toMatchObject({ status: 200, body: { revision: '4' } });
    const streams = new StreamReader(server.eventStoreUrl);
    expect((await streams.read(stream)).map(({ type, data }) => data.stepId ?? type)).toEqual([
      ...['RunStarted', 'LeaseTaken', 'first', 'second', 'third'],
    ]);
    await streams.close();
    await server.stop();
  });

  onDisk('that is full is named at start', async () => {
    const filled = fillUp(disk);
    expect(await installation.run(['start'])).toEqual(cannot('no space is left there (ENOSPC)'));
    rmSync(filled);
  });

  onDisk('that can only be read is named at start', async () => {
    remount(disk, 'ro');
    expect(await installation.run(['start'])).toEqual(cannot('the file system is read-only (EROFS)'));
  });
});

/** Whether the system lets this process have a small disk of its own. */
function canMount(): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'waymark-disk-'));
  const can = spawnSync('mount', [...SMALL_DISK, folder], { stdio: 'ignore' }).status === 0;
  if (can) execFileSync('umount', [folder]);
  rmdirSync(folder);
  return can;
}

function remount(disk: string, how: 'ro' | 'rw'): void {
  execFileSync('mount', ['-o', `remount,${how}`, disk]);
}

/** Takes all the room that a disk has; the file that holds it. */
function fillUp(folder: string): string {
  const file = join(folder, 'ballast');
  const descriptor = openSync(file, 'w');
  try {
    for (;;) writeSync(descriptor, Buffer.alloc(4096));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    return file;
  } finally {
    closeSync(descriptor);
  }
}
