import {
  BACKWARDS,
  END,
  EventStoreDBClient,
  type ReadStreamOptions,
  type ResolvedEvent,
  START,
  StreamNotFoundError,
  binaryEvent,
  jsonEvent,
} from '@eventstore/db-client';
import { randomUUID } from 'node:crypto';
import {
  type Subject,
  all,
  appendPaths,
  errorOf,
  event,
  events,
  newStream,
  realServer,
  reopen,
  startSubject,
  temporaryFolder,
} from './subject.js';

let subject: Subject;
let client: EventStoreDBClient;
beforeAll(async () => {
  subject = await startSubject();
  client = subject.client;
});
afterAll(() => subject.stop());

/** A category that no other test has. */
const newCategory = (): string => `cat${randomUUID().replaceAll('-', '')}`;

/** The first `count` links; a real server writes them some time after their events. */
async function first(
  stream: string,
  count: number,
  options: ReadStreamOptions = {},
): Promise<ResolvedEvent[]> {
  const taken: ResolvedEvent[] = [];
  const subscription = client.subscribeToStream(stream, { resolveLinkTos: options.resolveLinkTos });
  for await (const one of subscription) if (taken.push(one) === count) break;
  return taken;
}

const targets = (read: ResolvedEvent[]): unknown[] =>
  read.map((one) => one.event && `${one.event.revision}@${one.event.streamId}`);
const texts = (read: ResolvedEvent[]): string[] =>
  read.map(({ event: link }) => Buffer.from(link!.data as Uint8Array).toString());

describe('$ce-', () => {
  it('holds a link to every event of the category, in the order of the log', async () => {
    const category = newCategory();
    for (const [stream, n] of [
      ['a', 0],
      ['b-c', 1],
      ['a', 2],
    ] as const)
      await client.appendToStream(`${category}-${stream}`, event(n));
    await client.appendToStream(`${category}x-a`, event(3));
    await client.appendToStream(category, event(4));
    await client.appendToStream(`${category}-a`, event(5));
    const expected = [`0@${category}-a`, `0@${category}-b-c`, `1@${category}-a`, `2@${category}-a`];
    const links = await first(`$ce-${category}`, 4);
    expect(texts(links)).toEqual(expected);
    expect(links.map(({ event: link }) => [link!.type, link!.revision, link!.isJson])).toEqual(
      [0n, 1n, 2n, 3n].map((revision) => ['$>', revision, false]),
    );
    const resolved = await first(`$ce-${category}`, 4, { resolveLinkTos: true });
    expect(targets(resolved)).toEqual(expected);
    expect(resolved.map(({ link }) => link!.id)).toEqual(links.map(({ event: link }) => link!.id));
    const backwards = await all(
      client.readStream(`$ce-${category}`, { direction: BACKWARDS, fromRevision: END, maxCount: 2 }),
    );
    expect(texts(backwards)).toEqual([...expected].reverse().slice(0, 2));
    const middle = await all(client.readStream(`$ce-${category}`, { fromRevision: 1n, maxCount: 2 }));
    expect(texts(middle)).toEqual(expected.slice(1, 3));
  });

  it('links a link of the category to its target', async () => {
    const [category, elsewhere] = [newCategory(), newStream()];
    await client.appendToStream(elsewhere, events(0, 1));
    const link = binaryEvent({ type: '$>', data: Buffer.from(`1@${elsewhere}`) });
    await client.appendToStream(`${category}-links`, link);
    const [resolved] = await first(`$ce-${category}`, 1, { resolveLinkTos: true });
    expect(targets([resolved!])).toEqual([`1@${elsewhere}`]);
  });

  it('shows links alone to what was truncated, deleted or tombstoned, at their old revisions', async () => {
    const category = newCategory();
    for (const stream of ['cut', 'deleted', 'gone', 'kept'])
      await client.appendToStream(`${category}-${stream}`, events(0, 1));
    await client.setStreamMetadata(`${category}-cut`, { truncateBefore: 1 });
    await client.deleteStream(`${category}-deleted`);
    await client.tombstoneStream(`${category}-gone`);
    const read = await first(`$ce-${category}`, 8, { resolveLinkTos: true });
    const gone = undefined;
    expect(targets(read)).toEqual([
      gone,
      `1@${category}-cut`,
      ...[gone, gone, gone, gone],
      `0@${category}-kept`,
      `1@${category}-kept`,
    ]);
    expect(read.map(({ link }) => link!.revision)).toEqual([0n, 1n, 2n, 3n, 4n, 5n, 6n, 7n]);
  });

  it('is heard live, once for each event, after history', async () => {
    const category = newCategory();
    await client.appendToStream(`${category}-a`, events(0, 1));
    await first(`$ce-${category}`, 2);
    const heard: string[] = [];
    const subscription = client.subscribeToStream(`$ce-${category}`, {
      resolveLinkTos: true,
      fromRevision: 0n,
    });
    const caughtUp = new Promise<void>((resolve) => subscription.once('caughtUp', resolve));
    const enough = new Promise<void>((resolve) =>
      subscription.on('data', (one) => {
        heard.push(String(targets([one])[0]));
        if (heard.length === 21) resolve();
      }),
    );
    await caughtUp;
    await Promise.all(
      Array.from({ length: 10 }, (_, n) => client.appendToStream(`${category}-${n}`, events(0, 1))),
    );
    await enough;
    expect(heard[0]).toBe(`1@${category}-a`);
    expect(new Set(heard).size).toBe(21);
    await subscription.unsubscribe();
  });

  it('is no stream before its first event', async () => {
    const category = newCategory();
    expect(await errorOf(all(client.readStream(`$ce-${category}`)))).toBeInstanceOf(StreamNotFoundError);
    const subscription = client.subscribeToStream(`$ce-${category}`, { fromRevision: START });
    const one = new Promise<ResolvedEvent>((resolve) => subscription.once('data', resolve));
    await new Promise((resolve) => subscription.once('caughtUp', resolve));
    await client.appendToStream(`${category}-a`, event(0));
    expect(texts([await one])).toEqual([`0@${category}-a`]);
    await subscription.unsubscribe();
  });

  it('is cut short by its own metadata', async () => {
    const category = newCategory();
    await client.appendToStream(`${category}-a`, events(0, 1, 2));
    await first(`$ce-${category}`, 3);
    await client.setStreamMetadata(`$ce-${category}`, { maxCount: 1 });
    const read = await all(client.readStream(`$ce-${category}`));
    expect(texts(read)).toEqual([`2@${category}-a`]);
  });
});

describe('$et-', () => {
  it('holds a link to every event of the type, of whatever stream', async () => {
    const type = newCategory();
    const stream = newStream();
    await client.appendToStream(stream, [event(0), jsonEvent({ type, data: {} })]);
    await client.appendToStream('plain', jsonEvent({ type, data: {} }));
    const [one, two] = await first(`$et-${type}`, 2, { resolveLinkTos: true });
    expect([one!.event!.streamId, two!.event!.streamId]).toEqual([stream, 'plain']);
    expect([one!.link!.revision, two!.link!.revision]).toEqual([0n, 1n]);
  });
});

describe('$streams and $category-', () => {
  it('hold one entry for each stream, from its first event', async () => {
    const category = newCategory();
    for (const stream of ['a', 'b', 'a']) await client.appendToStream(`${category}-${stream}`, event(0));
    await client.setStreamMetadata(`${category}-c`, { owner: 'x' });
    const named = await first(`$category-${category}`, 2);
    expect(named.map(({ event: one }) => one!.type)).toEqual(['$@', '$@']);
    expect(texts(named)).toEqual([`${category}-a`, `${category}-b`]);
    if (realServer) return;
    const listed = texts(await all(client.readStream('$streams')));
    expect(listed.filter((text) => text.includes(category))).toEqual([
      `0@${category}-a`,
      `0@${category}-b`,
      `0@$$${category}-c`,
    ]);
  });
});

describe('as the store says what they hold', () => {
  it.each(appendPaths)('nobody writes to them: $path', async ({ options }) => {
    if (realServer) return;
    for (const stream of ['$ce-x', '$et-x', '$streams', '$category-x'])
      expect(await errorOf(client.appendToStream(stream, event(0), options))).toMatchObject({
        type: 'access-denied',
      });
    expect(await errorOf(client.deleteStream('$ce-x'))).toMatchObject({ type: 'access-denied' });
    expect(await errorOf(client.tombstoneStream('$ce-x'))).toMatchObject({ type: 'access-denied' });
  });

  it('they are the same after a restart, before anything else is asked', async () => {
    const folder = temporaryFolder();
    const read = async (url: string): Promise<unknown> => {
      const own = EventStoreDBClient.connectionString(url);
      const links = await all(own.readStream('$ce-a', { resolveLinkTos: true }));
      await own.dispose();
      return links.map(({ link }) => [link!.id, link!.revision, link!.position!.commit]);
    };
    let store = await reopen(folder.path);
    const own = EventStoreDBClient.connectionString(store.url);
    for (let n = 0; n < 3; n++) await own.appendToStream(`a-${n}`, events(0, 1));
    await own.dispose();
    const before = await read(store.url);
    await store.close();
    store = await reopen(folder.path);
    expect(await read(store.url)).toEqual(before);
    await store.close();
    folder.remove();
  });
});
