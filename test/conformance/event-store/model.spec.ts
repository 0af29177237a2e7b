import {
  type AppendExpectedRevision,
  type EventData,
  type EventStoreDBClient,
  type ExpectedRevision,
  START,
  type StreamSubscription,
  isCommandError,
  jsonEvent,
} from '@eventstore/db-client';
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { type Subject, all, appendPaths, newStream, startSubject } from './subject.js';

let subject: Subject;
beforeAll(async () => {
  subject = await startSubject();
});
afterAll(() => subject.stop());

/** What a call answered: a revision, the ids that were read, or the kind of its error. */
type Outcome = string;

const WRONG = 'wrong-expected-version';
const DELETED = 'stream-deleted';
const NOT_FOUND = 'stream-not-found';

/** The ids (a tombstone's type) that a subscription was told, and how it ended. */
type Told = string[];

/** One stream as the reference describes it, in the plainest terms. */
class Model {
  private readonly ids: string[] = [];
  private readonly metadata: { truncateBefore?: number; maxCount?: number }[] = [];
  private readonly subscriptions: { told: Told; first: number }[] = [];
  private tombstoned = false;
  private softDeleted = false;

  private get last(): number {
    return this.ids.length - 1;
  }

  append(expected: AppendExpectedRevision, ids: string[]): Outcome {
    const verdict = this.judge(expected, ids);
    if (verdict !== 'write') return verdict;
    if (this.softDeleted) this.revive({}, this.ids.length);
    for (const { told, first } of this.subscriptions)
      told.push(...ids.slice(Math.max(0, first - this.ids.length)));
    this.ids.push(...ids);
    return String(this.last);
  }

  /** Exclusive of `from`; history as readers see it now, then everything. */
  subscribe(from: number | undefined): Told {
    const first = from === undefined ? 0 : from + 1;
    const history = this.softDeleted ? [] : this.ids.slice(Math.max(first, this.firstVisible()));
    const told = this.tombstoned ? [DELETED] : history;
    this.subscriptions.push({ told, first });
    return told;
  }

  delete(expected: ExpectedRevision): Outcome {
    const verdict = this.judge(expected, [randomUUID()]);
    if (verdict !== 'write') return verdict;
    if (this.last < 0 && this.metadata.length === 0) return WRONG;
    this.metadata.push({});
    this.softDeleted = true;
    return 'done';
  }

  tombstone(expected: ExpectedRevision): Outcome {
    const verdict = this.judge(expected, [randomUUID()]);
    if (verdict !== 'write') return verdict;
    this.tombstoned = true;
    for (const { told } of this.subscriptions) told.push('$streamDeleted', DELETED);
    return 'done';
  }

  setMetadata(document: { truncateBefore?: number; maxCount?: number }): Outcome {
    if (this.tombstoned) return DELETED;
    this.metadata.push(document);
    if (this.softDeleted) this.revive(document, this.ids.length);
    return String(this.metadata.length - 1);
  }

  read(): Outcome {
    if (this.tombstoned) return DELETED;
    if (this.last < 0 || this.softDeleted) return NOT_FOUND;
    return this.ids.slice(this.firstVisible()).join();
  }

  private firstVisible(): number {
    const { truncateBefore = 0, maxCount = Infinity } = this.metadata.at(-1) ?? {};
    return Math.max(truncateBefore, this.ids.length - maxCount, 0);
  }

  private revive(document: object, first: number): void {
    this.softDeleted = false;
    this.metadata.push({ ...document, truncateBefore: first });
  }

  private judge(expected: AppendExpectedRevision, ids: string[]): Outcome {
    if (this.tombstoned) return DELETED;
    if (expected === 'stream_exists' && this.softDeleted) return DELETED;
    if (expected === 'stream_exists' && this.last < 0 && this.metadata.length === 0) return WRONG;
    if (expected === 'any' || expected === 'stream_exists') return this.judgeLately(ids);
    const revision = expected === 'no_stream' ? -1 : Number(expected);
    if (revision === this.last) return 'write';
    if (revision > this.last) return WRONG;
    const there = this.ids.slice(revision + 1, revision + 1 + ids.length);
    if (ids.length > 0 && there.join() === ids.join()) return String(revision + ids.length);
    return expected === 'no_stream' && this.softDeleted && there[0] !== ids[0] ? 'write' : WRONG;
  }

  private judgeLately(ids: string[]): Outcome {
    const known = ids.map((id) => this.ids.indexOf(id));
    if (known.length === 0 || known[0] === -1) return 'write';
    return known.includes(-1) ? WRONG : String(known.at(-1));
  }
}

type Operation =
  | { do: 'append'; expected: AppendExpectedRevision; ids: number[]; path: 0 | 1 }
  | { do: 'delete' | 'tombstone'; expected: AppendExpectedRevision }
  | { do: 'metadata'; document: { truncateBefore?: number; maxCount?: number } }
  | { do: 'subscribe'; from: number | undefined };

type Asked = Exclude<Operation, { do: 'subscribe' }>;

const revision = fc.integer({ min: 0, max: 8 }).map(BigInt);
const expectation = fc.oneof(
  fc.constantFrom<AppendExpectedRevision[]>('any', 'any', 'no_stream', 'stream_exists'),
  revision,
);
/** Few ids, so that re-sends whole, in part, extended and reordered come by themselves. */
const ids = fc.oneof(
  fc
    .tuple(fc.nat(5), fc.integer({ min: 1, max: 3 }))
    .map(([from, count]) => Array.from({ length: count }, (_, i) => from + i)),
  fc.uniqueArray(fc.nat(9), { minLength: 1, maxLength: 3 }),
);
const operation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('append' as const),
      expected: expectation,
      ids,
      path: fc.constantFrom(0 as const, 1 as const),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('delete' as const),
      expected: expectation.filter((e) => e !== 'stream_exists'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('tombstone' as const), expected: revision }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('metadata' as const),
      document: fc.record(
        { truncateBefore: fc.nat(6), maxCount: fc.integer({ min: 1, max: 4 }) },
        { requiredKeys: [] },
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('subscribe' as const),
      from: fc.option(fc.nat(6), { nil: undefined }),
    }),
  },
);

async function outcomeOf(promise: Promise<Outcome>): Promise<Outcome> {
  try {
    return await promise;
  } catch (error) {
    if (error instanceof Error && isCommandError(error)) return error.type;
    throw error;
  }
}

async function perform(
  client: EventStoreDBClient,
  stream: string,
  pool: EventData[],
  next: Asked,
): Promise<Outcome> {
  if (next.do === 'append') {
    const sent = next.ids.map((id) => pool[id]!);
    const options = { ...appendPaths[next.path].options, expectedRevision: next.expected };
    return String((await client.appendToStream(stream, sent, options)).nextExpectedRevision);
  }
  if (next.do === 'metadata') {
    await client.setStreamMetadata(stream, next.document);
    const [kept] = await all(client.readStream(`$$${stream}`));
    return String(kept?.event?.revision);
  }
  const expectedRevision = next.expected as ExpectedRevision;
  if (next.do === 'delete') await client.deleteStream(stream, { expectedRevision });
  else await client.tombstoneStream(stream, { expectedRevision });
  return 'done';
}

function predict(model: Model, pool: EventData[], next: Asked): Outcome {
  if (next.do === 'append')
    return model.append(
      next.expected,
      next.ids.map((id) => pool[id]!.id),
    );
  if (next.do === 'metadata') return model.setMetadata(next.document);
  const expected = next.expected as ExpectedRevision;
  return next.do === 'delete' ? model.delete(expected) : model.tombstone(expected);
}

/** A subscription and what it was told. */
class Listener {
  readonly told: Told = [];
  private wanted = '';
  private found = (): void => undefined;
  private readonly subscription: StreamSubscription;

  constructor(client: EventStoreDBClient, stream: string, from: number | undefined) {
    this.subscription = client
      .subscribeToStream(stream, { fromRevision: from === undefined ? START : BigInt(from) })
      .on('data', ({ event }) => this.note(event!.type.startsWith('$') ? event!.type : event!.id))
      .on('error', (error) => this.note(isCommandError(error) ? error.type : error.message));
  }

  /** Resolves when history is told: what is written from here on comes live. */
  live(): Promise<void> {
    return new Promise((resolve) =>
      this.subscription.once('caughtUp', resolve).once('error', () => resolve()),
    );
  }

  hear(last: string | undefined): Promise<void> {
    if (last === undefined || this.told.includes(last)) return Promise.resolve();
    this.wanted = last;
    return new Promise((resolve) => (this.found = resolve));
  }

  stop(): Promise<void> {
    return this.subscription.unsubscribe();
  }

  private note(what: string): void {
    this.told.push(what);
    if (what === this.wanted) this.found();
  }
}

/** One sequence against the store and the model, which must tell the same of every step and to every listener. */
async function play(operations: readonly Operation[]): Promise<void> {
  const { client } = subject;
  const stream = newStream('model');
  const pool = Array.from({ length: 11 }, (_, n) => jsonEvent({ type: 'happened', data: { n } }));
  const model = new Model();
  const [told, foretold]: [Outcome[], Outcome[]] = [[], []];
  const listeners: { listener: Listener; expected: Told }[] = [];
  for (const next of operations) {
    if (next.do === 'subscribe') {
      const listener = new Listener(client, stream, next.from);
      listeners.push({ listener, expected: model.subscribe(next.from) });
      await listener.live();
      continue;
    }
    told.push(await outcomeOf(perform(client, stream, pool, next)));
    foretold.push(predict(model, pool, next));
    const read = all(client.readStream(stream)).then((events) => events.map((one) => one.event!.id).join());
    told.push(await outcomeOf(read));
    foretold.push(model.read());
  }
  const last = pool[10]!;
  told.push(await outcomeOf(client.appendToStream(stream, last).then((a) => String(a.nextExpectedRevision))));
  foretold.push(model.append('any', [last.id]));
  for (const { listener, expected } of listeners) {
    await listener.hear(expected.at(-1));
    await listener.stop();
  }
  expect(told).toEqual(foretold);
  expect(listeners.map(({ listener }) => listener.told)).toEqual(listeners.map(({ expected }) => expected));
}

const RUNS = process.env['WAYMARK_FAULTS'] === 'full' ? 2000 : 25;
const SEED = Number(process.env['WAYMARK_MODEL_SEED'] ?? Date.now() % 2 ** 31);

it('does to a stream what the reference says, whatever is asked of it in whatever order', async () => {
  process.stderr.write(`event store model: ${RUNS} sequences, WAYMARK_MODEL_SEED=${SEED}\n`);
  const sequences = fc.array(operation, { minLength: 1, maxLength: 14 });
  await fc.assert(fc.asyncProperty(sequences, play), { numRuns: RUNS, seed: SEED });
}, 1_800_000);
