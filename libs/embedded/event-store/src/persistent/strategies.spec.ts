import fc from 'fast-check';
import { type Consumer, strategyNamed } from './strategies.js';

class Client implements Consumer {
  hasRoom = true;
  constructor(readonly name: number) {}
}

const clients = (count: number): Client[] => Array.from({ length: count }, (_, n) => new Client(n));
const streams = Array.from({ length: 600 }, (_, n) => `stream-${n}`);

describe('Pinned', () => {
  const ownersOf = (strategy: { choose(source: string): Client | undefined }): (number | undefined)[] =>
    streams.map((stream) => strategy.choose(stream)?.name);

  it('gives every stream one owner, evenly, and moves few when a client comes or goes', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), (count) => {
        const strategy = strategyNamed<Client>('Pinned');
        const all = clients(count + 1);
        strategy.arrange(all.slice(0, count));
        const before = ownersOf(strategy);
        strategy.arrange(all);
        const after = ownersOf(strategy);
        strategy.arrange(all.slice(1));
        const without = ownersOf(strategy);
        const moved = (from: typeof before, to: typeof before): number =>
          from.filter((owner, i) => owner !== to[i]).length;
        expect(new Set(before).size).toBe(count);
        expect(without).not.toContain(0);
        expect([...before, ...after, ...without]).not.toContain(undefined);
        expect(moved(before, after)).toBeLessThan(streams.length / (count + 1) + 150);
        expect(moved(after, without)).toBeLessThan(streams.length / (count + 1) + 150);
      }),
    );
  });

  it('has an event wait for its own client, and no other event with it', () => {
    const strategy = strategyNamed<Client>('Pinned');
    const both = clients(2);
    strategy.arrange(both);
    both[0]!.hasRoom = false;
    const owners = new Set(ownersOf(strategy));
    expect([strategy.letsPass, owners]).toEqual([true, new Set([undefined, 1])]);
  });
});

it('RoundRobin passes over who has no room, and gives nothing when nobody has', () => {
  const strategy = strategyNamed<Client>('RoundRobin');
  const three = clients(3);
  strategy.arrange(three);
  three[1]!.hasRoom = false;
  expect([1, 2, 3, 4].map(() => strategy.choose('s')?.name)).toEqual([0, 2, 0, 2]);
  for (const client of three) client.hasRoom = false;
  expect(strategy.choose('s')).toBeUndefined();
  strategy.arrange([]);
  expect(strategy.choose('s')).toBeUndefined();
});

it('DispatchToSingle gives to the first that has room', () => {
  const strategy = strategyNamed<Client>('DispatchToSingle');
  const two = clients(2);
  strategy.arrange(two);
  expect([1, 2].map(() => strategy.choose('s')?.name)).toEqual([0, 0]);
  two[0]!.hasRoom = false;
  expect(strategy.choose('s')?.name).toBe(1);
});
