import { EventEmitter } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Outlet } from './outlet.js';
import { GroupClient } from './persistent/consumer.js';
import { Group } from './persistent/group.js';
import { systemEvent } from './persistent/own-streams.js';
import { shared, streams } from './protocol.js';
import { type ReadOptions, readStream } from './reads.js';
import { EventStore } from './store.js';
import { subscribe } from './subscriptions.js';

const base = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
const HISTORY = 20_000;
/** Two turns of the index: between the two readings of a counter others may have had one. */
const FEW = 2 * 4096;

/** The server's side of a call whose client takes everything. */
class OpenCall extends EventEmitter {
  readonly taken: Buffer[] = [];
  constructor() {
    super();
    this.on('error', () => undefined);
  }
  write(message: Buffer): boolean {
    this.taken.push(message);
    return true;
  }
  end(): void {
    this.emit('close');
  }
  get text(): string {
    return Buffer.concat(this.taken).toString('latin1');
  }
  hold(): boolean {
    return true;
  }
  release(): void {
    return;
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const until = async (condition: () => boolean): Promise<void> => {
  while (!condition()) await turn();
};

let folder: string;
let store: EventStore;
beforeEach(async () => {
  folder = mkdtempSync(join(base, 'waymark-views-'));
  store = new EventStore({ folder, salt: 1, segmentBytes: 1 << 26, onNotice: () => undefined });
  const history = Array.from({ length: HISTORY }, (_, n) => systemEvent('happened', true, `"no ${n}"`));
  await store.append('x-1', 'any', history);
  await store.append('pointing', 'any', [systemEvent('$>', false, '0@$ce-x')]);
});
afterEach(async () => {
  jest.restoreAllMocks();
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

/** The most events that were indexed while nobody else had a turn. */
async function mostAtOnce(work: () => Promise<void>): Promise<number> {
  let [now, most, over] = [0, 0, false];
  const allPage = store.reader.allPage.bind(store.reader);
  jest.spyOn(store.reader, 'allPage').mockImplementation((...of) => {
    const page = allPage(...of);
    now += page.length;
    most = Math.max(most, now);
    return page;
  });
  const others = (async () => {
    for (; !over; now = 0) await turn();
  })();
  await work();
  over = true;
  await others;
  return most;
}

const pointing = (): ReadOptions => {
  const stream = new shared.StreamIdentifier().setStreamName(new Uint8Array(Buffer.from('pointing')));
  return new streams.ReadReq.Options()
    .setStream(
      new streams.ReadReq.Options.StreamOptions().setStreamIdentifier(stream).setStart(new shared.Empty()),
    )
    .setResolveLinks(true);
};

describe('a link into a system stream that has no index yet keeps nobody waiting', () => {
  it('in a read', async () => {
    const call = new OpenCall();
    const most = await mostAtOnce(async () => {
      await readStream(store, 'pointing', pointing().setCount('10'), new Outlet(call));
    });
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(FEW);
    expect(call.text).toContain('0@x-1');
  });

  it('in a subscription', async () => {
    const call = new OpenCall();
    const outlet = new Outlet(call);
    const most = await mostAtOnce(async () => {
      const done = subscribe(
        store,
        pointing().setSubscription(new streams.ReadReq.Options.SubscriptionOptions()),
        outlet,
        () => true,
      );
      await until(() => call.text.includes('0@x-1'));
      outlet.end();
      await done;
    });
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(FEW);
  });

  const group = (): Group =>
    new Group(store, {
      stream: 'pointing',
      group: 'g',
      startFrom: 'start',
      begin: 0,
      settings: {
        resolveLinks: true,
        extraStatistics: false,
        messageTimeout: 3_600_000,
        maxRetryCount: 2,
        checkpointAfter: 3_600_000,
        minCheckpointCount: 1,
        maxCheckpointCount: 1,
        maxSubscriberCount: 0,
        liveBufferSize: 10,
        readBatchSize: 3,
        historyBufferSize: 10,
        strategy: 'RoundRobin',
      },
    });
  const newClient = (): GroupClient =>
    new GroupClient(new Outlet(new OpenCall()), 5, { from: '', username: '', connectionName: '' });
  const next = async (client: GroupClient): Promise<string> => {
    await until(() => client.inFlight.size > 0);
    const [message] = client.inFlight;
    return message!.event!.data.toString();
  };

  it('in a group, and in the replay of what a group had parked', async () => {
    const first = group();
    const client = newClient();
    const most = await mostAtOnce(async () => {
      first.join(client);
      expect(await next(client)).toBe('0@x-1');
    });
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(FEW);
    first.nack(client, [[...client.inFlight][0]!.key], 'park', 'no use');
    await until(() => !first.isBusy);
    await first.stop();
    await store.close();

    jest.restoreAllMocks();
    store = new EventStore({ folder, salt: 1, segmentBytes: 1 << 26, onNotice: () => undefined });
    const second = group();
    const again = newClient();
    const replaying = await mostAtOnce(async () => {
      second.replay(undefined);
      second.join(again);
      expect(await next(again)).toBe('0@x-1');
    });
    expect(replaying).toBeGreaterThan(0);
    expect(replaying).toBeLessThanOrEqual(FEW);
    await second.stop();
  });
});

it('following links elsewhere makes no index', async () => {
  await store.append('near', 'any', [systemEvent('$>', false, '0@x-1')]);
  const call = new OpenCall();
  const options = pointing();
  options
    .getStream()!
    .setStreamIdentifier(new shared.StreamIdentifier().setStreamName(new Uint8Array(Buffer.from('near'))));
  await readStream(store, 'near', options.setCount('10'), new Outlet(call));
  expect(call.text).toContain('no 0');
  expect(store.system.isReady).toBe(false);
});
