import {
  type AppendExpectedRevision,
  type EventData,
  type EventStoreDBClient,
  type ExpectedRevision,
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

/** One stream as the reference describes it, in the plainest terms. */
class Model {
  private readonly ids: string[] = [];
  private readonly metadata: { truncateBefore?: number; maxCount?: number }[] = [];
  private tombstoned = false;
  private softDeleted = false;

  private get last(): number {
    return this.ids.length - 1;
  }

  append(expected: AppendExpectedRevision, ids: string[]): Outcome {
    const verdict = this.judge(expected, ids);
    if (verdict !== 'write') return verdict;
    if (this.softDeleted) this.revive({}, this.ids.length);
    this.ids.push(...ids);
    return String(this.last);
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
    const { truncateBefore = 0, maxCount = Infinity } = this.metadata.at(-1) ?? {};
    const first = Math.max(truncateBefore, this.ids.length - maxCount, 0);
    return this.ids.slice(first).join();
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
  | { do: 'metadata'; document: { truncateBefore?: number; maxCount?: number } };

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
  next: Operation,
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

function predict(model: Model, pool: EventData[], next: Operation): Outcome {
  if (next.do === 'append')
    return model.append(
      next.expected,
      next.ids.map((id) => pool[id]!.id),
    );
  if (next.do === 'metadata') return model.setMetadata(next.document);
  const expected = next.expected as ExpectedRevision;
  return next.do === 'delete' ? model.delete(expected) : model.tombstone(expected);
}

it('does to a stream what the reference says, whatever is asked of it in whatever order', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 14 }), async (operations) => {
      const { client } = subject;
      const stream = newStream('model');
      const pool = Array.from({ length: 10 }, (_, n) => jsonEvent({ type: 'happened', data: { n } }));
      const model = new Model();
      const told: Outcome[] = [];
      const foretold: Outcome[] = [];
      for (const next of operations) {
        told.push(await outcomeOf(perform(client, stream, pool, next)));
        foretold.push(predict(model, pool, next));
        const read = all(client.readStream(stream)).then((events) =>
          events.map((one) => one.event!.id).join(),
        );
        told.push(await outcomeOf(read));
        foretold.push(model.read());
      }
      expect(told).toEqual(foretold);
    }),
    { numRuns: Number(process.env['WAYMARK_MODEL_RUNS'] ?? 25) },
  );
}, 600_000);
