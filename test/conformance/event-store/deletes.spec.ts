import {
  ANY,
  BACKWARDS,
  END,
  NO_STREAM,
  type ResolvedEvent,
  StreamDeletedError,
  StreamNotFoundError,
  WrongExpectedVersionError,
} from '@eventstore/db-client';
import {
  type Subject,
  all,
  appendPaths,
  errorOf,
  event,
  events,
  newStream,
  realServer,
  startSubject,
} from './subject.js';

let subject: Subject;
beforeAll(async () => {
  subject = await startSubject();
});
afterAll(() => subject.stop());

const numbers = (read: ResolvedEvent[]): unknown[] =>
  read.map(({ event: one }) => (one?.data as { n: number } | undefined)?.n);
const read = async (stream: string): Promise<unknown[]> =>
  numbers(await all(subject.client.readStream(stream)));

async function streamOf(...ns: number[]): Promise<string> {
  const stream = newStream();
  await subject.client.appendToStream(stream, events(...ns), { expectedRevision: NO_STREAM });
  return stream;
}

describe('soft delete', () => {
  it.each(appendPaths)('goes on counting when the stream is written again: $path', async ({ options }) => {
    const stream = await streamOf(0, 1, 2);
    await subject.client.setStreamMetadata(stream, { maxCount: 50, owner: 'x' });
    const { position } = await subject.client.deleteStream(stream, { expectedRevision: 2n });
    expect(await errorOf(read(stream))).toBeInstanceOf(StreamNotFoundError);
    const again = await subject.client.appendToStream(stream, events(3, 4), {
      ...options,
      expectedRevision: NO_STREAM,
    });
    expect(again.nextExpectedRevision).toBe(4n);
    expect(await read(stream)).toEqual([3, 4]);
    const [last] = await all(
      subject.client.readStream(stream, { direction: BACKWARDS, fromRevision: END, maxCount: 1 }),
    );
    expect(last!.event!.position).toEqual(again.position);
    expect((await subject.client.getStreamMetadata(stream)).metadata).toEqual({ truncateBefore: 3 });
    const inLog = await all(subject.client.readAll());
    expect(numbers(inLog.filter((one) => one.event!.streamId === stream))).toEqual([0, 1, 2, 3, 4]);
    const deletion = inLog.find((one) => one.event!.position.commit === position!.commit);
    expect(deletion!.event).toMatchObject({ streamId: `$$${stream}`, type: '$metadata', revision: 1n });
  });

  it('takes a re-send of the old events for what it is', async () => {
    const stream = newStream();
    const sent = events(0, 1);
    await subject.client.appendToStream(stream, sent, { expectedRevision: NO_STREAM });
    await subject.client.deleteStream(stream);
    const again = await subject.client.appendToStream(stream, sent, { expectedRevision: NO_STREAM });
    expect(again.nextExpectedRevision).toBe(1n);
    expect(await errorOf(read(stream))).toBeInstanceOf(StreamNotFoundError);
  });

  it('asks for the revision', async () => {
    const stream = await streamOf(0, 1);
    const wrong = await errorOf(subject.client.deleteStream(stream, { expectedRevision: 5n }));
    expect(wrong).toMatchObject({ expectedVersion: 5n, actualVersion: 1n, streamName: stream });
    expect(
      await errorOf(subject.client.deleteStream(stream, { expectedRevision: NO_STREAM })),
    ).toBeInstanceOf(WrongExpectedVersionError);
    expect(await read(stream)).toEqual([0, 1]);
  });

  it.each([ANY, NO_STREAM] as const)(
    'finds nothing to delete in a stream never written, at %s',
    async (expected) => {
      const deletion = subject.client.deleteStream(newStream(), { expectedRevision: expected });
      expect(await errorOf(deletion)).toMatchObject({
        type: 'wrong-expected-version',
        actualVersion: 'no_stream',
      });
    },
  );

  it('succeeds again on a stream that is deleted, and changes nothing for readers', async () => {
    const stream = await streamOf(0, 1);
    await subject.client.deleteStream(stream);
    await subject.client.deleteStream(stream);
    expect(await errorOf(read(stream))).toBeInstanceOf(StreamNotFoundError);
    expect((await subject.client.appendToStream(stream, event(2))).nextExpectedRevision).toBe(2n);
  });

  it.each(appendPaths)('is undone by an append of nothing: $path', async ({ options }) => {
    const stream = await streamOf(0, 1);
    await subject.client.deleteStream(stream);
    await subject.client.appendToStream(stream, [], { ...options, expectedRevision: 1n });
    expect(await read(stream)).toEqual([]);
  });

  it('deletes a stream that has only metadata', async () => {
    const stream = newStream();
    await subject.client.setStreamMetadata(stream, { owner: 'x' });
    await subject.client.deleteStream(stream, { expectedRevision: NO_STREAM });
    expect((await subject.client.appendToStream(stream, event(1))).nextExpectedRevision).toBe(0n);
    expect(await read(stream)).toEqual([1]);
  });

  it('is undone by new metadata, without showing the old events', async () => {
    const stream = await streamOf(0, 1);
    await subject.client.deleteStream(stream);
    await subject.client.setStreamMetadata(stream, { owner: 'x' });
    expect(await read(stream)).toEqual([]);
    expect((await subject.client.getStreamMetadata(stream)).metadata).toEqual({
      owner: 'x',
      truncateBefore: 2,
    });
    await subject.client.appendToStream(stream, event(2), { expectedRevision: 1n });
    expect(await read(stream)).toEqual([2]);
  });
});

describe('tombstone', () => {
  it('ends a stream for ever', async () => {
    const stream = await streamOf(0);
    await subject.client.tombstoneStream(stream, { expectedRevision: 0n });
    const attempts: Promise<unknown>[] = [
      subject.client.appendToStream(stream, event(1)),
      read(stream),
      subject.client.deleteStream(stream),
      subject.client.tombstoneStream(stream),
      subject.client.setStreamMetadata(stream, {}),
      subject.client.getStreamMetadata(stream),
    ];
    for (const attempt of attempts) expect(await errorOf(attempt)).toBeInstanceOf(StreamDeletedError);
    const inLog = await all(subject.client.readAll());
    const mine = inLog.filter((one) => one.event!.streamId === stream).map((one) => one.event!);
    expect(mine.map(({ type, revision }) => [type, revision])).toEqual([
      ['happened', 0n],
      ['$streamDeleted', 9223372036854775807n],
    ]);
  });

  it.each(appendPaths)('names a stream beyond ASCII in its refusals: $path', async ({ options }) => {
    const stream = newStream('größe ☃');
    await subject.client.appendToStream(stream, event(0));
    await subject.client.tombstoneStream(stream);
    expect(await errorOf(subject.client.appendToStream(stream, event(1), options))).toBeInstanceOf(
      StreamDeletedError,
    );
    expect(await errorOf(read(stream))).toBeInstanceOf(StreamDeletedError);
  });

  it('asks for the revision, and needs no stream under any', async () => {
    const stream = await streamOf(0);
    const wrong = await errorOf(subject.client.tombstoneStream(stream, { expectedRevision: 4n }));
    expect(wrong).toMatchObject({ expectedVersion: 4n, actualVersion: 0n, streamName: stream });
    for (const expectedRevision of [ANY, NO_STREAM] as const) {
      const unwritten = newStream();
      await subject.client.tombstoneStream(unwritten, { expectedRevision });
      expect(await errorOf(read(unwritten))).toBeInstanceOf(StreamDeletedError);
    }
  });
});

describe('metadata', () => {
  it('is what was last written, whole', async () => {
    const stream = newStream();
    expect((await subject.client.getStreamMetadata(stream)).metadata).toBeUndefined();
    await subject.client.setStreamMetadata(stream, { maxAge: 3, custom: { deep: [1] } });
    await subject.client.setStreamMetadata(stream, { cacheControl: 9 }, { expectedRevision: 0n });
    expect((await subject.client.getStreamMetadata(stream)).metadata).toEqual({ cacheControl: 9 });
    const kept = await all(subject.client.readStream(`$$${stream}`));
    expect(kept.map((one) => one.event!.revision)).toEqual([1n]);
    const wrong = await errorOf(subject.client.setStreamMetadata(stream, {}, { expectedRevision: 0n }));
    expect(wrong).toBeInstanceOf(WrongExpectedVersionError);
    expect(await errorOf(read(stream))).toBeInstanceOf(StreamNotFoundError);
  });

  it('hides what is before $tb, beyond $maxCount and older than $maxAge', async () => {
    const stream = await streamOf(0, 1, 2, 3, 4);
    await subject.client.setStreamMetadata(stream, { truncateBefore: 2 });
    expect(await read(stream)).toEqual([2, 3, 4]);
    await subject.client.setStreamMetadata(stream, { maxCount: 2 });
    expect(await read(stream)).toEqual([3, 4]);
    const firstTwo = await all(subject.client.readStream(stream, { fromRevision: 0n, maxCount: 1 }));
    expect(numbers(firstTwo)).toEqual([3]);
    const backwards = await all(
      subject.client.readStream(stream, { direction: BACKWARDS, fromRevision: END }),
    );
    expect(numbers(backwards)).toEqual([4, 3]);
    await subject.client.setStreamMetadata(stream, { truncateBefore: 9 });
    expect(await read(stream)).toEqual([]);
    await subject.client.setStreamMetadata(stream, { maxAge: 3600 });
    expect(await read(stream)).toEqual([0, 1, 2, 3, 4]);
    if (realServer) return;
    const now = Date.now();
    jest.spyOn(Date, 'now').mockReturnValue(now + 3_602_000);
    try {
      expect(await read(stream)).toEqual([]);
      await subject.client.appendToStream(stream, event(5));
      expect(await read(stream)).toEqual([5]);
    } finally {
      jest.restoreAllMocks();
    }
  });

  it('means nothing where it makes no sense, and is kept as it was written', async () => {
    const stream = await streamOf(0, 1);
    const documents = ['{"$maxCount":0}', '{"$tb":"1","$maxAge":-5}', '["$tb"]', '{"$tb":'];
    for (const document of documents) {
      const written = { type: '$metadata', contentType: 'application/json' as const, metadata: undefined };
      await subject.client.appendToStream(`$$${stream}`, {
        ...written,
        id: event(0).id,
        data: document,
      });
      expect(await read(stream)).toEqual([0, 1]);
    }
  });
});
