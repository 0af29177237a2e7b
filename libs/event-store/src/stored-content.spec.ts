import { randomUUID } from 'node:crypto';
import { isSealed } from '#libs/vault';
import { TestStores } from '#test/projecting';
import { add, call, counter, open } from './examples.js';
import {
  AppendTooLarge,
  type StoredEvent,
  UnknownStoredEvent,
  UnreadableEvent,
  verifyChain,
} from './index.js';

let stores: TestStores;
beforeAll(async () => {
  stores = await TestStores.start();
});
afterAll(() => stores.close());

async function opened(): Promise<string> {
  const id = randomUUID();
  await stores.log.handle(counter, open(id));
  return id;
}

async function eventsOf(id: string): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const event of stores.log.read(`counter-acme.${id}`)) events.push(event);
  return events;
}

describe('what is stored', () => {
  it('holds no personal text in the clear, and opens again', async () => {
    const id = await opened();
    const people = [{ name: 'MARKER Ana' }, { name: 'MARKER Ben' }];
    await stores.log.handle(counter, call(id, { type: 'Add', amounts: [1], note: 'MARKER note', people }));
    const events = await eventsOf(id);
    expect(
      JSON.stringify(events, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value)),
    ).not.toContain('MARKER');
    expect(isSealed(events[1]!.data['note'])).toBe(true);
    expect((await stores.log.open(events[1]!)).data).toEqual({ amount: 1, note: 'MARKER note', people });
    const { data } = events[1]!;
    const moved = { ...events[1]!, eventId: events[0]!.eventId, data };
    await expect(stores.log.open(moved)).rejects.toThrow(UnreadableEvent);
  });

  it('P42: refuses an append over the limit, saying how large and why, and writes nothing', async () => {
    const id = await opened();
    const note = 'x'.repeat(Math.floor(1.1 * 1024 * 1024));
    const one = stores.log.handle(counter, call(id, { type: 'Add', amounts: [1], note }));
    await expect(one).rejects.toThrow(AppendTooLarge);
    await expect(one).rejects.toMatchObject({ limit: 1_048_576, field: 'Added.note' });
    const size = await one.catch((error: AppendTooLarge) => error.size);
    expect(size).toBeGreaterThan(note.length * (4 / 3));
    const amounts = Array.from({ length: 500 }, () => 1);
    const many = stores.log.handle(counter, call(id, { type: 'Add', amounts, note: 'y'.repeat(1300) }));
    await expect(many).rejects.toMatchObject({
      name: 'AppendTooLarge',
      limit: 1_048_576,
      field: 'Added.note',
    });
    expect(await eventsOf(id)).toHaveLength(1);
    expect(await stores.log.handle(counter, add(id, 1))).toMatchObject({ revision: 1n });
  });

  it('P13: has revisions and positions as bigint at run time', async () => {
    const id = await opened();
    const { revision, position } = await stores.log.handle(counter, add(id, 1));
    const [, event] = await eventsOf(id);
    for (const value of [revision, position, event!.revision, event!.position, await stores.log.head()])
      expect(typeof value).toBe('bigint');
    expect(event).toMatchObject({ revision, position });
  });

  it('shows in its chain what was changed, taken out or swapped', async () => {
    const id = await opened();
    for (let amount = 1; amount <= 3; amount++) await stores.log.handle(counter, add(id, amount));
    const [a, b, c, d] = (await eventsOf(id)) as [StoredEvent, StoredEvent, StoredEvent, StoredEvent];
    const intact = await verifyChain([a, b, c, d]);
    expect(intact).toMatchObject({ verdict: 'intact', events: 4 });
    const head = intact.verdict === 'intact' ? intact.head : '';
    const changed = { ...b, data: { amount: 9 } };
    expect(await verifyChain([a, changed, c, d])).toEqual({ verdict: 'altered', events: 2, firstBad: 2n });
    expect(await verifyChain([a, c, d])).toEqual({ verdict: 'altered', events: 1, firstBad: 1n });
    expect(await verifyChain([a, c, b, d])).toEqual({ verdict: 'altered', events: 1, firstBad: 1n });
    const renumbered = [a, { ...c, revision: 1n }, { ...b, revision: 2n }, d];
    expect(await verifyChain(renumbered)).toEqual({ verdict: 'altered', events: 1, firstBad: 1n });
    const actor = { ...d.metadata, actor: { ...d.metadata.actor, sub: 'eve' } };
    expect(await verifyChain([a, b, c, { ...d, metadata: actor }], head)).toMatchObject({
      verdict: 'altered',
    });
    expect(await verifyChain([a, b, c], head)).toMatchObject({ verdict: 'altered' });
  });
});

describe('a stream that this code does not know', () => {
  const foreign = { ...counter, events: { ...counter.events, Doubled: counter.events['Added']! } };
  const doubling = {
    ...foreign,
    decider: { ...counter.decider, decide: () => [{ type: 'Doubled', data: { amount: 1 } } as never] },
  };

  it('takes no commands and is not folded', async () => {
    const id = await opened();
    const other = await stores.another();
    const newer = other.log;
    await newer.handle(doubling, add(id, 1));
    const error = { name: 'UnknownStoredEvent', stream: `counter-acme.${id}`, revision: 1n, type: 'Doubled' };
    await expect(stores.log.handle(counter, add(id, 1))).rejects.toMatchObject(error);
    await expect(stores.log.handle(counter, add(id, 1))).rejects.toThrow(UnknownStoredEvent);
    await expect(stores.log.fold(counter, 'acme', id)).rejects.toMatchObject(error);
    expect(await eventsOf(id)).toHaveLength(2);
    await other.close();
  });
});

describe('a stream whose content does not open', () => {
  /** A stream of a customer of its own, whose key is then spoiled, as another process sees it. */
  async function spoiled(how: 'erased' | 'damaged', kind = 'run') {
    const [id, customerId] = [randomUUID(), randomUUID()];
    await stores.log.handle(counter, call(id, { type: 'Open', customerId, title: 'x' }, { creates: true }));
    const noted = call(id, { type: 'Add', amounts: [2], note: 'y' });
    await stores.log.handle(counter, noted);
    await stores.spoilKey(customerId, kind, how);
    return { id, noted, other: await stores.another() };
  }
  const despiteUnopenable = true;

  it.each(['erased', 'damaged'] as const)('takes no commands, and is not folded: %s key', async (how) => {
    const { id, other } = await spoiled(how);
    for (const each of [other.log.handle(counter, add(id, 1)), other.log.fold(counter, 'acme', id)])
      await expect(each).rejects.toThrow(UnreadableEvent);
    expect(await eventsOf(id)).toHaveLength(2);
    await other.close();
  });

  it.each(['erased', 'damaged'] as const)('takes those that say so, where the key is %s', async (how) => {
    const { id, noted, other } = await spoiled(how);
    const seen = {
      despiteUnopenable,
      answer: ({ total, title }: { total: number; title: unknown }) => [total, title],
    };
    const added = await other.log.handle(counter, { ...add(id, 1), ...seen });
    expect(added).toMatchObject({ revision: 2n, answer: [3, { sealed: 'v1' }] });
    const again = { ...noted, despiteUnopenable };
    expect(await other.log.handle(counter, again)).toMatchObject({ revision: 1n, replayed: true, answer: 2 });
    const events = await eventsOf(id);
    expect(await verifyChain(events)).toMatchObject({ verdict: 'intact', events: 3 });
    await other.close();
  });

  it('never writes in the clear what it cannot seal', async () => {
    const { id, other } = await spoiled('erased');
    const told = call(id, { type: 'Add', amounts: [1], note: 'MARKER' }, { despiteUnopenable });
    await expect(other.log.handle(counter, told)).rejects.toThrow('the run key of its customer is missing');
    const named = call(
      id,
      { type: 'Add', amounts: [1], people: [{ name: 'MARKER' }] },
      { despiteUnopenable },
    );
    await expect(other.log.handle(counter, named)).rejects.toThrow(UnreadableEvent);
    expect(await eventsOf(id)).toHaveLength(2);
    await other.close();
  });

  it('is whole again when its key is restored', async () => {
    const { id, other } = await spoiled('damaged', 'claim');
    await expect(other.log.handle(counter, add(id, 1))).rejects.toThrow(
      'the claim key of its customer is damaged',
    );
    await other.close();
    expect(await stores.log.handle(counter, add(id, 1))).toMatchObject({ revision: 2n, answer: 3 });
  });
});
