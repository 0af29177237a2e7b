import {
  type EventStoreDBClient,
  type PersistentSubscriptionToStreamSettings,
  eventTypeFilter,
  jsonEvent,
  persistentSubscriptionToAllSettingsFromDefaults,
  streamNameFilter,
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

describe('a group on all', () => {
  const toAll = persistentSubscriptionToAllSettingsFromDefaults;

  it('delivers what its filter wants, from a position included, and not what groups keep of it', async () => {
    const group = randomUUID();
    const [wanted, other] = [newStream('wanted'), newStream()];
    const { position } = await client.appendToStream(wanted, event(0));
    const filter = streamNameFilter({ prefixes: [wanted, '$persistentsubscription-$all'] });
    const changes = toAll({ ...eager, startFrom: position! });
    await client.createPersistentSubscriptionToAll(group, changes, { filter });
    const worker = working(client.subscribeToPersistentSubscriptionToAll(group));
    for (const n of [1, 2, 3]) {
      await client.appendToStream(other, event(n));
      await client.appendToStream(wanted, event(n));
    }
    await worker.count(4);
    expect(worker.numbers()).toEqual([0, 1, 2, 3]);
    expect(worker.given[0]!.event!.position!.commit).toBe(position!.commit);
    const info = await client.getPersistentSubscriptionToAllInfo(group);
    expect(info).toMatchObject({ eventSource: '$all', groupName: group, settings: { startFrom: position } });
    await client.deletePersistentSubscriptionToAll(group);
  });

  it('keeps its filter when it is updated, and goes on where it was', async () => {
    const group = randomUUID();
    const type = `type${group}`;
    const filter = eventTypeFilter({ regex: `^${type}$` });
    await client.createPersistentSubscriptionToAll(group, toAll(eager), { filter });
    const worker = working(client.subscribeToPersistentSubscriptionToAll(group));
    await client.appendToStream(newStream(), [event(0), jsonEvent({ type, data: { n: 1 } })]);
    await worker.count(1);
    await client.updatePersistentSubscriptionToAll(group, toAll({ ...eager, maxRetryCount: 3 }));
    await worker.until(({ log }) => log.includes('persistent-subscription-dropped'));
    const again = working(client.subscribeToPersistentSubscriptionToAll(group));
    await client.appendToStream(newStream(), [event(0), jsonEvent({ type, data: { n: 2 } })]);
    await again.until((one) => one.numbers().includes(2));
    expect([...worker.numbers(), ...again.numbers()]).toEqual([1, 2]);
    await client.deletePersistentSubscriptionToAll(group);
  });

  it('parks and replays', async () => {
    const group = randomUUID();
    const stream = newStream();
    const filter = streamNameFilter({ prefixes: [stream] });
    await client.createPersistentSubscriptionToAll(group, toAll(eager), { filter });
    const worker = working(client.subscribeToPersistentSubscriptionToAll(group), 'park');
    await client.appendToStream(stream, events(0, 1));
    const entries = client.subscribeToStream(`$persistentsubscription-$all::${group}-parked`);
    let left = 2;
    for await (const _entry of entries) if (--left === 0) break;
    await worker.stop();
    await client.replayParkedMessagesToAll(group);
    const again = working(client.subscribeToPersistentSubscriptionToAll(group));
    await again.count(2);
    expect(again.numbers()).toEqual([0, 1]);
    await client.deletePersistentSubscriptionToAll(group);
  });
});

describe('information', () => {
  it('tells settings as they were given, what is known, and who is connected', async () => {
    const stream = newStream();
    const given = settings({ ...eager, extraStatistics: true, maxRetryCount: 4, startFrom: 1n });
    await client.appendToStream(stream, events(0, 1, 2));
    await client.createPersistentSubscriptionToStream(stream, GROUP, given);
    const worker = join(stream, 'nothing', 5);
    await worker.count(2);
    await worker.ack(worker.given[0]!);
    await client.appendToStream(stream, event(3));
    await worker.count(3);
    const info = await client.getPersistentSubscriptionToStreamInfo(stream, GROUP);
    expect(info).toMatchObject({ eventSource: stream, groupName: GROUP, status: 'Live', settings: given });
    expect(info.stats).toMatchObject({ lastKnownEventRevision: 3n, totalInFlightMessages: 2 });
    const [connection] = info.connections;
    expect(connection).toMatchObject({ availableSlots: 3, inFlightMessages: 2, totalItems: 3n });
    expect(connection!.connectionName).not.toBe('');
    const measured = connection!.extraStatistics!;
    expect([...measured.keys()]).toEqual(
      expect.arrayContaining(['mean', 'median', 'fastest', 'quintile 1', '90%', '99.9%', 'highest']),
    );
  });

  it('lists the groups of a stream, of all, and all of them', async () => {
    const [stream, group] = [newStream(), randomUUID()];
    expect(await errorOf(client.listPersistentSubscriptionsToStream(stream))).toMatchObject({
      type: 'persistent-subscription-does-not-exist',
    });
    await groupOf(stream);
    const names = (list: { groupName: string }[]): string[] => list.map(({ groupName }) => groupName);
    expect(names(await client.listPersistentSubscriptionsToStream(stream))).toEqual([GROUP]);
    await client.createPersistentSubscriptionToAll(group, persistentSubscriptionToAllSettingsFromDefaults());
    expect(names(await client.listPersistentSubscriptionsToAll())).toContain(group);
    const all = await client.listAllPersistentSubscriptions();
    expect(all.map(({ eventSource }) => eventSource)).toEqual(expect.arrayContaining(['$all', stream]));
    await client.deletePersistentSubscriptionToAll(group);
    await client.deletePersistentSubscriptionToStream(stream, GROUP);
    expect(await client.listPersistentSubscriptionsToStream(stream)).toEqual([]);
  });
});

describe('dropping', () => {
  it.each([
    ['an update', (stream: string) => client.updatePersistentSubscriptionToStream(stream, GROUP, settings())],
    ['a deletion', (stream: string) => client.deletePersistentSubscriptionToStream(stream, GROUP)],
    ['a restart of the subsystem', () => client.restartPersistentSubscriptionSubsystem()],
  ])('is what %s does to clients', async (_name, change) => {
    const stream = newStream();
    await groupOf(stream);
    const worker = join(stream);
    await worker.ready();
    await change(stream);
    await worker.until(({ log }) => log.length > 1);
    expect(worker.log).toEqual(['confirmation', 'persistent-subscription-dropped']);
  });

  it('forgets, on deletion, where the group was and what it had parked', async () => {
    const stream = newStream();
    await groupOf(stream, eager);
    await client.appendToStream(stream, events(0, 1));
    const worker = join(stream, 'park');
    const entries = client.subscribeToStream(`$persistentsubscription-${stream}::${GROUP}-parked`);
    let left = 2;
    for await (const _entry of entries) if (--left === 0) break;
    await client.deletePersistentSubscriptionToStream(stream, GROUP);
    await worker.until(({ log }) => log.length > 1);
    await groupOf(stream, eager);
    const info = await client.getPersistentSubscriptionToStreamInfo(stream, GROUP);
    expect(info.stats.parkedMessageCount).toBe(0n);
    const again = join(stream);
    await again.count(2);
    expect(again.revisions).toEqual(['0', '1']);
  });
});
