import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { startEventStore } from '#libs/embedded/event-store';
import { Vault } from '#libs/vault';
import { Connection } from './connection.js';
import { add, ana, call, counter, noon, open } from './examples.js';
import { Folds } from './folds.js';
import { EventStore } from './index.js';
import { Lanes } from './lanes.js';
import { RecentCommands } from './recent-commands.js';
import { type Snapshot, type Snapshots, takeSnapshot } from './snapshots.js';

let folder: string;
let server: Awaited<ReturnType<typeof startEventStore>>;
let vault: Vault;
let store: EventStore;
let connection: Connection;
let notices: string[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waymark-folds-'));
  server = await startEventStore({ folder: join(folder, 'events'), port: 0 });
  vault = await Vault.open({ folder: join(folder, 'keys') });
  store = await EventStore.connect({ url: server.url, vault });
  connection = new Connection(server.url);
});

afterAll(async () => {
  await store.close();
  await connection.close();
  await server.close();
  await rm(folder, { recursive: true, force: true });
});

beforeEach(() => {
  notices = [];
});

const onNotice = (text: string) => void notices.push(text);

class Kept implements Snapshots {
  readonly saved = new Map<string, Snapshot>();
  async load(stream: string) {
    return this.saved.get(stream);
  }
  async save(snapshot: Snapshot) {
    this.saved.set(snapshot.stream, snapshot);
  }
}

const foldsWith = (snapshots?: Snapshots) =>
  new Folds({ connection, vault, snapshots, cachedStreams: 10, onNotice });

async function snapshotAt(stream: string, revision: bigint): Promise<Snapshot> {
  const keys = await vault.person('acme', ana);
  return takeSnapshot(counter, await foldsWith().asOf(counter, stream, revision), ana, keys)!;
}

async function everythingOf(folds: Folds, stream: string) {
  const { fold } = await folds.current(counter, stream);
  const { state, revision, position, digest, commands } = fold;
  return { state, revision, position, digest, commands: commands.save() };
}

/** A stream with so many events after its first. */
async function streamOf(events: number): Promise<string> {
  const id = randomUUID();
  await store.handle(counter, open(id));
  for (let amount = 1; amount <= events; amount++) await store.handle(counter, add(id, amount));
  return `counter-acme.${id}`;
}

describe('a fold from a snapshot and the tail', () => {
  it('is the fold from the stream, with the commands it remembers', async () => {
    const command = fc.record({
      amounts: fc.array(fc.nat(9), { minLength: 1, maxLength: 3 }),
      note: fc.string({ maxLength: 5 }),
      hours: fc.nat(30),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 6 }), fc.nat(20), async (commands, cut) => {
        const id = randomUUID();
        await store.handle(counter, open(id));
        let at = Date.parse(noon);
        for (const { amounts, note, hours } of commands) {
          at += hours * 60 * 60 * 1000;
          const context = { at: new Date(at).toISOString() };
          await store.handle(counter, call(id, { type: 'Add', amounts, note }, { context }));
        }
        const stream = `counter-acme.${id}`;
        const { fold } = await foldsWith().current(counter, stream);
        const snapshots = new Kept();
        await snapshots.save(await snapshotAt(stream, BigInt(cut) % (fold.revision + 1n)));
        expect(await everythingOf(foldsWith(snapshots), stream)).toEqual(
          await everythingOf(foldsWith(), stream),
        );
      }),
      { numRuns: 15 },
    );
    expect(notices).toEqual([]);
  });

  it('answers a command from before it, as the stream was then', async () => {
    const id = randomUUID();
    await store.handle(counter, open(id));
    const repeated = add(id, 2);
    const first = await store.handle(counter, repeated);
    await store.handle(counter, add(id, 3));
    const snapshots = new Kept();
    await snapshots.save(await snapshotAt(`counter-acme.${id}`, 2n));
    const restarted = await EventStore.connect({ url: server.url, vault, snapshots });
    expect(await restarted.handle(counter, repeated)).toEqual({ ...first, replayed: true });
    await restarted.close();
  });
});

describe('a snapshot that is not to be trusted', () => {
  const foldedIn = async (stream: string, snapshot: Snapshot) => {
    const snapshots = new Kept();
    await snapshots.save({ ...snapshot, stream });
    return everythingOf(foldsWith(snapshots), stream);
  };

  it.each<[string, (snapshot: Snapshot) => Snapshot, string[]]>([
    ['of another fold version', (s) => ({ ...s, foldVersion: 0 }), []],
    ['that does not open', (s) => ({ ...s, sealed: Buffer.alloc(80) }), ['a snapshot was not used']],
    ['moved to another revision', (s) => ({ ...s, revision: 1n }), ['a snapshot was not used']],
    [
      'of an event that is not there',
      (s) => ({ ...s, digest: 'f'.repeat(64) }),
      ['a snapshot is not of its stream'],
    ],
  ])('%s is left for the stream', async (_name, change, expected) => {
    const stream = await streamOf(3);
    const whole = await everythingOf(foldsWith(), stream);
    expect(await foldedIn(stream, change(await snapshotAt(stream, 2n)))).toEqual(whole);
    expect(notices).toEqual(expected);
  });

  it('from beyond the end of the stream is left for the stream', async () => {
    const stream = await streamOf(2);
    const whole = await everythingOf(foldsWith(), stream);
    const { fold } = await foldsWith().current(counter, stream);
    fold.revision = 7n;
    const snapshot = takeSnapshot(counter, fold, ana, await vault.person('acme', ana))!;
    expect(await foldedIn(stream, snapshot)).toEqual(whole);
    expect(notices).toEqual(['a snapshot is not of its stream']);
  });

  it('that cannot be loaded is left for the stream', async () => {
    const stream = await streamOf(1);
    const down = {
      load: () => Promise.reject(new Error('down')),
      save: () => Promise.reject(new Error('down')),
    };
    expect(await everythingOf(foldsWith(down), stream)).toEqual(await everythingOf(foldsWith(), stream));
    expect(notices).toEqual(['a snapshot was not used']);
  });
});

describe('snapshots are saved', () => {
  it('after 1,000 appended events, and after a load of more than 500', async () => {
    const snapshots = new Kept();
    const id = randomUUID();
    const stream = `counter-acme.${id}`;
    const saving = await EventStore.connect({ url: server.url, vault, snapshots });
    await saving.handle(counter, open(id));
    const many = (count: number) =>
      call(id, { type: 'Add', amounts: Array.from({ length: count }, () => 1) });
    await saving.handle(counter, many(998));
    expect(snapshots.saved.size).toBe(0);
    await saving.handle(counter, many(1));
    await saving.close();
    expect(snapshots.saved.get(stream)).toMatchObject({ revision: 999n, foldVersion: 1, customerId: ana });
    expect(Buffer.from(snapshots.saved.get(stream)!.sealed).includes('MARKER')).toBe(false);

    snapshots.saved.clear();
    const loading = await EventStore.connect({ url: server.url, vault, snapshots });
    await loading.fold(counter, 'acme', id);
    await loading.close();
    expect(snapshots.saved.get(stream)).toMatchObject({ revision: 999n });
  });

  it("under the key of the stream's own kind of data; not when it is gone, nor above 12 MiB", async () => {
    const { fold } = await foldsWith().current(counter, await streamOf(1));
    const keyless = await vault.person('acme', randomUUID());
    const keys = await vault.person('acme', ana);
    expect(takeSnapshot(counter, fold, ana, keyless)).toBeUndefined();
    const withClaimKey = await vault.person('acme', randomUUID(), { create: ['claim'] });
    expect(takeSnapshot(counter, fold, ana, withClaimKey)).toBeUndefined();
    expect(takeSnapshot({ ...counter, dataKind: 'claim' }, fold, ana, withClaimKey)).toBeDefined();
    fold.state.title = 'x'.repeat(12 * 1024 * 1024);
    expect(takeSnapshot(counter, fold, ana, keys)).toBeUndefined();
  });
});

describe('recent commands', () => {
  it('hold hardly more than two days', () => {
    const commands = new RecentCommands();
    const hour = 60 * 60 * 1000;
    for (let index = 0; index < 24 * 10; index++) {
      const recordedAt = new Date(Date.parse(noon) + index * hour).toISOString();
      const metadata = { commandId: `c${index}`, bodyDigest: 'b', recordedAt } as never;
      commands.note({ revision: BigInt(index), position: BigInt(index), metadata });
      const remembered = Array.from({ length: index + 1 }, (_, each) => each).filter((each) =>
        commands.find(`c${each}`, recordedAt),
      );
      expect(remembered).toEqual(
        Array.from({ length: Math.min(index + 1, 24) }, (_, each) => each + Math.max(0, index - 23)),
      );
      const { older, younger } = commands.save() as { older: unknown[]; younger: unknown[] };
      expect(older.length + younger.length).toBeLessThanOrEqual(48 + 32);
    }
    expect(commands.creation).toMatchObject({ first: 0n, last: 0n });
  });
});

describe('recent commands, when some clock is wrong', () => {
  const day = 24 * 60 * 60 * 1000;
  function noted(...days: number[]): RecentCommands {
    const commands = new RecentCommands();
    days.forEach((each, index) => {
      const recordedAt = new Date(Date.parse(noon) + Math.round(each * day)).toISOString();
      const metadata = { commandId: `c${index}`, bodyDigest: 'b', recordedAt } as never;
      commands.note({ revision: BigInt(index), position: BigInt(index), metadata });
    });
    return commands;
  }
  const at = (days: number) => new Date(Date.parse(noon) + Math.round(days * day)).toISOString();

  it('forget nothing younger than a day for one event from days ahead, also when they were saved', () => {
    const before = Array.from({ length: 40 }, (_, index) => index / 1000);
    const commands = noted(...before, 7, 0.1, 8, 0.2);
    for (const each of [commands, RecentCommands.load(commands.save())])
      for (let index = 0; index < 44; index++) expect(each.find(`c${index}`, at(0.3))).toBeDefined();
  });

  it('go on forgetting after it', () => {
    const days = Array.from({ length: 200 }, (_, index) => index / 2);
    const { older, younger } = noted(0, 5, ...days).save() as { older: unknown[]; younger: unknown[] };
    expect(older.length + younger.length).toBeLessThanOrEqual(2 * 2 + 32);
  });
});

describe('lanes', () => {
  it('run the tasks of a name in order, others beside them, and leave nothing behind', async () => {
    const lanes = new Lanes();
    const log: string[] = [];
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const first = lanes.run('a', async () => {
      await held;
      log.push('a1');
      throw new Error('a1 fails');
    });
    const second = lanes.run('a', async () => log.push('a2'));
    await lanes.run('b', async () => log.push('b1'));
    release();
    await expect(first).rejects.toThrow('a1 fails');
    await second;
    await lanes.idle();
    expect(log).toEqual(['b1', 'a1', 'a2']);
    expect(lanes.size).toBe(0);
  });
});
