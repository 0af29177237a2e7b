import fc from 'fast-check';
import type { Recorded } from '#libs/projecting';
import { type RawEvent, TestStores } from '#test/projecting';
import { DeadLetters } from './dead-letters.js';
import { type Reaction, ReactionRunner } from './index.js';
import { Unfinished } from './unfinished.js';

const PATIENCE = 5_000;
let stores: TestStores;
let runner: ReactionRunner;

beforeAll(async () => {
  stores = await TestStores.start();
});
afterEach(() => runner.stop());
afterAll(() => stores.close());

const asked: RawEvent = { type: 'Asked', data: {} };

const SOON = { firstMs: 1, longestMs: 4 };

function started(
  name: string,
  react: (event: Recorded) => Promise<void>,
  waits?: typeof SOON,
): ReactionRunner {
  const isTransient = (error: unknown) => error instanceof Error && error.message === 'later';
  const reaction: Reaction = { name, category: name, hears: ['Asked'], isTransient, react };
  runner = new ReactionRunner(reaction, stores, waits);
  runner.start();
  return runner;
}

const letters = (reaction: string) =>
  stores.models.openReadModel('reactions').collection('dead-letters').find({ reaction }).toArray();

describe('a reaction', () => {
  it('hears what it asked for, in order within a stream, and only once across restarts', async () => {
    const heard: string[] = [];
    const react = async ({ id, revision }: Recorded) => void heard.push(`${id}@${revision}`);
    await stores.append('order-acme.a', asked, { type: 'Other', data: {} }, asked);
    const end = await stores.append('order-acme.b', asked, asked);
    expect(await started('order', react).waitFor(end, PATIENCE)).toBe(true);
    await runner.stop();
    const more = await stores.append('order-acme.a', asked);
    expect(await started('order', react).waitFor(more, PATIENCE)).toBe(true);
    expect(heard.filter((place) => place.startsWith('a'))).toEqual(['a@0', 'a@2', 'a@3']);
    expect(heard.filter((place) => place.startsWith('b'))).toEqual(['b@0', 'b@1']);
  });

  it('tries again what may pass, without holding up other streams, and its position waits', async () => {
    let failures = 3;
    const done: string[] = [];
    let othersDone: () => void = () => undefined;
    const others = new Promise<void>((resolve) => (othersDone = resolve));
    started('again', async ({ id }) => {
      if (id === 'stuck') {
        await others;
        failures -= 1;
        if (failures >= 0) throw new Error('later');
      }
      done.push(id);
      if (done.length === 20) othersDone();
    });
    const stuck = await stores.append('again-acme.stuck', asked);
    for (let id = 0; id < 20; id += 1) await stores.append(`again-acme.${id}`, asked);
    await others;
    expect(runner.status().unfinished).toBeGreaterThan(0);
    expect(runner.status().position < stuck).toBe(true);
    expect(await runner.waitFor(stuck, PATIENCE)).toBe(true);
    expect(done.at(-1)).toBe('stuck');
    expect(runner.status()).toMatchObject({ deadLetters: 0, unfinished: 0, handled: 21 });
  });

  it('P83: sets aside what cannot be helped, thrown now or later, and tries it at the next start', async () => {
    const done: string[] = [];
    const broken = (event: Recorded): Promise<void> => {
      if (event.id === 'sync') throw new TypeError('MARKER now');
      if (event.id === 'async') return Promise.reject(new RangeError('MARKER later'));
      done.push(event.id);
      return Promise.resolve();
    };
    await stores.append('broken-acme.sync', asked);
    await stores.append('broken-acme.async', asked);
    const end = await stores.append('broken-acme.well', asked);
    expect(await started('broken', broken).waitFor(end, PATIENCE)).toBe(true);
    expect(runner.status()).toMatchObject({ status: 'running', deadLetters: 2, unfinished: 0 });
    const stored = await letters('broken');
    expect(stored.map(({ id, code, attempts }): unknown[] => [id, code, attempts]).sort()).toEqual([
      ['async', 'range-error', 1],
      ['sync', 'type-error', 1],
    ]);
    expect(stored.some((letter) => Object.values(letter).join().includes('MARKER'))).toBe(false);
    await runner.stop();
    const more = await stores.append('broken-acme.sync', asked);
    const mended = async ({ id, revision }: Recorded) => void done.push(`${id}@${revision}`);
    expect(await started('broken', mended).waitFor(more, PATIENCE)).toBe(true);
    await runner.stop();
    expect(done).toEqual(['well', ...done.slice(1)]);
    expect(done.slice(1).sort()).toEqual(['async@0', 'sync@0', 'sync@1']);
    expect(await letters('broken')).toEqual([]);
  });

  it('tries again at once what the operating system refused, whatever the reaction makes of it', async () => {
    const refusals = ['ENOSPC', 'EMFILE', 'EIO'];
    const react = async () => {
      const code = refusals.shift();
      if (code) throw Object.assign(new Error(code), { code, errno: -1, syscall: 'open' });
    };
    const end = await stores.append('full-acme.a', asked);
    expect(await started('full', react).waitFor(end, PATIENCE)).toBe(true);
    expect(runner.status()).toMatchObject({ deadLetters: 0, retried: 0, handled: 1 });
    expect(refusals).toEqual([]);
  });

  it('tries what it set aside again while it runs, each time later, in its turn in the stream', async () => {
    const heard: string[] = [];
    let last: () => void = () => undefined;
    const mended = new Promise<void>((resolve) => (last = resolve));
    const react = async ({ revision }: Recorded) => {
      heard.push(`${revision}`);
      if (revision > 0n) return;
      if (heard.filter((each) => each === '0').length < 5) throw new TypeError('not yet');
      last();
    };
    const told = stores.told.length;
    const end = await stores.append('later-acme.a', asked, asked);
    expect(await started('later', react, SOON).waitFor(end, PATIENCE)).toBe(true);
    await mended;
    await runner.stop();
    expect(heard.filter((each) => each === '1')).toEqual(['1']);
    const aside = stores.told.slice(told).filter(({ text }) => text === 'an event is set aside');
    expect(aside.map(({ fields }) => [fields['attempts'], fields['retryInMs']])).toEqual([
      [1, 1],
      [2, 2],
      [3, 4],
      [4, 4],
    ]);
    expect(runner.status()).toMatchObject({ deadLetters: 0, retried: 4, handled: 2 });
    expect(await letters('later')).toEqual([]);
  });

  it('takes up at a position before which everything is done, whatever finishes first', () => {
    fc.assert(
      fc.property(fc.array(fc.record({ heard: fc.boolean(), rank: fc.nat() })), (deliveries) => {
        const unfinished = new Unfinished(undefined);
        const open = new Set<bigint>();
        deliveries.forEach(({ heard }, index) => {
          const position = BigInt(index);
          if (!heard) return unfinished.pass(position);
          unfinished.begin(position);
          open.add(position);
        });
        const order = [...open].sort((a, b) => deliveries[Number(a)]!.rank - deliveries[Number(b)]!.rank);
        for (const finished of order) {
          const oldest = [...open].sort((a, b) => Number(a - b))[0]!;
          expect(unfinished.done ?? -1n).toBe(oldest - 1n);
          unfinished.finish(finished);
          open.delete(finished);
        }
        expect(unfinished.done ?? -1n).toBe(BigInt(deliveries.length) - 1n);
      }),
    );
  });
});

describe('what is set aside', () => {
  const letter = (attempts: number) => {
    const place = { stream: 'a-acme.1', tenant: 'acme', id: '1', revision: 3n, eventId: 'e' };
    return { ...place, code: 'type-error', attempts, failedAt: '2026-03-01T09:00:00.000Z' };
  };
  const tried: number[] = [];
  let held: DeadLetters;

  beforeEach(() => {
    jest.useFakeTimers();
    tried.length = 0;
    held = new DeadLetters(({ attempts }) => tried.push(attempts));
  });
  afterEach(() => jest.useRealTimers());

  it('waits 30 seconds at first and ten minutes at most', () => {
    expect([1, 2, 3, 4, 5, 6, 60].map((attempts) => held.hold(letter(attempts)))).toEqual(
      [30, 60, 120, 240, 480, 600, 600].map((seconds) => seconds * 1000),
    );
    expect(held.size).toBe(1);
    jest.advanceTimersByTime(599_999);
    expect(tried).toEqual([]);
    jest.advanceTimersByTime(1);
    expect(tried).toEqual([60]);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('is not tried after it was done, or after the end, also when it fails as the last', () => {
    held.hold(letter(1));
    held.release(letter(1));
    expect([held.size, jest.getTimerCount()]).toEqual([0, 0]);
    held.hold(letter(2));
    held.stop();
    held.hold(letter(3));
    expect([held.size, jest.getTimerCount()]).toEqual([1, 0]);
    held.takeOver([letter(3)]);
    held.hold(letter(4));
    expect([held.size, jest.getTimerCount()]).toEqual([1, 1]);
  });
});
