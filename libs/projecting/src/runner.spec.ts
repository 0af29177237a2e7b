import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import {
  OWNER,
  type RawEvent,
  TestStores,
  counterProjection,
  opened,
  raised,
  reckon,
  seen,
} from '#test/projecting';
import { compareWithFold } from './compare.js';
import type { Recorded } from './projection.js';
import { ReadModelUnavailable } from './read-models.js';
import { ProjectionRunner } from './runner.js';
import type { Stores } from './stores.js';
import { Views } from './views.js';

const CLEAN = { missing: [], extra: [], differing: [] };
const PATIENCE = 5_000;

let stores: TestStores;
let runners: { stop(): Promise<void> }[] = [];

beforeAll(async () => {
  stores = await TestStores.start();
  await stores.vault.person('acme', OWNER, { create: ['run'] });
});
afterEach(async () => {
  for (const runner of runners) await runner.stop();
  runners = [];
});
afterAll(() => stores.close());

function started(projection: ReturnType<typeof counterProjection>, among: Stores = stores) {
  const runner = new ProjectionRunner(projection, among);
  runners.push(runner);
  runner.start();
  return runner;
}

const database = (name: string) => stores.models.openReadModel(name);
const docs = async (projection: ReturnType<typeof counterProjection>, tenant = 'acme') => {
  const { items } = await new Views(projection, stores).page(tenant, [], { limit: 200 });
  return new Map(items.map((view) => [view.id, view]));
};

describe('the lane of a projection', () => {
  it('keeps a document for each stream, with personal fields sealed and searched ones hashed', async () => {
    const projection = counterProjection('two-subjects', 'counta');
    const runner = started(projection);
    await stores.append('counta-acme.ann', opened('MARKER ann'), raised(1), seen);
    const end = await stores.append('counta-other.ben', opened('MARKER ben'), raised(2), raised(3));
    await stores.vault.person('other', OWNER, { create: ['run'] });
    expect(await runner.waitFor(end, PATIENCE)).toBe(true);
    expect((await docs(projection)).get('ann')).toMatchObject({
      revision: 2n,
      doc: { customerId: OWNER, note: 'MARKER ann', total: 1, raised: 1 },
    });
    expect((await docs(projection, 'other')).get('ben')).toMatchObject({
      revision: 2n,
      doc: { note: 'MARKER ben', total: 9, raised: 2 },
    });
    const stored = await database('two-subjects').collection('documents-v1').find().toArray();
    expect(
      JSON.stringify(stored, (_, value: unknown) => (typeof value === 'bigint' ? `${value}` : value)),
    ).not.toContain('MARKER');
    expect(stored.map(({ _id, search }): unknown[] => [_id, search])).toEqual([
      ['acme.ann', { note: (await stores.vault.tenant('acme')).hmac('search', 'MARKER ann') }],
      ['other.ben', { note: (await stores.vault.tenant('other')).hmac('search', 'MARKER ben') }],
    ]);
  });

  it('stops anywhere, resumes, is told twice, shares with a second writer, and equals the plain fold', async () => {
    let run = 0;
    const step = fc.oneof(
      {
        weight: 6,
        arbitrary: fc.record({ stream: fc.nat(3), by: fc.array(fc.nat(9), { minLength: 1, maxLength: 4 }) }),
      },
      { weight: 2, arbitrary: fc.constantFrom('stop' as const, 'second' as const) },
      { weight: 1, arbitrary: fc.constant('twice' as const) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 14 }), async (steps) => {
        run += 1;
        const letter = String.fromCharCode(97 + run);
        const projection = counterProjection(`histories-${run}`, `hist${letter}`);
        const written = new Map<string, RawEvent[]>();
        let runner = started(projection);
        let end = 0n;
        for (const next of steps) {
          if (next === 'second') started(projection);
          else if (next === 'stop') {
            await runner.stop();
            runner = started(projection);
          } else if (next === 'twice') {
            await runner.waitFor(end, PATIENCE);
            await runner.stop();
            const positions = database(`histories-${run}`).collection<{ _id: string }>('positions');
            await positions.updateOne({ _id: 'v1' }, { $set: { position: null } });
            runner = started(projection);
          } else {
            const stream = `hist${letter}-acme.${next.stream}`;
            const before = written.get(stream) ?? [];
            const events = [...(before.length === 0 ? [opened()] : []), ...next.by.map(raised)];
            written.set(stream, [...before, ...events]);
            end = await stores.append(stream, ...events);
          }
        }
        expect(await runner.waitFor(end, PATIENCE)).toBe(true);
        const views = await docs(projection);
        for (const [stream, events] of written)
          expect(views.get(stream.split('.')[1]!)?.doc).toMatchObject(reckon(events));
        expect(await compareWithFold(projection, stores)).toEqual({ ...CLEAN, compared: written.size });
        for (const each of runners) await each.stop();
        runners = [];
      }),
      { numRuns: 4 },
    );
  });

  it('P61: applies every revision of a stream once and in order, however slow a step is', async () => {
    const applied = new Map<string, bigint[]>();
    const projection = counterProjection('slow-steps', 'slow', ({ id, revision }) =>
      applied.set(id, [...(applied.get(id) ?? []), revision]),
    );
    const log = {
      ...bound(stores),
      open: async (event: Recorded) => {
        for (let turns = Math.floor(Math.random() * 20); turns > 0; turns -= 1) await turn();
        return event;
      },
    };
    const runner = started(projection, among(log));
    let end = 0n;
    for (let round = 0; round < 5; round += 1)
      for (let id = 0; id < 20; id += 1)
        end = await stores.append(
          `slow-acme.${id}`,
          ...(round === 0 ? [opened()] : [raised(1)]),
          ...Array.from({ length: 4 }, () => raised(1)),
        );
    expect(await runner.waitFor(end, PATIENCE)).toBe(true);
    const all = Array.from({ length: 24 }, (_, index) => BigInt(index + 1));
    expect([...applied.values()]).toEqual(Array.from({ length: 20 }, () => all));
  });

  it('moves on past events of others, and says so to whoever waits', async () => {
    const runner = started(counterProjection('quiet', 'quiet'));
    const foreign = await stores.append('foreign-acme.1', { type: 'Foreign', data: {} });
    expect(await runner.waitFor(foreign, PATIENCE)).toBe(true);
    while (runner.status().status !== 'live') {
      const last = await stores.append('foreign-acme.1', { type: 'Foreign', data: {} });
      expect(await runner.waitFor(last, PATIENCE)).toBe(true);
    }
    expect(runner.status()).toMatchObject({ lagEvents: 0, lagSeconds: 0, events: 0 });
    expect(await runner.waitFor(foreign + 1_000_000n, 1)).toBe(false);
    await runner.stop();
    const positions = database('quiet').collection('positions');
    expect(await positions.findOne()).toMatchObject({ version: 1, position: runner.status().position });
  });

  it('makes a document that cannot be opened again from its stream', async () => {
    const projection = counterProjection('altered', 'altered');
    const first = await stores.append('altered-acme.1', opened(), raised(1), raised(2));
    const runner = started(projection);
    expect(await runner.waitFor(first, PATIENCE)).toBe(true);
    await runner.stop();
    const documents = database('altered').collection<{ _id: string }>('documents-v1');
    await documents.updateOne({ _id: 'acme.1' }, { $set: { 'note.box': 'AAAA', total: 99 } });
    const last = await stores.append('altered-acme.1', raised(3));
    expect(await new Views(projection, stores).fresh('acme', '1')).toMatchObject({
      revision: 3n,
      doc: { note: 'a note', ...reckon([1, 2, 3].map(raised)) },
    });
    expect(await started(projection).waitFor(last, PATIENCE)).toBe(true);
    expect(await compareWithFold(projection, stores)).toEqual({ ...CLEAN, compared: 1 });
    expect(stores.told.map(({ text }) => text)).toContain(
      'a document that cannot be opened is made again from its stream',
    );
  });

  it('shows a document as of every revision, whichever is stored', async () => {
    const projection = counterProjection('dated', 'dated');
    const views = new Views(projection, stores);
    await stores.append('dated-acme.1', opened(), raised(1));
    const end = await stores.append('dated-acme.1', raised(2));
    const asOf = (revision: bigint) => views.fresh('acme', '1', revision);
    const totals = async () =>
      (await Promise.all([0n, 1n, 2n, 3n].map(asOf))).map((view) => [view?.revision, view?.doc.total]);
    const expected = [0, 1, 2, 2].map((last) => {
      const { total } = reckon([1, 2].slice(0, last).map(raised));
      return [BigInt(last), total];
    });
    expect(await totals()).toEqual(expected);
    expect(await started(projection).waitFor(end, PATIENCE)).toBe(true);
    expect(await totals()).toEqual(expected);
  });

  it('P70: refuses to run without its unique index', async () => {
    await database('no-index').collection('documents-v1').createIndex({ tenant: 1, id: 1 });
    const stalls = stores.tells('a projection stalls');
    const runner = started(counterProjection('no-index', 'noindex'));
    expect(await stalls).toMatchObject({ projection: 'no-index' });
    expect(runner.status()).toMatchObject({ status: 'stalled', position: 0n });
  });
});

describe('an event that cannot be applied', () => {
  const failing = new Set<string>();
  const projection = counterProjection('poisoned', 'poison', ({ id, data }) => {
    if (failing.has(id) && data['by' as never] === 13) throw new TypeError('MARKER thirteen');
  });
  const letters = () => database('poisoned').collection('dead-letters').find().sort({ stream: 1 }).toArray();

  it('P83: holds its own stream only, whether it throws now or later, and is counted', async () => {
    failing.add('sync');
    const log = {
      ...bound(stores),
      open: async (event: Recorded) => {
        await turn();
        if (event.id === 'async' && event.revision === 1n) throw new RangeError('MARKER later');
        return event;
      },
    };
    const runner = started(projection, among(log));
    await stores.append('poison-acme.sync', opened(), raised(1), raised(13), raised(2));
    await stores.append('poison-acme.async', opened(), raised(13), raised(2));
    await stores.append('poison-acme.unknown', opened(), { type: 'CounterBurnt', data: {} }, raised(2));
    await stores.append('poison-acme.newer', opened(), { ...raised(1), schemaVersion: 2 }, raised(2));
    await stores.append('poison-acme.passed', opened(), { type: '$others', data: {} }, raised(2));
    await stores.append('poison-acme.headless', raised(1), raised(2));
    const end = await stores.append('poison-acme.healthy', opened(), raised(13), raised(2));
    expect(await runner.waitFor(end, PATIENCE)).toBe(true);
    const more = await stores.append('poison-acme.sync', raised(3));
    expect(await runner.waitFor(more, PATIENCE)).toBe(true);
    expect(runner.status()).toMatchObject({ deadLetters: 5, lagEvents: 0 });
    const views = await docs(projection);
    expect([...views].map(([id, { revision, doc }]) => [id, revision, doc.total]).sort()).toEqual([
      ['async', 0n, 0],
      ['healthy', 2n, 41],
      ['newer', 0n, 0],
      ['passed', 2n, 2],
      ['sync', 1n, 1],
      ['unknown', 0n, 0],
    ]);
  });

  it('is stored as a place and a code, never content', async () => {
    const stored = await letters();
    expect(
      stored.map(({ id, revision, code, attempts }): unknown[] => [id, revision, code, attempts]),
    ).toEqual([
      ['async', 1n, 'range-error', 1],
      ['headless', 0n, 'no-document', 1],
      ['newer', 1n, 'unknown-schema-version', 1],
      ['sync', 2n, 'type-error', 1],
      ['unknown', 1n, 'unknown-event-type', 1],
    ]);
    expect(Object.keys(stored[3]!).sort()).toEqual(
      [
        '_id',
        'attempts',
        'code',
        'eventId',
        'failedAt',
        'id',
        'revision',
        'stream',
        'tenant',
        'version',
      ].sort(),
    );
  });

  it('is tried again at the next start, and what waited follows in order', async () => {
    failing.clear();
    const runner = started(projection);
    const end = await stores.append('poison-acme.sync', raised(4));
    expect(await runner.waitFor(end, PATIENCE)).toBe(true);
    const views = await docs(projection);
    const history = [1, 13, 2, 3, 4].map(raised);
    expect(views.get('sync')).toMatchObject({ revision: 5n, doc: reckon(history) });
    expect(views.get('async')).toMatchObject({ revision: 2n, doc: reckon([13, 2].map(raised)) });
    expect((await letters()).map(({ id, attempts }): unknown[] => [id, attempts])).toEqual([
      ['headless', 2],
      ['newer', 2],
      ['unknown', 2],
    ]);
    expect(await compareWithFold(projection, stores)).toEqual({ ...CLEAN, compared: 6 });
  });
});

describe('without the document store', () => {
  it('stalls, recovers by itself, and loses and doubles nothing', async () => {
    const projection = counterProjection('interrupted', 'interr');
    const runner = started(projection);
    const first = await stores.append('interr-acme.1', opened(), raised(1));
    expect(await runner.waitFor(first, PATIENCE)).toBe(true);
    const stalls = stores.tells('a projection stalls');
    await stores.stopDocuments();
    const end = await stores.append('interr-acme.1', raised(2), raised(3));
    expect(await stalls).toMatchObject({ projection: 'interrupted', code: 'read-model-unavailable' });
    expect(runner.status()).toMatchObject({ status: 'stalled', position: first });
    expect(runner.status().lagSeconds).toBeGreaterThan(0);
    const view = await new Views(projection, stores).fresh('acme', '1');
    expect(view).toMatchObject({ revision: 3n, doc: reckon([1, 2, 3].map(raised)) });
    const page = () => new Views(projection, stores).page('acme', [], { limit: 1 });
    const asked = performance.now();
    await expect(page()).rejects.toThrow(ReadModelUnavailable);
    expect(performance.now() - asked).toBeLessThan(1_000);
    await stores.startDocumentsAgain();
    expect(await runner.waitFor(end, 10_000)).toBe(true);
    expect((await docs(projection)).get('1')).toMatchObject({
      revision: 3n,
      doc: reckon([1, 2, 3].map(raised)),
    });
  });
});

/** The stores with another log. */
function among(log: Stores['log']): Stores {
  const { vault, models, notice } = stores;
  return { log, vault, models, notice };
}

/** The log of the stores as an object whose methods can be replaced one by one. */
function bound({ log }: Stores): Stores['log'] {
  return {
    read: (stream, range) => log.read(stream, range),
    open: (event) => log.open(event),
    subscribe: (options) => log.subscribe(options),
    silentThrough: (options) => log.silentThrough(options),
    head: () => log.head(),
  };
}
