import { randomUUID } from 'node:crypto';
import {
  BACKWARDS,
  END,
  NO_STREAM,
  type ResolvedEvent,
  START,
  StreamDeletedError,
  StreamNotFoundError,
  binaryEvent,
  jsonEvent,
} from '@eventstore/db-client';
import {
  type Subject,
  all,
  appendPaths,
  errorOf,
  event,
  events,
  newStream,
  startSubject,
} from './subject.js';

let subject: Subject;
beforeAll(async () => {
  subject = await startSubject();
});
afterAll(() => subject.stop());

const numbers = (read: ResolvedEvent[]): unknown[] =>
  read.map(({ event: one }) => (one?.data as { n: number } | undefined)?.n);

async function streamOf(...ns: number[]): Promise<string> {
  const stream = newStream();
  await subject.client.appendToStream(stream, events(...ns), { expectedRevision: NO_STREAM });
  return stream;
}

describe('reading a stream', () => {
  it.each([
    ['forwards from the start', {}, [0, 1, 2, 3]],
    ['forwards from a revision, included', { fromRevision: 2n }, [2, 3]],
    ['forwards from beyond the last', { fromRevision: 4n }, []],
    ['forwards with a count', { fromRevision: 1n, maxCount: 2 }, [1, 2]],
    ['backwards from the end', { direction: BACKWARDS, fromRevision: END }, [3, 2, 1, 0]],
    ['backwards from a revision, included', { direction: BACKWARDS, fromRevision: 2n }, [2, 1, 0]],
    ['backwards from beyond the last', { direction: BACKWARDS, fromRevision: 9n }, [3, 2, 1, 0]],
    ['backwards from the start', { direction: BACKWARDS, fromRevision: START }, [0]],
    ['backwards with a count', { direction: BACKWARDS, fromRevision: END, maxCount: 1 }, [3]],
  ] as const)('%s', async (_name, options, expected) => {
    const stream = await streamOf(0, 1, 2, 3);
    expect(numbers(await all(subject.client.readStream(stream, options)))).toEqual(expected);
  });

  it.each(appendPaths)('gives back what was written, as it was written: $path', async ({ options }) => {
    const stream = newStream('ünïcode@☃');
    const sent = [
      jsonEvent({
        type: 'Größe',
        data: { text: '\u0018 \u0118 ☃' },
        metadata: { $correlationId: 'c', n: 1 },
      }),
      jsonEvent({ type: 'bare', data: {} }),
      binaryEvent({ type: 'bytes', data: Buffer.from([0, 255, 10]), metadata: Buffer.from([1, 2, 254]) }),
    ];
    const before = Date.now();
    const written = await subject.client.appendToStream(stream, sent, {
      ...options,
      expectedRevision: NO_STREAM,
    });
    const read = (await all(subject.client.readStream(stream))).map((one) => one.event!);
    expect(
      read.map(({ id, type, streamId, revision, isJson }) => ({ id, type, streamId, revision, isJson })),
    ).toEqual(
      sent.map(({ id, type }, i) => ({ id, type, streamId: stream, revision: BigInt(i), isJson: i < 2 })),
    );
    expect(read[0]?.data).toEqual(sent[0]?.data);
    expect(read[0]?.metadata).toEqual(sent[0]?.metadata);
    expect(read[1]?.metadata).toBeUndefined();
    expect(Buffer.from(read[2]?.data as Uint8Array)).toEqual(Buffer.from([0, 255, 10]));
    expect(Buffer.from(read[2]?.metadata as unknown as Uint8Array)).toEqual(Buffer.from([1, 2, 254]));
    expect(read[2]?.position).toEqual(written.position);
    expect(read[0]!.created.getTime()).toBeGreaterThanOrEqual(before - 1);
    expect(read[0]!.created.getTime()).toBeLessThanOrEqual(Date.now() + 1);
  });

  it('knows no stream that was never written, and none that is tombstoned', async () => {
    const missing = newStream();
    expect(await errorOf(all(subject.client.readStream(missing)))).toBeInstanceOf(StreamNotFoundError);
    const gone = await streamOf(0);
    await subject.client.tombstoneStream(gone);
    expect(await errorOf(all(subject.client.readStream(gone)))).toBeInstanceOf(StreamDeletedError);
  });

  it('reads more than a page in order, both ways', async () => {
    const stream = newStream();
    const many = Array.from({ length: 1300 }, (_, n) => n);
    for (let at = 0; at < many.length; at += 650)
      await subject.client.appendToStream(stream, events(...many.slice(at, at + 650)));
    expect(numbers(await all(subject.client.readStream(stream)))).toEqual(many);
    const backwards = await all(
      subject.client.readStream(stream, { direction: BACKWARDS, fromRevision: END }),
    );
    expect(numbers(backwards)).toEqual([...many].reverse());
  });
});

describe('reading the whole log', () => {
  it('shows every event once, in append order, at the positions that appends answered', async () => {
    const streams = [newStream(), newStream()];
    const positions: bigint[] = [];
    for (let n = 0; n < 6; n++) {
      const { position } = await subject.client.appendToStream(streams[n % 2]!, event(n));
      positions.push(position!.commit);
    }
    const first = { commit: positions[0]!, prepare: positions[0]! };
    const mine = (read: ResolvedEvent[]): ResolvedEvent[] =>
      read.filter((one) => streams.includes(one.event!.streamId));
    const forwards = mine(await all(subject.client.readAll({ fromPosition: first })));
    expect(numbers(forwards)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(forwards.map((one) => one.event!.position!.commit)).toEqual(positions);
    const last = { commit: positions[5]!, prepare: positions[5]! };
    const backwards = mine(await all(subject.client.readAll({ direction: BACKWARDS, fromPosition: last })));
    expect(numbers(backwards)).toEqual([4, 3, 2, 1, 0]);
    const [newest] = await all(
      subject.client.readAll({ direction: BACKWARDS, fromPosition: END, maxCount: 1 }),
    );
    expect(newest!.event!.position.commit).toBe(positions[5]);
    expect(await all(subject.client.readAll({ fromPosition: END }))).toEqual([]);
    expect(await all(subject.client.readAll({ direction: BACKWARDS, fromPosition: START }))).toEqual([]);
  });

  it('shows an event whose stream begins with $ and that is shorter than any name of its own', async () => {
    const { client } = subject;
    const stream = `$${randomUUID().slice(0, 8)}`;
    const { position } = await client.appendToStream(
      stream,
      binaryEvent({ type: 't', data: new Uint8Array() }),
    );
    const [read] = await all(client.readAll({ fromPosition: position!, maxCount: 1 }));
    expect(read!.event).toMatchObject({ streamId: stream, revision: 0n, type: 't' });
  });
});

describe('links', () => {
  it('resolves them when asked, and shows a link alone when its target is gone', async () => {
    const target = await streamOf(0, 1);
    const links = newStream('links');
    const [first] = await all(subject.client.readStream(target, { maxCount: 1 }));
    await subject.client.appendToStream(links, [
      linkTo(`0@${target}`),
      jsonEvent({ type: '$>', data: 'nonsense' }),
      linkTo(`7@${target}`),
    ]);
    const plain = await all(subject.client.readStream(links));
    expect(plain.map((one) => one.event!.type)).toEqual(['$>', '$>', '$>']);
    const [resolved, malformed, dangling] = await all(
      subject.client.readStream(links, { resolveLinkTos: true }),
    );
    expect(resolved!.event).toEqual(first!.event);
    expect(resolved!.link?.streamId).toBe(links);
    expect(malformed!.event?.type).toBe('$>');
    expect(dangling!.event).toBeUndefined();
    expect(dangling!.link?.revision).toBe(2n);
    await subject.client.deleteStream(target);
    const [deleted] = await all(subject.client.readStream(links, { resolveLinkTos: true, maxCount: 1 }));
    expect(deleted!.event).toBeUndefined();
  });
});

const linkTo = (target: string): ReturnType<typeof binaryEvent> =>
  binaryEvent({ type: '$>', data: Buffer.from(target) });
