import { status } from '@grpc/grpc-js';
import { EventEmitter } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Outlet } from '../outlet.js';
import { EventStore } from '../store.js';
import { GroupClient } from './consumer.js';
import { infoOf } from './info.js';
import { ownStream, systemEvent } from './own-streams.js';
import { PersistentSubscriptions } from './registry.js';
import type { Requested } from './settings.js';

const base = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
const WANTED: Requested = {
  stream: 'work',
  group: 'g',
  startFrom: 'start',
  filter: undefined,
  settings: {
    resolveLinks: false,
    extraStatistics: false,
    messageTimeout: 3_600_000,
    maxRetryCount: 2,
    checkpointAfter: 3_600_000,
    minCheckpointCount: 1,
    maxCheckpointCount: 100,
    maxSubscriberCount: 1,
    liveBufferSize: 10,
    readBatchSize: 3,
    historyBufferSize: 10,
    strategy: 'RoundRobin',
  },
};
const CHECKPOINTS = ownStream(WANTED, 'checkpoint');

/** The server's side of a call: what it failed with. */
class OpenCall extends EventEmitter {
  readonly failures: number[] = [];
  constructor() {
    super();
    this.on('error', ({ code }: { code: number }) => this.failures.push(code));
  }
  write(): boolean {
    return true;
  }
  end(): void {
    this.emit('close');
  }
  hold(): boolean {
    return true;
  }
  release(): void {
    return;
  }
}

const newClient = (): GroupClient =>
  new GroupClient(new Outlet(new OpenCall()), 5, { from: '', username: '', connectionName: '' });
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

let folder: string;
let store: EventStore;
let groups: PersistentSubscriptions;
beforeEach(async () => {
  folder = mkdtempSync(join(base, 'waymark-groups-'));
  store = new EventStore({ folder, salt: 1, segmentBytes: 1 << 24, onNotice: () => undefined });
  groups = new PersistentSubscriptions(store);
  await store.append(
    'work',
    'any',
    [0, 1, 2].map((n) => systemEvent('happened', true, String(n))),
  );
});
afterEach(async () => {
  jest.restoreAllMocks();
  await groups.close();
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

const connect = async (client = newClient()): Promise<GroupClient> => {
  await groups.connect('work', 'g', () => client);
  return client;
};

const given = async (client: GroupClient, count: number): Promise<number[]> => {
  while (client.inFlight.size < count) await turn();
  return [...client.inFlight].map(({ event }) => event!.revision);
};

async function parkAll(client: GroupClient): Promise<void> {
  const group = groups.find('work', 'g');
  group.nack(
    client,
    [...client.inFlight].map(({ key }) => key),
    'park',
    'no use',
  );
  while (group.isBusy) await turn();
}

describe('while the checkpoint of an ended group is being written', () => {
  /** Resolves when that write begins; the write waits for `release`. */
  function held(): { begun: Promise<void>; release: () => void } {
    const append = store.append.bind(store);
    let release!: () => void;
    const released = new Promise<void>((resolve) => (release = resolve));
    const begun = new Promise<void>((resolve) =>
      jest.spyOn(store, 'append').mockImplementation(async (name, ...rest) => {
        if (name === CHECKPOINTS) {
          resolve();
          await released;
        }
        return append(name, ...rest);
      }),
    );
    return { begun, release };
  }

  const changes: [string, () => Promise<void>][] = [
    ['an update', () => groups.update(WANTED)],
    ['a restart', () => groups.restart()],
  ];
  it.each(changes)('a client that comes back during %s joins what follows', async (_name, change) => {
    await groups.create(WANTED);
    const first = await connect();
    await given(first, 3);
    groups.find('work', 'g').ack(first, [[...first.inFlight][0]!.key]);
    const { begun, release } = held();
    const changed = change();
    await begun;
    expect(first.outlet.closed).toBe(true);
    const again = newClient();
    const connected = connect(again);
    await turn();
    release();
    await Promise.all([changed, connected]);
    expect(await given(again, 2)).toEqual([1, 2]);
  });

  it.each(changes)('what was parked is replayed, if that is asked during %s', async (_name, change) => {
    await groups.create(WANTED);
    const first = await connect();
    await given(first, 3);
    await parkAll(first);
    const { begun, release } = held();
    const changed = change();
    await begun;
    const replayed = groups.replay('work', 'g', undefined);
    await turn();
    release();
    await Promise.all([changed, replayed]);
    expect(await given(await connect(), 3)).toEqual([0, 1, 2]);
  });

  it.each(changes)('a replay under way goes on after %s', async (_name, change) => {
    await groups.create(WANTED);
    const first = await connect();
    await given(first, 3);
    await parkAll(first);
    await groups.replay('work', 'g', 2);
    expect(await given(first, 2)).toEqual([0, 1]);
    await change();
    const again = await connect();
    expect(await given(again, 2)).toEqual([0, 1]);
    groups.find('work', 'g').ack(
      again,
      [...again.inFlight].map(({ key }) => key),
    );
    while (groups.find('work', 'g').isBusy) await turn();
    expect(groups.find('work', 'g').parked.count).toBe(1);
    expect(again.inFlight.size).toBe(0);
  });

  it('a client that comes back during a deletion is told that there is no such group', async () => {
    await groups.create(WANTED);
    const first = await connect();
    await given(first, 3);
    groups.find('work', 'g').ack(first, [[...first.inFlight][0]!.key]);
    const { begun, release } = held();
    const deleted = groups.delete('work', 'g');
    await begun;
    const refused = expect(connect()).rejects.toMatchObject({
      failure: { code: status.NOT_FOUND, details: 'Subscription group g on stream work does not exist.' },
    });
    await turn();
    release();
    await Promise.all([deleted, refused]);
  });
});

it('a stopped group takes no client', async () => {
  await groups.create(WANTED);
  const group = groups.find('work', 'g');
  await group.stop();
  expect(() => group.join(newClient())).toThrow(/the group is stopped/);
});

it('times stored before they were bounded do not keep a group from telling of itself', async () => {
  const settings = { ...WANTED.settings, messageTimeout: 0.0005, checkpointAfter: 2_592_000_000 };
  const document = JSON.stringify({ entries: [{ ...WANTED, begin: 0, settings }] });
  await store.append('$persistentSubscriptionConfig', 'any', [
    systemEvent('$PersistentConfig', true, document),
  ]);
  await groups.close();
  groups = new PersistentSubscriptions(store);
  const info = infoOf(groups.find('work', 'g'));
  expect(info.serializeBinary().length).toBeGreaterThan(0);
  expect([info.getMessageTimeoutMilliseconds(), info.getCheckPointAfterMilliseconds()]).toEqual([
    0, 2_147_483_647,
  ]);
});

it('a group made anew after a deletion that was cut off begins where it is told to, with nothing parked', async () => {
  await groups.create(WANTED);
  const first = await connect();
  await given(first, 3);
  const group = groups.find('work', 'g');
  const [parked, ...done] = [...first.inFlight].map(({ key }) => key);
  group.nack(first, [parked!], 'park', 'no use');
  while (group.isBusy) await turn();
  group.ack(first, done);
  const cut = jest.spyOn(store, 'delete').mockRejectedValue(new Error('killed'));
  await expect(groups.delete('work', 'g')).rejects.toThrow('killed');
  cut.mockRestore();
  await groups.close();
  groups = new PersistentSubscriptions(store);
  await groups.create(WANTED);
  expect(groups.find('work', 'g').parked.count).toBe(0);
  expect(await given(await connect(), 3)).toEqual([0, 1, 2]);
});
