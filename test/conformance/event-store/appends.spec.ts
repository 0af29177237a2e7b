import {
  ANY,
  type AppendExpectedRevision,
  NO_STREAM,
  STREAM_EXISTS,
  StreamDeletedError,
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
  startSubject,
} from './subject.js';

let subject: Subject;
beforeAll(async () => {
  subject = await startSubject();
});
afterAll(() => subject.stop());

type Outcome = bigint | 'wrong' | 'deleted';

describe.each(appendPaths)('$path', ({ options }) => {
  const append = (
    stream: string,
    sent: ReturnType<typeof events>,
    expectedRevision: AppendExpectedRevision = ANY,
  ) => subject.client.appendToStream(stream, sent, { ...options, expectedRevision });

  async function outcomeOf(stream: string, expectedRevision: AppendExpectedRevision): Promise<Outcome> {
    try {
      return (await append(stream, events(9), expectedRevision)).nextExpectedRevision;
    } catch (error) {
      if (error instanceof WrongExpectedVersionError) return 'wrong';
      if (error instanceof StreamDeletedError) return 'deleted';
      throw error;
    }
  }

  const situations: Record<string, (stream: string) => Promise<unknown>> = {
    'never written': () => Promise.resolve(),
    'only metadata written': (stream) => subject.client.setStreamMetadata(stream, { owner: 'x' }),
    'last revision 2': (stream) => append(stream, events(0, 1, 2)),
    'soft-deleted at 2': async (stream) => {
      await append(stream, events(0, 1, 2));
      await subject.client.deleteStream(stream);
    },
    tombstoned: async (stream) => {
      await append(stream, events(0, 1, 2));
      await subject.client.tombstoneStream(stream);
    },
  };

  const expectations: AppendExpectedRevision[] = [ANY, NO_STREAM, STREAM_EXISTS, 2n, 3n, 1n];
  const table: Record<string, Outcome[]> = {
    'never written': [0n, 0n, 'wrong', 'wrong', 'wrong', 'wrong'],
    'only metadata written': [0n, 0n, 0n, 'wrong', 'wrong', 'wrong'],
    'last revision 2': [3n, 'wrong', 3n, 3n, 'wrong', 'wrong'],
    'soft-deleted at 2': [3n, 3n, 'deleted', 3n, 'wrong', 'wrong'],
    tombstoned: ['deleted', 'deleted', 'deleted', 'deleted', 'deleted', 'deleted'],
  };

  it.each(Object.keys(situations))('answers each expected revision: %s', async (situation) => {
    const outcomes = await Promise.all(
      expectations.map(async (expected) => {
        const stream = newStream();
        await situations[situation]?.(stream);
        return outcomeOf(stream, expected);
      }),
    );
    expect(outcomes).toEqual(table[situation]);
  });

  it('tells the expected and the actual revision', async () => {
    const stream = newStream();
    await append(stream, events(0, 1));
    expect(await errorOf(append(stream, events(2), 7n))).toMatchObject({
      streamName: stream,
      expectedVersion: 7n,
      actualVersion: 1n,
    });
    expect(await errorOf(append(newStream(), events(2), 7n))).toMatchObject({ actualVersion: 'no_stream' });
    expect(await errorOf(append(newStream(), events(2), STREAM_EXISTS))).toMatchObject({
      expectedVersion: 'stream_exists',
    });
  });

  it('answers an append sent again with what it answered first', async () => {
    const stream = newStream();
    const sent = events(0, 1, 2);
    const first = await append(stream, sent, NO_STREAM);
    await append(stream, events(3, 4), 2n);
    const again = await append(stream, sent, NO_STREAM);
    expect(again).toEqual(first);
    const prefix = await append(stream, sent.slice(0, 2), NO_STREAM);
    expect(prefix.nextExpectedRevision).toBe(1n);
    const tail = await append(stream, sent.slice(1), 0n);
    expect(tail).toEqual(first);
    expect(await append(stream, sent, ANY)).toEqual(first);
    expect(await append(stream, sent, STREAM_EXISTS)).toEqual(first);
    expect(await all(subject.client.readStream(stream))).toHaveLength(5);
  });

  type Change = (sent: ReturnType<typeof events>) => ReturnType<typeof events>;
  it.each<[string, Change, AppendExpectedRevision]>([
    ['extended', (sent) => [...sent, event(9)], NO_STREAM],
    ['reordered', (sent) => [...sent].reverse(), NO_STREAM],
    ['with another event first', (sent) => [event(9), ...sent], NO_STREAM],
    ['extended, at any revision', (sent) => [...sent, event(9)], ANY],
  ])('refuses a re-send that is %s', async (_name, change, expected) => {
    const stream = newStream();
    const sent = events(0, 1);
    await append(stream, sent, NO_STREAM);
    expect(await errorOf(append(stream, change(sent), expected))).toMatchObject({
      type: 'wrong-expected-version',
      actualVersion: 1n,
    });
    expect(await all(subject.client.readStream(stream))).toHaveLength(2);
  });

  it('writes known ids again when the expected revision is the last one', async () => {
    const stream = newStream();
    const sent = events(0, 1);
    await append(stream, sent, NO_STREAM);
    expect((await append(stream, sent, 1n)).nextExpectedRevision).toBe(3n);
  });

  it('recognises a re-send while the first is still in flight', async () => {
    const stream = newStream();
    const sent = events(0, 1);
    const [first, again] = await Promise.all([
      append(stream, sent, NO_STREAM),
      append(stream, sent, NO_STREAM),
    ]);
    expect(again).toEqual(first);
    expect(await all(subject.client.readStream(stream))).toHaveLength(2);
  });
});
