import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { startEventStore } from '#libs/embedded/event-store';
import { Vault } from '#libs/vault';
import { type CounterCall, add, ana, call, counter, noon, open } from './examples.js';
import {
  EventStore,
  IdempotencyKeyReused,
  NotPermitted,
  RefusedCommand,
  RevisionMismatch,
  type StoredEvent,
  StreamNotFound,
  verifyChain,
} from './index.js';

type Running = Awaited<ReturnType<typeof startEventStore>>;
const later = (ms: number) => new Date(Date.parse(noon) + ms).toISOString();
const hours = 60 * 60 * 1000;

let folder: string;
let server: Running;
let vault: Vault;
let store: EventStore;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waymark-store-'));
  server = await startEventStore({ folder: join(folder, 'events'), port: 0 });
  vault = await Vault.open({ folder: join(folder, 'keys') });
  store = await EventStore.connect({ url: server.url, vault });
});

afterAll(async () => {
  await store.close();
  await server.close();
  await rm(folder, { recursive: true, force: true });
});

async function opened(): Promise<string> {
  const id = randomUUID();
  await store.handle(counter, open(id));
  return id;
}

async function eventsOf(id: string, from: EventStore = store): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const event of from.read(`counter-acme.${id}`)) events.push(event);
  return events;
}

const chainOf = async (id: string) => verifyChain(await eventsOf(id));

describe('a command', () => {
  it('creates a stream, adds to it, and answers from the fold after its events', async () => {
    const id = randomUUID();
    const first = await store.handle(counter, open(id));
    const second = await store.handle(counter, call(id, { type: 'Add', amounts: [2, 3] }));
    const events = await eventsOf(id);
    expect(first).toEqual({
      answer: 0,
      revision: 0n,
      position: events[0]!.position,
      replayed: false,
      appended: 1,
      created: true,
    });
    expect(second).toEqual({
      answer: 5,
      revision: 2n,
      position: events[2]!.position,
      replayed: false,
      appended: 2,
      created: false,
    });
    expect(events.map(({ type, revision }) => `${revision} ${type}`)).toEqual([
      '0 CounterOpened',
      '1 Added',
      '2 Added',
    ]);
    expect(await chainOf(id)).toMatchObject({ verdict: 'intact', events: 3 });
  });

  it('stores the envelope', async () => {
    const id = randomUUID();
    const actor = { sub: 'dana', roles: ['assistant'], customerId: ana, actFor: ['eve'] };
    const context = { actor, commandId: randomUUID(), bodyDigest: 'digest', at: later(1) };
    await store.handle(counter, open(id, { context }));
    const [event] = await eventsOf(id);
    expect(event).toMatchObject({ stream: `counter-acme.${id}`, category: 'counter', tenant: 'acme', id });
    expect(event!.metadata).toEqual({
      tenant: 'acme',
      commandId: context.commandId,
      bodyDigest: (await vault.person('acme', ana)).hmac('run', 'stored-body', `counter-acme.${id}\0digest`),
      actor: { sub: 'dana', roles: ['assistant'], actFor: ['eve'], customerId: ana },
      recordedAt: later(1),
      schemaVersion: 1,
      previousDigest: '0'.repeat(64),
    });
  });

  it('stores of its body what tells nothing without the customer: neither equal bodies nor, later, which', async () => {
    const [one, two] = [await opened(), await opened()];
    const context = { bodyDigest: 'body' };
    await store.handle(counter, add(one, 1, { context }));
    await store.handle(counter, add(one, 2, { context }));
    await store.handle(counter, add(two, 1, { context }));
    const stored = [...(await eventsOf(one)).slice(1), ...(await eventsOf(two)).slice(1)];
    const [first, second, elsewhere] = stored.map(({ metadata }) => metadata.bodyDigest);
    expect(first).toMatch(/^[0-9a-f]{64}$/);
    expect(second).toBe(first);
    expect(elsewhere).not.toBe(first);
  });

  it('never makes a key anew that its stream was given', async () => {
    const [id, customerId] = [randomUUID(), randomUUID()];
    const command = { type: 'Open', customerId, title: 'x' } as const;
    await store.handle(counter, call(id, command, { creates: true }));
    const key = join(folder, 'keys', 'people', 'acme', `${customerId}.claim.key`);
    await rm(key);
    const another = await Vault.open({ folder: join(folder, 'keys') });
    const later = await EventStore.connect({ url: server.url, vault: another });
    await expect(later.handle(counter, add(id, 1))).rejects.toThrow(
      `unreadable event at counter-acme.${id}@0: the claim key of its customer is missing`,
    );
    await later.close();
    expect(await eventsOf(id)).toHaveLength(1);
    await expect(stat(key)).rejects.toThrow('ENOENT');
  });

  it('on a stream about nobody makes no person a key', async () => {
    const { dataKind: _, ...about } = counter;
    const bare = { ...about, category: 'bare', events: { ...counter.events } };
    await expect(store.handle(bare, open(randomUUID()))).rejects.toThrow(
      'bare has personal fields and no kind of data',
    );
    const events = { CounterOpened: z.object({ customerId: z.string(), title: z.string() }) };
    const id = randomUUID();
    const context = { commandId: randomUUID(), bodyDigest: 'body' };
    const first = await store.handle({ ...bare, events }, open(id, { context }));
    const again = await store.handle({ ...bare, events }, open(id, { context }));
    expect([first.replayed, again.replayed]).toEqual([false, true]);
    for await (const { metadata } of store.read(`bare-acme.${id}`))
      expect(metadata.bodyDigest).toBe(
        (await vault.tenant('acme')).hmac('stored-body', `bare-acme.${id}\0body`),
      );
  });

  it('is refused by the rules with nothing appended', async () => {
    const id = await opened();
    const refused = store.handle(counter, add(id, -1));
    await expect(refused).rejects.toThrow(RefusedCommand);
    await expect(refused).rejects.toMatchObject({ refusal: { refused: 'negative', extra: { total: 0 } } });
    expect(await eventsOf(id)).toHaveLength(1);
  });

  it('finds no stream that it does not create', async () => {
    const id = randomUUID();
    await expect(store.handle(counter, add(id, 1))).rejects.toThrow(StreamNotFound);
    expect(await eventsOf(id)).toEqual([]);
    expect(await store.fold(counter, 'acme', id)).toBeUndefined();
  });

  it('asks for permission before all else, and hides what is hidden', async () => {
    const id = await opened();
    const reused = { commandId: randomUUID(), bodyDigest: 'one' };
    await store.handle(counter, add(id, 1, { context: reused }));
    const context = { ...reused, bodyDigest: 'two' };
    const with_ = (permit: CounterCall['permit']) => store.handle(counter, add(id, 1, { context, permit }));
    await expect(with_(() => 'forbidden')).rejects.toThrow(NotPermitted);
    await expect(with_(() => 'hidden')).rejects.toThrow(StreamNotFound);
    await expect(with_(() => 'yes')).rejects.toThrow(IdempotencyKeyReused);
  });

  it('holds to the revision that the caller expects', async () => {
    const id = await opened();
    const expecting = (expectedRevision: bigint) =>
      store.handle(counter, add(id, 1, { context: { expectedRevision } }));
    await expect(expecting(3n)).rejects.toMatchObject({
      name: 'RevisionMismatch',
      expected: 3n,
      current: 0n,
    });
    await expect(expecting(3n)).rejects.toThrow(RevisionMismatch);
    expect(await expecting(0n)).toMatchObject({ revision: 1n });
    await expect(expecting(0n)).rejects.toMatchObject({ current: 1n });
  });

  it('that holds already appends nothing and tells where the stream is', async () => {
    const id = await opened();
    const { position } = await store.handle(counter, add(id, 4));
    const nothing = await store.handle(counter, call(id, { type: 'Add', amounts: [] }));
    expect(nothing).toEqual({
      answer: 4,
      revision: 1n,
      position,
      replayed: false,
      appended: 0,
      created: false,
    });
  });

  it('is refused when a rule makes an event that its schema does not allow', async () => {
    const id = await opened();
    await expect(store.handle(counter, add(id, 1.5))).rejects.toThrow('Added is not what its schema says');
    expect(await store.handle(counter, add(id, 1))).toMatchObject({ revision: 1n });
  });
});

describe('a command sent again', () => {
  it('answers as it did, from its last revision, with nothing appended', async () => {
    const id = await opened();
    const context = { commandId: randomUUID(), bodyDigest: 'body' };
    const first = await store.handle(counter, call(id, { type: 'Add', amounts: [1, 2] }, { context }));
    await store.handle(counter, add(id, 10));
    const again = await store.handle(counter, call(id, { type: 'Add', amounts: [1, 2] }, { context }));
    expect(again).toEqual({ ...first, replayed: true });
    expect(again.answer).toBe(3);
    expect(await eventsOf(id)).toHaveLength(4);
  });

  it('50 times at once leaves one event and 49 equal answers', async () => {
    const id = await opened();
    const context = { commandId: randomUUID() };
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => store.handle(counter, add(id, 7, { context }))),
    );
    expect(answers.filter(({ replayed }) => replayed)).toHaveLength(49);
    expect(
      new Set(answers.map(({ answer, revision, position }) => `${answer} ${revision} ${position}`)).size,
    ).toBe(1);
    expect(await eventsOf(id)).toHaveLength(2);
  });

  it('with another body is refused', async () => {
    const id = await opened();
    const commandId = randomUUID();
    await store.handle(counter, add(id, 1, { context: { commandId } }));
    await expect(store.handle(counter, add(id, 2, { context: { commandId } }))).rejects.toThrow(
      IdempotencyKeyReused,
    );
    expect(await eventsOf(id)).toHaveLength(2);
  });

  it('is remembered for a day by the times of the commands', async () => {
    const id = await opened();
    const commandId = randomUUID();
    const sent = (at: string) => store.handle(counter, add(id, 1, { context: { commandId, at } }));
    await sent(noon);
    expect(await sent(later(24 * hours - 1))).toMatchObject({ replayed: true, revision: 1n });
    expect(await sent(later(24 * hours))).toMatchObject({ replayed: false, revision: 2n });
  });

  it('creates nothing twice, also under another id and after a day', async () => {
    const id = randomUUID();
    const first = await store.handle(counter, open(id));
    await store.handle(counter, add(id, 5));
    const again = await store.handle(counter, open(id, { context: { at: later(48 * hours) } }));
    expect(again).toEqual({ ...first, replayed: true, created: false });
    const other = call(id, { type: 'Open', customerId: ana, title: 'other' }, { creates: true });
    await expect(store.handle(counter, other)).rejects.toMatchObject({ refusal: { refused: 'open' } });
  });

  it('P39: after 10,000 other events and a restart has one event and the same answer', async () => {
    const id = await opened();
    const context = { commandId: randomUUID() };
    const first = await store.handle(counter, add(id, 3, { context }));
    for (let batch = 0; batch < 20; batch++)
      await store.handle(counter, call(id, { type: 'Add', amounts: Array.from({ length: 500 }, () => 1) }));
    const restarted = await EventStore.connect({ url: server.url, vault });
    expect(await restarted.handle(counter, add(id, 3, { context }))).toEqual({ ...first, replayed: true });
    expect(await restarted.fold(counter, 'acme', id)).toMatchObject({
      revision: 10_001n,
      state: { total: 10_003 },
    });
    await restarted.close();
  });
});

describe('many at once', () => {
  it('50 commands on one stream leave 50 events in one chain', async () => {
    const id = await opened();
    const answers = await Promise.all(Array.from({ length: 50 }, () => store.handle(counter, add(id, 1))));
    expect(answers.map(({ answer }) => answer)).toEqual(Array.from({ length: 50 }, (_, index) => index + 1));
    expect(await chainOf(id)).toMatchObject({ verdict: 'intact', events: 51 });
  });

  it('two stores racing on one stream lose nothing and break no chain', async () => {
    const id = await opened();
    const other = await EventStore.connect({ url: server.url, vault });
    for (let round = 0; round < 10; round++) {
      await Promise.all([store, other].map((each) => each.handle(counter, add(id, 1))));
    }
    expect(await store.fold(counter, 'acme', id)).toMatchObject({ revision: 20n, state: { total: 20 } });
    expect(await chainOf(id)).toMatchObject({ verdict: 'intact', events: 21 });
    await other.close();
  });

  it('the same command through two stores has one effect, and the chain holds', async () => {
    const id = await opened();
    const other = await EventStore.connect({ url: server.url, vault });
    await other.handle(counter, add(id, 1));
    await store.handle(counter, add(id, 1));
    const command = call(id, { type: 'Add', amounts: [1], note: 'sealed' });
    const answers = await Promise.all([store, other].map((each) => each.handle(counter, command)));
    expect(answers.map(({ replayed }) => replayed).sort()).toEqual([false, true]);
    await other.handle(counter, add(id, 1));
    await store.handle(counter, add(id, 1));
    expect(await chainOf(id)).toMatchObject({ verdict: 'intact', events: 6 });
    await other.close();
  });

  it('refuses and permits by what others wrote meanwhile', async () => {
    const id = await opened();
    const other = await EventStore.connect({ url: server.url, vault });
    await other.handle(counter, add(id, 5));
    const spent = await store.handle(counter, add(id, -5));
    expect(spent).toMatchObject({ answer: 0, revision: 2n });
    await other.close();
  });
});

describe('a fold', () => {
  it("is as fresh as the stream, whoever wrote to it, and the caller's own", async () => {
    const id = await opened();
    const other = await EventStore.connect({ url: server.url, vault });
    await store.handle(counter, add(id, 1));
    const { position } = await other.handle(counter, add(id, 2));
    const folded = await store.fold(counter, 'acme', id);
    expect(folded).toMatchObject({ revision: 2n, position, state: { total: 3, title: 'MARKER title' } });
    folded!.state.total = 100;
    expect(await store.handle(counter, add(id, 1))).toMatchObject({ answer: 4 });
    await other.close();
  });

  it('goes up to a revision', async () => {
    const id = await opened();
    for (let amount = 1; amount <= 3; amount++) await store.handle(counter, add(id, amount));
    expect(await store.fold(counter, 'acme', id, { upTo: 2n })).toMatchObject({
      revision: 2n,
      state: { total: 3 },
    });
    expect(await store.fold(counter, 'acme', randomUUID(), { upTo: 2n })).toBeUndefined();
  });
});
