import {
  END,
  type EventStoreDBClient,
  type PersistentSubscriptionToStreamSettings,
  START,
  persistentSubscriptionToAllSettingsFromDefaults,
} from '@eventstore/db-client';
import { randomUUID } from 'node:crypto';
import { GROUP, type Worker, eager, settings, stopWorkers, working } from './groups.js';
import { type Subject, errorOf, event, events, newStream, startSubject } from './subject.js';

let subject: Subject;
let client: EventStoreDBClient;
beforeAll(async () => {
  subject = await startSubject();
  client = subject.client;
});
afterEach(stopWorkers);
afterAll(() => subject.stop());

const groupOf = (
  stream: string,
  changes: Partial<PersistentSubscriptionToStreamSettings> = {},
): Promise<void> => client.createPersistentSubscriptionToStream(stream, GROUP, settings(changes));
const join = (stream: string, answer?: Worker['answer'], bufferSize = 10): Worker =>
  working(client.subscribeToPersistentSubscriptionToStream(stream, GROUP, { bufferSize }), answer);

describe('a group', () => {
  it.each([
    ['from the start', START, ['0', '1', '2', '3']],
    ['from a revision, included', 1n, ['1', '2', '3']],
    ['from the end, as it was when the group was made', END, ['2', '3']],
  ] as const)('delivers history, then what is written: %s', async (_name, startFrom, expected) => {
    const stream = newStream();
    await client.appendToStream(stream, events(0, 1));
    await groupOf(stream, { startFrom });
    await client.appendToStream(stream, event(2));
    const worker = join(stream);
    await worker.count(expected.length - 1);
    await client.appendToStream(stream, event(3));
    await worker.count(expected.length);
    expect(worker.revisions).toEqual(expected);
    expect(worker.log).toEqual(['confirmation']);
    expect(worker.subscription.id).toBe(`${stream}::${GROUP}`);
    expect(worker.given.map(({ retryCount }) => retryCount)).toEqual(expected.map(() => 0));
  });

  it('waits for a stream that does not exist', async () => {
    const stream = newStream('größe');
    await groupOf(stream);
    const worker = join(stream);
    await worker.ready();
    await client.appendToStream(stream, event(0));
    await worker.count(1);
    expect(worker.numbers()).toEqual([0]);
  });

  it('is made once, and known by its name', async () => {
    const stream = newStream();
    await groupOf(stream);
    const again = await errorOf(groupOf(stream));
    expect(again).toMatchObject({
      type: 'persistent-subscription-exists',
      streamName: stream,
      groupName: GROUP,
    });
    const missing = {
      type: 'persistent-subscription-does-not-exist',
      groupName: GROUP,
    };
    const other = newStream();
    const updated = client.updatePersistentSubscriptionToStream(other, GROUP, settings());
    expect(await errorOf(updated)).toMatchObject(missing);
    const deleted = client.deletePersistentSubscriptionToStream(other, GROUP);
    expect(await errorOf(deleted)).toMatchObject(missing);
    const asked = client.getPersistentSubscriptionToStreamInfo(other, GROUP);
    expect(await errorOf(asked)).toMatchObject(missing);
    const replayed = client.replayParkedMessagesToStream(other, GROUP);
    expect(await errorOf(replayed)).toMatchObject(missing);
    const worker = join(other);
    await worker.ready();
    expect(worker.log).toEqual([missing.type]);
  });

  it.each<[string, Partial<PersistentSubscriptionToStreamSettings>]>([
    ['a batch as large as the buffer', { readBatchSize: 20, historyBufferSize: 20 }],
    ['a negative retry count', { maxRetryCount: -1 }],
  ])('is refused %s', async (_name, changes) => {
    const refused = await errorOf(groupOf(newStream(), changes));
    expect(refused).toMatchObject({ type: 'persistent-subscription-failed' });
  });

  it('is refused on $all by the name of a stream, and beyond the end of the log', async () => {
    expect(await errorOf(groupOf('$all'))).toMatchObject({ type: 'persistent-subscription-failed' });
    const far = { commit: 1n << 40n, prepare: 1n << 40n };
    const changes = persistentSubscriptionToAllSettingsFromDefaults({ startFrom: far });
    const refused = await errorOf(client.createPersistentSubscriptionToAll(randomUUID(), changes));
    expect(refused).toMatchObject({ type: 'persistent-subscription-failed' });
  });

  it('takes no more clients than it may have', async () => {
    const stream = newStream();
    await groupOf(stream, { maxSubscriberCount: 1 });
    const first = join(stream);
    await first.ready();
    const second = join(stream);
    await second.ready();
    expect(second.log).toEqual(['maximum-subscribers-reached']);
    await first.stop();
  });
});

describe('an event', () => {
  it('is held back while a client has as many unanswered as its buffer', async () => {
    const stream = newStream();
    await groupOf(stream);
    await client.appendToStream(stream, events(0, 1, 2, 3, 4));
    const worker = join(stream, 'nothing', 2);
    await worker.count(2);
    const info = await client.getPersistentSubscriptionToStreamInfo(stream, GROUP);
    expect(info.stats.totalInFlightMessages).toBe(2);
    expect(worker.given).toHaveLength(2);
    await worker.ack(worker.given[0]!);
    await worker.count(3);
    expect(worker.revisions).toEqual(['0', '1', '2']);
  });

  it('is tried again on request, up to the limit, then parked', async () => {
    const stream = newStream();
    await groupOf(stream, { ...eager, maxRetryCount: 2 });
    await client.appendToStream(stream, event(0));
    const worker = join(stream, 'retry');
    const parked = client.subscribeToStream(`$persistentsubscription-${stream}::${GROUP}-parked`);
    for await (const { event: entry } of parked) {
      expect(entry!.type).toBe('$>');
      expect(Buffer.from(entry!.data as Uint8Array).toString()).toBe(`0@${stream}`);
      break;
    }
    expect(worker.revisions).toEqual(['0', '0/1', '0/2']);
  });

  it('is tried again when it is not answered in time', async () => {
    const stream = newStream();
    await groupOf(stream, { messageTimeout: 50, maxRetryCount: 5 });
    await client.appendToStream(stream, event(0));
    const worker = join(stream, 'nothing');
    await worker.count(2);
    await worker.ack(worker.given[0]!);
    expect(worker.revisions.slice(0, 2)).toEqual(['0', '0/1']);
  });

  it('goes to another client, counted, when its own leaves', async () => {
    const stream = newStream();
    await groupOf(stream);
    await client.appendToStream(stream, events(0, 1));
    const leaving = join(stream, 'nothing');
    await leaving.count(2);
    await leaving.stop();
    const other = join(stream);
    await other.count(2);
    expect(other.revisions).toEqual(['0/1', '1/1']);
  });

  it.each(['skip', 'stop'] as const)('is done with when it is refused with %s', async (action) => {
    const stream = newStream();
    await groupOf(stream, eager);
    await client.appendToStream(stream, events(0, 1, 2));
    const worker = join(stream, action);
    await worker.count(3);
    await client.appendToStream(stream, event(3));
    await worker.count(4);
    expect(worker.revisions).toEqual(['0', '1', '2', '3']);
    const { stats } = await client.getPersistentSubscriptionToStreamInfo(stream, GROUP);
    expect(stats.parkedMessageCount).toBe(0n);
  });
});

describe('parked events', () => {
  /** Parks events 0 to `count` − 1 of a new stream and answers it. */
  async function parkedIn(count: number): Promise<string> {
    const stream = newStream('park ed/');
    await groupOf(stream, eager);
    await client.appendToStream(stream, events(...Array.from({ length: count }, (_, n) => n)));
    const worker = join(stream, 'park');
    const entries = client.subscribeToStream(`$persistentsubscription-${stream}::${GROUP}-parked`);
    let left = count;
    for await (const _entry of entries) if (--left === 0) break;
    await worker.stop();
    return stream;
  }

  it('are delivered again when they are replayed, before anything new, and leave', async () => {
    const stream = await parkedIn(5);
    const info = await client.getPersistentSubscriptionToStreamInfo(stream, GROUP);
    expect(info.stats.parkedMessageCount).toBe(5n);
    await client.replayParkedMessagesToStream(stream, GROUP);
    const worker = join(stream);
    await worker.count(5);
    expect(worker.numbers()).toEqual([0, 1, 2, 3, 4]);
    expect(worker.given[0]!.link).toMatchObject({
      streamId: `$persistentsubscription-${stream}::${GROUP}-parked`,
    });
    const after = await client.getPersistentSubscriptionToStreamInfo(stream, GROUP);
    expect(after.stats.parkedMessageCount).toBe(0n);
    await client.replayParkedMessagesToStream(stream, GROUP);
    await client.appendToStream(stream, event(5));
    await worker.count(6);
    expect(worker.numbers()).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it('are replayed as far as is asked', async () => {
    const stream = await parkedIn(6);
    await client.replayParkedMessagesToStream(stream, GROUP, { stopAt: 4 });
    const worker = join(stream);
    await worker.count(4);
    await client.appendToStream(stream, event(9));
    await worker.count(5);
    expect(worker.numbers()).toEqual([0, 1, 2, 3, 9]);
    const { stats } = await client.getPersistentSubscriptionToStreamInfo(stream, GROUP);
    expect(stats.parkedMessageCount).toBe(2n);
  });

  it('are parked again when they fail again', async () => {
    const stream = await parkedIn(1);
    await client.replayParkedMessagesToStream(stream, GROUP);
    join(stream, 'park');
    const entries = client.subscribeToStream(`$persistentsubscription-${stream}::${GROUP}-parked`, {
      fromRevision: 0n,
    });
    for await (const { event: entry } of entries) {
      expect([entry!.revision, Buffer.from(entry!.data as Uint8Array).toString()]).toEqual([
        1n,
        `0@${stream}`,
      ]);
      break;
    }
  });
});

describe('strategies', () => {
  const ten = Array.from({ length: 10 }, (_, n) => n);

  it('RoundRobin gives to each in turn', async () => {
    const stream = newStream();
    await groupOf(stream, { consumerStrategyName: 'RoundRobin' });
    const both = [join(stream, 'nothing'), join(stream, 'nothing')];
    await Promise.all(both.map((worker) => worker.ready()));
    await client.appendToStream(stream, events(...ten));
    await Promise.all(both.map((worker) => worker.count(5)));
    expect(both.flatMap((worker) => worker.numbers()).sort((a, b) => a - b)).toEqual(ten);
    expect(both.map(({ given }) => given.length)).toEqual([5, 5]);
  });

  it('DispatchToSingle fills one, then the next', async () => {
    const stream = newStream();
    await groupOf(stream, { consumerStrategyName: 'DispatchToSingle' });
    const first = join(stream, 'nothing', 7);
    await first.ready();
    const second = join(stream, 'nothing');
    await second.ready();
    await client.appendToStream(stream, events(...ten));
    await Promise.all([first.count(7), second.count(3)]);
    expect(first.numbers()).toEqual(ten.slice(0, 7));
  });

  it('Pinned gives the events of one stream to one client, in order', async () => {
    const category = `pin${randomUUID().replaceAll('-', '')}`;
    const system = `$ce-${category}`;
    await groupOf(system, { consumerStrategyName: 'Pinned', resolveLinkTos: true });
    const three = [1, 2, 3].map(() => join(system));
    await Promise.all(three.map((worker) => worker.ready()));
    for (const n of [0, 1, 2])
      for (const one of ten) await client.appendToStream(`${category}-${one}`, event(n));
    const isDone = (): boolean => three.reduce((sum, { given }) => sum + given.length, 0) === 30;
    await Promise.race(three.map((worker) => worker.until(isDone)));
    const owners = new Map<string, Set<number>>();
    three.forEach(({ given }, index) => {
      const seen = new Map<string, number>();
      for (const { event: one } of given) {
        const { streamId, data } = one! as { streamId: string; data: unknown };
        owners.set(streamId, (owners.get(streamId) ?? new Set()).add(index));
        expect((data as { n: number }).n).toBe((seen.get(streamId) ?? -1) + 1);
        seen.set(streamId, (data as { n: number }).n);
      }
    });
    expect([...owners.values()].map(({ size }) => size)).toEqual(ten.map(() => 1));
  });
});

describe('links', () => {
  it('are resolved when asked, acknowledged by the link, and delivered alone when their event is gone', async () => {
    const category = `link${randomUUID().replaceAll('-', '')}`;
    await groupOf(`$ce-${category}`, { ...eager, resolveLinkTos: true });
    for (const name of ['a', 'b']) await client.appendToStream(`${category}-${name}`, event(7));
    await client.tombstoneStream(`${category}-b`);
    const worker = join(`$ce-${category}`);
    await worker.count(2);
    const [kept, gone] = worker.given;
    expect([kept!.event?.streamId, kept!.link?.revision]).toEqual([`${category}-a`, 0n]);
    expect([gone!.event, gone!.link?.revision]).toEqual([undefined, 1n]);
    await client.appendToStream(`${category}-a`, event(8));
    await worker.count(3);
    expect(worker.revisions).toEqual(['0', '1', '2']);
  });
});
