import {
  type AllStreamSubscription,
  END,
  type EventStoreDBClient,
  START,
  type StreamSubscription,
  eventTypeFilter,
  excludeSystemEvents,
  isCommandError,
  jsonEvent,
  persistentSubscriptionToAllSettingsFromDefaults,
  streamNameFilter,
} from '@eventstore/db-client';
import { once } from 'node:events';
import { type Subject, all, errorOf, event, events, newStream, realServer, startSubject } from './subject.js';

let subject: Subject;
let client: EventStoreDBClient;
beforeAll(async () => {
  subject = await startSubject();
  client = subject.client;
});
afterAll(() => subject.stop());

/** What a subscription was told, in order, with a way to wait for more. */
class Heard {
  readonly log: string[] = [];
  readonly positions: bigint[] = [];
  private waiting: { until: (heard: Heard) => boolean; resolve: () => void }[] = [];

  constructor(readonly subscription: StreamSubscription | AllStreamSubscription) {
    (subscription as AllStreamSubscription)
      .on('confirmation', () => this.note('confirmation'))
      .on('caughtUp', () => this.note('caughtUp'))
      .on('error', (error) => this.note(isCommandError(error) ? error.type : error.message))
      .on('data', (resolved) => {
        this.positions.push(resolved.event!.position.commit);
        this.note(`${resolved.event!.type} ${resolved.event!.revision}`);
      });
  }

  until(condition: (heard: Heard) => boolean): Promise<void> {
    if (condition(this)) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push({ until: condition, resolve }));
  }

  count(length: number): Promise<void> {
    return this.until(({ log }) => log.length >= length);
  }

  private note(what: string): void {
    this.log.push(what);
    for (const one of this.waiting.filter(({ until }) => until(this))) one.resolve();
  }
}

const ended = (heard: Heard): Promise<void> => heard.subscription.unsubscribe();

describe('a subscription to a stream', () => {
  it.each([
    ['from the start', START, ['happened 0', 'happened 1', 'happened 2', 'caughtUp', 'happened 3']],
    ['after a revision', 1n, ['happened 2', 'caughtUp', 'happened 3']],
    ['after revision 0', 0n, ['happened 1', 'happened 2', 'caughtUp', 'happened 3']],
    ['after the last revision', 2n, ['caughtUp', 'happened 3']],
    ['from the end', END, ['caughtUp', 'happened 3']],
  ] as const)(
    'tells history, one caught-up, then what is written: %s',
    async (_name, fromRevision, expected) => {
      const stream = newStream();
      await client.appendToStream(stream, events(0, 1, 2));
      const heard = new Heard(client.subscribeToStream(stream, { fromRevision }));
      await heard.until(({ log }) => log.includes('caughtUp'));
      await client.appendToStream(stream, event(3));
      await heard.count(expected.length + 1);
      expect(heard.log).toEqual(['confirmation', ...expected]);
      await ended(heard);
    },
  );

  it('waits for a stream that is missing, or deleted, and hears only what comes', async () => {
    const missing = newStream();
    const deleted = newStream();
    await client.appendToStream(deleted, events(0, 1));
    await client.deleteStream(deleted);
    const both = [missing, deleted].map((stream) => new Heard(client.subscribeToStream(stream)));
    await Promise.all(both.map((heard) => heard.count(2)));
    for (const stream of [missing, deleted]) await client.appendToStream(stream, event(9));
    await Promise.all(both.map((heard) => heard.count(3)));
    expect(both.map(({ log }) => log)).toEqual([
      ['confirmation', 'caughtUp', 'happened 0'],
      ['confirmation', 'caughtUp', 'happened 2'],
    ]);
    await Promise.all(both.map(ended));
  });

  it('is told nothing of a deletion, and goes on with what is written after it', async () => {
    const stream = newStream();
    await client.appendToStream(stream, events(0, 1));
    const heard = new Heard(client.subscribeToStream(stream));
    await heard.count(4);
    await client.deleteStream(stream);
    await client.appendToStream(stream, event(2));
    await heard.count(5);
    expect(heard.log.slice(3)).toEqual(['caughtUp', 'happened 2']);
    await ended(heard);
  });

  it('ends with the tombstone, and begins with an error after it', async () => {
    const stream = newStream();
    await client.appendToStream(stream, event(0));
    const heard = new Heard(client.subscribeToStream(stream));
    await heard.count(3);
    await client.tombstoneStream(stream);
    await heard.count(5);
    expect(heard.log.slice(3)).toEqual(['$streamDeleted 9223372036854775807', 'stream-deleted']);
    const late = new Heard(client.subscribeToStream(stream));
    await late.count(1);
    expect(late.log).toEqual(['stream-deleted']);
  });
});

describe('a subscription to the whole log', () => {
  it('misses and doubles nothing while writers work through the switch to live', async () => {
    const prefix = newStream('switch');
    const before = (await client.appendToStream(`${prefix}-0`, event(0))).position!;
    await Promise.all(
      Array.from({ length: 20 }, (_, w) => client.appendToStream(`${prefix}-${w}`, events(...range(60)))),
    );
    const writing = Promise.all(range(8).map((w) => writeSome(`${prefix}-${w}`, 40)));
    const subscriptions = range(4).map(
      () =>
        new Heard(
          client.subscribeToAll({ fromPosition: before, filter: streamNameFilter({ prefixes: [prefix] }) }),
        ),
    );
    const written = 20 * 60 + (await writing).length * 40;
    for (const heard of subscriptions) {
      await heard.until(({ positions, log }) => positions.length >= written && log.includes('caughtUp'));
      expect(heard.positions).toHaveLength(written);
      expect(heard.positions).toEqual([...new Set(heard.positions)].sort((a, b) => (a < b ? -1 : 1)));
      expect(heard.log.filter((what) => what === 'caughtUp')).toHaveLength(1);
      await ended(heard);
    }
  });

  it('filters by stream and type, by prefix and expression', async () => {
    const stream = newStream('filter');
    const from = (await client.appendToStream(newStream(), event(0))).position!;
    const types = ['apple', 'apricot', 'banana', '$system'];
    await client.appendToStream(
      stream,
      types.map((type) => jsonEvent({ type, data: {} })),
    );
    await client.appendToStream(newStream('other'), jsonEvent({ type: 'apple', data: {} }));
    const marker = newStream('filter');
    await client.appendToStream(marker, jsonEvent({ type: 'apple', data: {} }));
    const cases = [
      [streamNameFilter({ prefixes: ['nothing', 'filter-'] }), [...types, 'apple']],
      [streamNameFilter({ regex: `${stream.slice(10)}$` }), types],
      [eventTypeFilter({ prefixes: ['ap', 'ba'] }), ['apple', 'apricot', 'banana', 'apple', 'apple']],
      [eventTypeFilter({ regex: '^a.*t$' }), ['apricot']],
      [eventTypeFilter({ regex: '(?i)^APR' }), ['apricot']],
      [eventTypeFilter({ regex: '^APR' }), []],
      [excludeSystemEvents(), ['apple', 'apricot', 'banana', 'apple', 'apple']],
    ] as const;
    for (const [filter, expected] of cases) {
      const heard = new Heard(client.subscribeToAll({ fromPosition: from, filter }));
      await heard.until(({ log }) => log.includes('caughtUp'));
      const told = heard.log.filter((what) => what.includes(' ')).map((what) => what.split(' ')[0]);
      expect(told).toEqual(expected);
      await ended(heard);
    }
  });

  it('refuses expressions that could hang the store, wherever a filter can be given', async () => {
    if (realServer) return;
    const filter = eventTypeFilter({ regex: '(?i)^(A+)+$' });
    const refused = { code: 3, message: expect.stringContaining('must not repeat a group') as string };
    const heard = await errorOf(all(client.subscribeToAll({ filter })));
    expect(heard).toMatchObject(refused);
    const settings = persistentSubscriptionToAllSettingsFromDefaults();
    const created = client.createPersistentSubscriptionToAll('hanging', settings, { filter });
    expect(await errorOf(created)).toMatchObject(refused);
  });

  it('tells checkpoints that advance when nothing matches, each usable as a start', async () => {
    const from = (await client.appendToStream(newStream(), event(0))).position!;
    const stream = newStream('busy');
    await client.appendToStream(stream, events(...range(384)));
    const checkpoints: bigint[] = [];
    const filter = streamNameFilter({
      prefixes: ['nobody-has-this'],
      maxSearchWindow: 32,
      checkpointInterval: 2,
      checkpointReached: (_subscription, position) => {
        checkpoints.push(position.commit);
      },
    });
    const heard = new Heard(client.subscribeToAll({ fromPosition: from, filter }));
    await heard.until(({ log }) => log.includes('caughtUp'));
    expect(checkpoints).toHaveLength(6);
    const reached = checkpoints[5]!;
    const last = (await client.appendToStream(stream, event(1))).position!.commit;
    const rest = new Heard(client.subscribeToAll({ fromPosition: { commit: reached, prepare: reached } }));
    await rest.until(({ positions }) => positions.includes(last));
    expect(rest.positions).toEqual([last]);
    await client.appendToStream(stream, events(...range(63)));
    const marker = (await client.appendToStream(stream, event(1))).position!.commit;
    await rest.until(({ positions }) => positions.includes(marker));
    await Promise.all([heard, rest].map(ended));
    const live = checkpoints.slice(6);
    expect(live).toEqual([rest.positions[63]]);
  });

  it('takes the very first position for one to start after, unlike the start', async () => {
    const [first] = await all(client.readAll({ maxCount: 1 }));
    const { commit } = first!.event!.position;
    const after = new Heard(client.subscribeToAll({ fromPosition: { commit, prepare: commit } }));
    const before = new Heard(client.subscribeToAll({ fromPosition: START }));
    await Promise.all([after, before].map((heard) => heard.until(({ log }) => log.includes('caughtUp'))));
    expect(before.positions[0]).toBe(commit);
    expect(before.positions.slice(1)).toEqual(after.positions);
    await Promise.all([after, before].map(ended));
  });

  it('wakes 300 subscriptions on one connection', async () => {
    const streams = range(300).map(() => newStream('many'));
    const many = streams.map((stream) => new Heard(client.subscribeToStream(stream, { fromRevision: END })));
    await Promise.all(many.map((heard) => heard.count(2)));
    await Promise.all(streams.map((stream) => client.appendToStream(stream, event(0))));
    await Promise.all(many.map((heard) => heard.count(3)));
    expect(new Set(many.map(({ log }) => log.join()))).toEqual(new Set(['confirmation,caughtUp,happened 0']));
    await Promise.all(many.map(ended));
  });

  it('serves a reader that stops for a while everything, in order, and nobody else waits for it', async () => {
    const stream = newStream('slow');
    const slow = client.subscribeToStream(stream);
    await once(slow, 'confirmation');
    slow.pause();
    const text = 'x'.repeat(2000);
    for (let batch = 0; batch < 20; batch++)
      await client.appendToStream(
        stream,
        range(100).map((n) => jsonEvent({ type: 'happened', data: { n: batch * 100 + n, text } })),
      );
    const heard = new Heard(slow);
    slow.resume();
    await heard.until(({ positions }) => positions.length >= 2000);
    expect(heard.log.filter((what) => what.includes(' '))).toEqual(range(2000).map((n) => `happened ${n}`));
    await ended(heard);
  });
});

const range = (length: number): number[] => Array.from({ length }, (_, n) => n);

async function writeSome(stream: string, count: number): Promise<void> {
  for (const n of range(count)) await client.appendToStream(stream, event(n));
}
