import { EventEmitter } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { Outlet } from '../outlet.js';
import { ALL_STREAM } from '../proposed.js';
import type { StoredEvent } from '../record.js';
import { DamagedLog, LogUnwritable } from '../segments.js';
import { EventStore } from '../store.js';
import { GroupClient, type Message } from './consumer.js';
import { Group } from './group.js';
import { ownStream, systemEvent } from './own-streams.js';
import type { GroupConfig, StrategyName } from './settings.js';

/** Memory where there is some: what is tried here is order, not the disk. */
const base = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
const STREAM = 'work';
const MAX_RETRIES = 2;

const configOf = (strategy: StrategyName): GroupConfig => ({
  stream: STREAM,
  group: 'g',
  startFrom: 'start',
  begin: 0,
  settings: {
    resolveLinks: false,
    extraStatistics: false,
    messageTimeout: 3_600_000,
    maxRetryCount: MAX_RETRIES,
    checkpointAfter: 3_600_000,
    minCheckpointCount: 1,
    maxCheckpointCount: 2,
    maxSubscriberCount: 0,
    liveBufferSize: 10,
    readBatchSize: 3,
    historyBufferSize: 10,
    strategy,
  },
});

/** The server's side of a call whose client takes everything. */
class OpenCall extends EventEmitter {
  constructor() {
    super();
    this.on('error', () => undefined);
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

function newClient(slots: number): GroupClient {
  const call = new OpenCall() as unknown as ConstructorParameters<typeof Outlet>[0];
  return new GroupClient(new Outlet(call), slots, { from: '', username: '', connectionName: '' });
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const numberOf = (event: StoredEvent | undefined): number => Number(event!.data.toString());

type Step =
  | { do: 'append'; count: number }
  | { do: 'join'; slots: number }
  | { do: 'leave' | 'ack' | 'skip' | 'park' | 'retry'; client: number; message: number }
  | { do: 'crash' | 'stop' };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('append' as const), count: fc.integer({ min: 1, max: 4 }) }),
  fc.record({ do: fc.constant('join' as const), slots: fc.integer({ min: 1, max: 4 }) }),
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('leave', 'ack', 'ack', 'ack', 'skip', 'park', 'retry', 'retry'),
      client: fc.nat(3),
      message: fc.nat(3),
    }),
  },
  fc.record({ do: fc.constantFrom('crash' as const, 'stop' as const) }),
);

/** A group under random orders, and what must hold of it whatever they are. */
class Trial {
  private readonly folder = mkdtempSync(join(base, 'waymark-group-'));
  private readonly store = new EventStore({
    folder: this.folder,
    salt: 1,
    segmentBytes: 1 << 24,
    onNotice: () => undefined,
  });
  private readonly abandoned: Group[] = [];
  private group: Group;
  private clients: GroupClient[] = [];
  private written = 0;
  /** How often each event was acknowledged or skipped. */
  private readonly done = new Map<number, number>();
  /** Then what was answered behind something unanswered comes again: there is one checkpoint, and it is before both. */
  private restarted = false;

  constructor(private readonly config: GroupConfig) {
    this.group = new Group(this.store, config);
  }

  async play(steps: readonly Step[]): Promise<void> {
    try {
      for (const next of steps) {
        await this.perform(next);
        await turn();
        this.check();
      }
      await this.finish();
    } finally {
      await Promise.all([...this.abandoned, this.group].map((group) => group.stop()));
      await this.store.close();
      rmSync(this.folder, { recursive: true, force: true });
    }
  }

  private async perform(next: Step): Promise<void> {
    switch (next.do) {
      case 'append':
        return this.append(next.count);
      case 'join':
        return this.join(next.slots);
      case 'crash':
        this.abandoned.push(this.group);
        return this.restart();
      case 'stop':
        await this.group.stop();
        return this.restart();
      case 'leave':
      case 'ack':
      case 'skip':
      case 'park':
      case 'retry':
        return this.answer(next.do, next.client, next.message);
    }
  }

  private async append(count: number): Promise<void> {
    const events = Array.from({ length: count }, () => systemEvent('happened', true, String(this.written++)));
    await this.store.append(STREAM, 'any', events);
  }

  private join(slots: number): void {
    const client = newClient(slots);
    this.clients.push(client);
    this.group.join(client);
  }

  /** What the clients of the old group hold is forgotten with it. */
  private restart(): void {
    this.clients = [];
    this.restarted = true;
    this.group = new Group(this.store, this.config);
  }

  private answer(what: 'leave' | 'ack' | 'skip' | 'park' | 'retry', client: number, message: number): void {
    const one = this.clients[client];
    if (!one) return;
    if (what === 'leave') {
      this.clients.splice(client, 1);
      return one.outlet.end();
    }
    const held = [...one.inFlight][message];
    if (!held) return;
    if (what === 'ack' || what === 'skip') this.note(held);
    if (what === 'ack') this.group.ack(one, [held.key]);
    else this.group.nack(one, [held.key], what, 'as told');
  }

  private note(message: Message): void {
    const number = numberOf(message.event);
    this.done.set(number, (this.done.get(number) ?? 0) + 1);
  }

  private check(): void {
    const held = this.clients.flatMap(({ inFlight }) => [...inFlight]);
    expect(new Set(held.map(({ key }) => key)).size).toBe(held.length);
    expect(held.every(({ retries }) => retries <= MAX_RETRIES)).toBe(true);
    expect(this.clients.every(({ inFlight, slots }) => inFlight.size <= slots)).toBe(true);
    if (!this.restarted) for (const times of this.done.values()) expect(times).toBe(1);
  }

  /** A last client answers all there is; then every event was done with, or lies parked. */
  private async finish(): Promise<void> {
    this.join(1000);
    const last = this.clients.at(-1)!;
    for (const client of this.clients.splice(0, this.clients.length - 1)) client.outlet.end();
    while (!this.isSettled()) {
      for (const message of [...last.inFlight]) {
        this.note(message);
        this.group.ack(last, [message.key]);
      }
      await turn();
    }
    this.check();
    const missing = Array.from({ length: this.written }, (_, n) => n).filter(
      (n) => !this.done.has(n) && !this.parked().has(n),
    );
    expect(missing).toEqual([]);
  }

  private isSettled(): boolean {
    const { source, retries, fresh, sent, isBusy } = this.group;
    return source.atEnd && retries.length + fresh.length + sent.size === 0 && !isBusy;
  }

  private parked(): Set<number> {
    const own = this.store.catalogue.peek(ownStream(this.config, 'parked'));
    const entries = own ? this.store.reader.streamPage(own, 0, 'forwards', Infinity) : [];
    return new Set(entries.map((entry) => Number(entry.data.toString().split('@')[0])));
  }
}

it('loses no event and gives none to two clients, in whatever order clients and the process come and go', async () => {
  const strategies = fc.constantFrom<StrategyName[]>('RoundRobin', 'DispatchToSingle', 'Pinned');
  const steps = fc.array(step, { minLength: 5, maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(strategies, steps, (strategy, all) => new Trial(configOf(strategy)).play(all)),
    { numRuns: process.env['WAYMARK_FAULTS'] === 'full' ? 1000 : 60 },
  );
}, 600_000);

it('has an event that cannot be parked tried again, and parks it when the store can write', async () => {
  const folder = mkdtempSync(join(base, 'waymark-group-'));
  const store = new EventStore({ folder, salt: 1, segmentBytes: 1 << 24, onNotice: () => undefined });
  const group = new Group(store, configOf('RoundRobin'));
  await store.append(STREAM, 'any', [systemEvent('happened', true, '0')]);
  const client = newClient(1);
  group.join(client);
  const given = async (): Promise<Message> => {
    while (client.inFlight.size === 0) await turn();
    return [...client.inFlight][0]!;
  };
  const append = jest.spyOn(store, 'append').mockRejectedValue(new LogUnwritable(false, { cause: 'full' }));
  group.nack(client, [(await given()).key], 'park', 'no use');
  const again = await given();
  expect([numberOf(again.event), group.parked.count, group.checkpoints.written]).toEqual([0, 0, undefined]);
  append.mockRestore();
  group.nack(client, [again.key], 'park', 'no use');
  while (group.isBusy) await turn();
  expect(group.parked.count).toBe(1);
  await group.stop();
  expect(group.checkpoints.written).toBe(0);
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

it('tells its clients of what cannot be read, and gives it to the next when it can be', async () => {
  const folder = mkdtempSync(join(base, 'waymark-group-'));
  const store = new EventStore({ folder, salt: 1, segmentBytes: 1 << 24, onNotice: () => undefined });
  const config = configOf('RoundRobin');
  const group = new Group(store, { ...config, settings: { ...config.settings, resolveLinks: true } });
  await store.append('other', 'any', [systemEvent('happened', true, '5')]);
  const link = systemEvent('$>', false, '0@other');
  await store.append(STREAM, 'any', [systemEvent('happened', true, '4'), link]);
  const read = store.reader.streamPage.bind(store.reader);
  const pages = jest.spyOn(store.reader, 'streamPage').mockImplementation((stream, ...rest) => {
    if (stream === store.catalogue.peek('other')) throw new DamagedLog('a segment', 7, 'for the test');
    return read(stream, ...rest);
  });
  const first = newClient(5);
  group.join(first);
  while (!first.outlet.closed) await turn();
  expect([first.inFlight.size, group.clients]).toEqual([0, []]);
  pages.mockRestore();
  const second = newClient(5);
  group.join(second);
  while (second.inFlight.size < 2) await turn();
  expect([...second.inFlight].map(({ event }) => numberOf(event))).toEqual([4, 5]);
  await group.stop();
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

it('delivers what it has read before it reads on through what its filter leaves out', async () => {
  const folder = mkdtempSync(join(base, 'waymark-group-'));
  const store = new EventStore({ folder, salt: 1, segmentBytes: 1 << 24, onNotice: () => undefined });
  const filter = { on: 'type', regex: '', prefixes: ['wanted'] } as const;
  const group = new Group(store, { ...configOf('RoundRobin'), stream: ALL_STREAM, begin: 1, filter });
  const rest = Array.from({ length: 100 }, (_, n) => systemEvent('other', true, String(n)));
  await store.append(STREAM, 'any', [systemEvent('wanted', true, '0'), ...rest]);
  const client = newClient(5);
  group.join(client);
  while (client.inFlight.size === 0) await turn();
  expect(group.source.passed).toBeLessThan(10);
  await group.stop();
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});
