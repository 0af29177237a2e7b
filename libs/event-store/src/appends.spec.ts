import { MessageChannel } from 'node:worker_threads';
import type { Appends } from './appends.js';
import { AppendsElsewhere, serveAppends } from './appends-elsewhere.js';
import { StoreUnavailable, StreamNotFound } from './errors.js';
import { Interrupted, LostRace, type StoredEventBody, UncertainAppend } from './translate.js';

const BEYOND = 2n ** 53n + 1n;
const events = [
  {
    eventId: '3f1a4c1e-0b55-4f0e-9a55-0a7d5a1f0009',
    type: 'Added',
    data: { note: 'n' },
    metadata: { tenant: 'acme' },
  },
] as unknown as StoredEventBody[];

/** Appends whose outcomes the test decides, at the other end of a port. */
class Deciding implements Appends {
  readonly asked: { stream: string; events: readonly StoredEventBody[]; after: bigint }[] = [];
  readonly decide: ((outcome: bigint | Error) => void)[] = [];
  closed = false;
  private readonly arrivals: { count: number; resolve: () => void }[] = [];

  append(stream: string, given: readonly StoredEventBody[], after: bigint): Promise<bigint> {
    this.asked.push({ stream, events: given, after });
    const decided = new Promise<bigint>((resolve, reject) =>
      this.decide.push((outcome) => (typeof outcome === 'bigint' ? resolve(outcome) : reject(outcome))),
    );
    for (const { count, resolve } of this.arrivals) if (this.asked.length >= count) resolve();
    return decided;
  }

  arrived(count: number): Promise<void> {
    if (this.asked.length >= count) return Promise.resolve();
    return new Promise((resolve) => this.arrivals.push({ count, resolve }));
  }

  close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }
}

function across(): { here: AppendsElsewhere; there: Deciding } {
  const { port1, port2 } = new MessageChannel();
  const there = new Deciding();
  serveAppends(port2, there);
  return { here: new AppendsElsewhere(port1), there };
}

describe('appends through another thread', () => {
  it('ask for what they are given, and answer each its own position, exact beyond 2^53', async () => {
    const { here, there } = across();
    const first = here.append('run-acme.a', events, -1n);
    const second = here.append('run-acme.b', events, BEYOND);
    await there.arrived(2);
    there.decide[1]!(BEYOND + 2n);
    there.decide[0]!(7n);
    expect(await Promise.all([first, second])).toEqual([7n, BEYOND + 2n]);
    expect(there.asked).toEqual([
      { stream: 'run-acme.a', events, after: -1n },
      { stream: 'run-acme.b', events, after: BEYOND },
    ]);
    await here.close();
  });

  it('fail as they failed there', async () => {
    const { here, there } = across();
    const failures = [
      new LostRace(),
      new UncertainAppend('not answered'),
      new StreamNotFound('run-acme.a'),
      new StoreUnavailable('no leader'),
      new Interrupted('broken'),
      new RangeError('refused'),
    ];
    const appends = failures.map(() => here.append('run-acme.a', events, 0n));
    const ends = Promise.allSettled(appends);
    await there.arrived(failures.length);
    failures.forEach((failure, at) => there.decide[at]!(failure));
    const reasons = (await ends).map((end) => (end.status === 'rejected' ? (end.reason as Error) : end));
    expect(reasons.map((reason) => reason.constructor)).toEqual([
      LostRace,
      UncertainAppend,
      StreamNotFound,
      StoreUnavailable,
      StoreUnavailable,
      Error,
    ]);
    expect(reasons.map((reason) => (reason as Error).message)).toEqual([
      '',
      'not answered',
      new StreamNotFound('run-acme.a').message,
      'no leader',
      'broken',
      'refused',
    ]);
    await here.close();
  });

  it('are answered before a close is, and refused after', async () => {
    const { here, there } = across();
    const underWay = here.append('run-acme.a', events, 0n);
    await there.arrived(1);
    const order: string[] = [];
    const closed = here.close().then(() => order.push('closed'));
    const refused = here.append('run-acme.a', events, 1n);
    await expect(refused).rejects.toThrow(StoreUnavailable);
    expect(there.closed).toBe(false);
    there.decide[0]!(5n);
    await underWay.then((position) => order.push(String(position)));
    await closed;
    expect(order).toEqual(['5', 'closed']);
    expect(there.closed).toBe(true);
  });
});
