import {
  BACKWARDS,
  END,
  DeadlineExceededError,
  EventStoreDBClient,
  MaxAppendSizeExceededError,
  NO_STREAM,
  UnknownError,
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

const MIB = 1024 * 1024;
const range = (length: number): number[] => Array.from({ length }, (_, n) => n);

describe.each(appendPaths)('$path', ({ options }) => {
  it('takes an append of exactly the maximum size, and not a byte more', async () => {
    const type = 'sized';
    const overhead = 2 * type.length + JSON.stringify({ text: '' }).length;
    const sized = (bytes: number) => jsonEvent({ type, data: { text: 'x'.repeat(bytes - overhead) } });
    const stream = newStream();
    await subject.client.appendToStream(stream, sized(MIB), options);
    const error = await errorOf(subject.client.appendToStream(stream, sized(MIB + 1), options));
    expect(error).toBeInstanceOf(MaxAppendSizeExceededError);
    expect(error).toMatchObject({ maxAppendSize: MIB });
    const halves = [sized(MIB / 2), sized(MIB / 2 + 1)];
    expect(await errorOf(subject.client.appendToStream(stream, halves, options))).toBeInstanceOf(
      MaxAppendSizeExceededError,
    );
    expect(await all(subject.client.readStream(stream))).toHaveLength(1);
  });

  it('refuses what arrives after its deadline, writing nothing', async () => {
    const stream = newStream();
    const many = range(1000).map((n) => event(n));
    const late = subject.client.appendToStream(stream, many, { ...options, deadline: 1 });
    expect(await errorOf(late)).toBeInstanceOf(DeadlineExceededError);
  });

  it('refuses an event without a type', async () => {
    const stream = newStream();
    const error = await errorOf(subject.client.appendToStream(stream, [{ ...event(1), type: '' }], options));
    expect(error).toBeInstanceOf(UnknownError);
    expect(String(error)).toContain('event type must not be empty');
  });

  it('takes an empty append for a question about the revision', async () => {
    const stream = newStream();
    const none = await subject.client.appendToStream(stream, [], { ...options, expectedRevision: NO_STREAM });
    expect(none.success).toBe(true);
    await subject.client.appendToStream(stream, events(0, 1), options);
    const two = await subject.client.appendToStream(stream, [], { ...options, expectedRevision: 1n });
    expect(two.nextExpectedRevision).toBe(1n);
    const wrong = subject.client.appendToStream(stream, [], { ...options, expectedRevision: 0n });
    expect(await errorOf(wrong)).toMatchObject({ type: 'wrong-expected-version', actualVersion: 1n });
    expect(await all(subject.client.readStream(stream))).toHaveLength(2);
  });

  it('tells a wrong revision as an answer where the client asks for that', async () => {
    const stream = newStream();
    await subject.client.appendToStream(stream, events(0, 1), options);
    const client = EventStoreDBClient.connectionString(`${subject.url}&throwOnAppendFailure=false`);
    const answer = await client.appendToStream(stream, event(2), { ...options, expectedRevision: 7n });
    expect(answer.success).toBe(false);
    await client.dispose();
  });
});

it('puts an append together from many chunks', async () => {
  const stream = newStream();
  const sent = range(2000).map((n) => jsonEvent({ type: 'chunked', data: { n, text: 'x'.repeat(100) } }));
  const answer = await subject.client.appendToStream(stream, sent, { batchAppendSize: 1024 });
  expect(answer.nextExpectedRevision).toBe(1999n);
  const read = await all(subject.client.readStream(stream));
  expect(read.map((one) => one.event!.id)).toEqual(sent.map(({ id }) => id));
});

it('answers 10,000 appends sent at once', async () => {
  const [one, text] = [newStream('flood'), 'x'.repeat(1000)];
  const patient = { deadline: 60_000 };
  const answers = await Promise.all(
    range(10_000).map((n) => {
      const stream = n % 10 === 0 ? one : `${one}-${n % 97}`;
      return subject.client.appendToStream(stream, jsonEvent({ type: 'f', data: { n, text } }), patient);
    }),
  );
  expect(new Set(answers.map(({ position }) => position!.commit)).size).toBe(10_000);
  const last = subject.client.readStream(one, { direction: BACKWARDS, fromRevision: END, maxCount: 1 });
  expect(await all(last)).toMatchObject([{ event: { revision: 999n } }]);
}, 60_000);

it('subscribes and appends 80 times in quick succession', async () => {
  const heard = await Promise.all(
    range(80).map(async (n) => {
      const stream = newStream('quick');
      await subject.client.appendToStream(stream, event(n));
      const subscription = subject.client.subscribeToStream(stream);
      for await (const one of subscription) return (one.event!.data as { n: number }).n;
      return undefined;
    }),
  );
  expect(heard).toEqual(range(80));
});
