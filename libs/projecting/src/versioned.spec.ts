import { randomUUID } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { type Counter, OWNER, TestStores, counterProjection, opened, raised, reckon } from '#test/projecting';
import { compareWithFold } from './compare.js';
import type { Projection } from './projection.js';
import { ProjectionRunner } from './runner.js';
import { VersionedProjection, type VersionedOptions } from './versioned.js';
import { Views } from './views.js';

const PATIENCE = 10_000;
const by = 'olga';

let stores: TestStores;
let running: { stop(): Promise<void> }[] = [];

beforeAll(async () => {
  stores = await TestStores.start();
  await stores.vault.person('acme', OWNER, { create: ['run'] });
});
afterEach(async () => {
  for (const each of running) await each.stop();
  running = [];
});
afterAll(() => stores.close());

/** Version 2 notes the note in capitals; version 1 has it as it was. */
function upgraded(name: string, category: string, onRaised?: (id: string) => void): Projection<Counter> {
  const first = counterProjection(name, category);
  const second = counterProjection(name, category, ({ id }) => onRaised?.(id));
  return {
    ...second,
    version: 2,
    fold: {
      ...second.fold,
      CounterOpened: {
        begins: ({ data }) => ({ ...(data as Counter), note: 'A NOTE', total: 0, raised: 0 }),
      },
    },
    previous: { projection: first, expected: (doc) => ({ ...doc, note: doc.note.toLowerCase() }) },
  };
}

function started(projection: Projection<Counter>, options: VersionedOptions = {}) {
  const versioned = new VersionedProjection(projection, stores, options);
  running.push(versioned);
  versioned.start();
  return versioned;
}

/** What version 1 left: a read model from before there were editions. */
async function writtenByVersionOne(name: string, category: string, streams: number): Promise<bigint> {
  const first = new ProjectionRunner(counterProjection(name, category), stores);
  first.start();
  let end = 0n;
  for (let id = 0; id < streams; id += 1)
    end = await stores.append(`${category}-acme.${id}`, opened(), raised(1), raised(2));
  expect(await first.waitFor(end, PATIENCE)).toBe(true);
  await first.stop();
  return end;
}

async function phase(versioned: VersionedProjection<Counter>, rebuildId: string, wanted: string) {
  for (;;) {
    const shown = await versioned.order({ do: 'show', rebuildId });
    if (shown.phase === wanted) return shown;
    if (shown.phase === 'failed') throw new Error('the rebuild failed');
    await turn();
  }
}

const starting = (what: { version?: number; autoSwitch: boolean }) =>
  ({ do: 'start', rebuildId: randomUUID(), by, ...what }) as const;
const names = async (name: string) => {
  const positions = await stores.models.openReadModel(name).collection('positions').find().toArray();
  return positions.map(({ _id }): unknown => _id).sort();
};
const notes = async (projection: Projection<Counter>) => {
  const { items } = await new Views(projection, stores).page('acme', [], { limit: 200 });
  return new Set(items.map(({ doc }) => doc.note));
};

describe('a new version', () => {
  it('is built beside the live one, compared, switched, rolled back and dropped', async () => {
    const projection = upgraded('grown', 'grown');
    await writtenByVersionOne('grown', 'grown', 20);
    const versioned = started(projection);
    const views = new Views(projection, stores);
    expect(await notes(projection)).toEqual(new Set(['a note']));
    const { rebuildId } = await versioned.order(starting({ autoSwitch: false }));
    const end = await stores.append('grown-acme.0', raised(3));
    expect(await versioned.waitFor(end, PATIENCE)).toBe(true);
    const ready = await phase(versioned, rebuildId, 'ready');
    expect(ready).toMatchObject({ version: 2, edition: 'v2-1', percent: 100, etaSeconds: 0, startedBy: by });
    expect(ready.comparison).toEqual({
      compared: 20,
      missing: 0,
      extra: 0,
      differing: 0,
      expected: 20,
      examples: [],
    });
    expect(await notes(projection)).toEqual(new Set(['a note']));
    await versioned.order({ do: 'switch', rebuildId, by });
    expect(versioned.status()).toMatchObject({ version: 2, status: 'live' });
    expect(await notes(projection)).toEqual(new Set(['A NOTE']));
    const later = await stores.append('grown-acme.0', raised(4));
    expect(await versioned.waitFor(later, PATIENCE)).toBe(true);
    expect(await compareWithFold(projection, stores, 'v2-1')).toMatchObject({ compared: 20, differing: [] });
    expect(await versioned.order({ do: 'rollback', by })).toMatchObject({ phase: 'rolled-back' });
    expect(await notes(projection)).toEqual(new Set(['a note']));
    expect(await views.fresh('acme', '0')).toMatchObject({
      revision: 4n,
      doc: { note: 'a note', ...reckon([1, 2, 3, 4].map(raised)) },
    });
    await versioned.stop();
    expect(await names('grown')).toEqual(['v1', 'v2-1']);
    expect(stores.told.filter(({ text }) => text === 'readers are given another version')).toHaveLength(2);
  });

  it('goes on where it was after a stop anywhere, and reads are never empty or mixed', async () => {
    const projection = upgraded('stopped', 'stopped');
    await writtenByVersionOne('stopped', 'stopped', 30);
    let versioned = started(projection);
    const order = starting({ autoSwitch: true });
    await versioned.waitFor(1n, PATIENCE);
    const { rebuildId } = await versioned.order(order);
    await versioned.order({ do: 'throttle', rebuildId, eventsPerSecond: 1_000, by });
    const seen: unknown[] = [];
    let end = 0n;
    let raises = 0;
    for (let restart = 0; restart < 6; restart += 1) {
      end = await stores.append('stopped-acme.7', raised(restart));
      raises += 1;
      await versioned.stop();
      versioned = started(projection);
      await versioned.waitFor(1n, PATIENCE);
      seen.push(await notes(projection));
      expect(await versioned.order(order)).toMatchObject({ rebuildId, edition: 'v2-1' });
    }
    await phase(versioned, rebuildId, 'switched');
    for (const each of seen) expect([new Set(['a note']), new Set(['A NOTE'])]).toContainEqual(each);
    expect(await versioned.waitFor(end, PATIENCE)).toBe(true);
    expect(await compareWithFold(projection, stores, 'v2-1')).toEqual({
      compared: 30,
      missing: [],
      extra: [],
      differing: [],
    });
    expect((await new Views(projection, stores).fresh('acme', '7'))?.doc.raised).toBe(2 + raises);
  });

  it('fails alone: the live one goes on, keeps its own dead letters, and a set number ends the build', async () => {
    const projection = upgraded('failing', 'failing', (id) => {
      if (Number(id) < 3) throw new RangeError('MARKER');
    });
    await writtenByVersionOne('failing', 'failing', 6);
    const versioned = started(projection, { mostDeadLetters: 2 });
    await versioned.waitFor(1n, PATIENCE);
    const { rebuildId } = await versioned.order(starting({ autoSwitch: true }));
    expect(await phase(versioned, rebuildId, 'failed')).toMatchObject({ code: 'too-many-dead-letters' });
    const end = await stores.append('failing-acme.0', raised(3));
    expect(await versioned.waitFor(end, PATIENCE)).toBe(true);
    expect(versioned.status()).toMatchObject({ version: 1, status: 'live', deadLetters: 0 });
    expect(await names('failing')).toEqual(['v1']);
  });

  it('that differs is not switched to but for a reason that is recorded', async () => {
    const projection = upgraded('differs', 'differs', (id) => {
      if (id === '1') throw new RangeError('MARKER');
    });
    await writtenByVersionOne('differs', 'differs', 3);
    const documents = stores.models.openReadModel('differs').collection<{ _id: string }>('documents-v1');
    await documents.updateOne({ _id: 'acme.2' }, { $set: { total: 99 } });
    const versioned = started(projection);
    await versioned.waitFor(1n, PATIENCE);
    const { rebuildId } = await versioned.order(starting({ autoSwitch: true }));
    expect((await phase(versioned, rebuildId, 'differs')).comparison).toEqual({
      compared: 3,
      missing: 0,
      extra: 0,
      differing: 2,
      expected: 1,
      examples: [
        { id: 'acme.1', kind: 'differing', fields: ['revision'] },
        { id: 'acme.2', kind: 'differing', fields: ['total'] },
      ],
    });
    const refused = versioned.order({ do: 'switch', rebuildId, by });
    await expect(refused).rejects.toMatchObject({ code: 'comparison-not-clean' });
    const switched = await versioned.order({ do: 'switch', rebuildId, by, reason: 'known damage' });
    expect(switched).toMatchObject({ phase: 'switched', override: { by, reason: 'known damage' } });
    expect(await notes(projection)).toEqual(new Set(['A NOTE']));
  });

  it('is paused, resumed, cannot be built twice, and leaves nothing when it is aborted', async () => {
    const projection = upgraded('steered', 'steered');
    await writtenByVersionOne('steered', 'steered', 4);
    const versioned = started(projection);
    await versioned.waitFor(1n, PATIENCE);
    const first = starting({ autoSwitch: false });
    const { rebuildId } = await versioned.order(first);
    const again = versioned.order(starting({ autoSwitch: false }));
    await expect(again).rejects.toMatchObject({ code: 'rebuild-running' });
    expect(await versioned.order(first)).toMatchObject({ rebuildId, edition: 'v2-1' });
    await phase(versioned, rebuildId, 'ready');
    await expect(versioned.order({ do: 'pause', rebuildId, by })).rejects.toMatchObject({
      code: 'rebuild-state',
    });
    expect(await versioned.order({ do: 'abort', rebuildId, by })).toMatchObject({ phase: 'aborted' });
    expect(await versioned.order(first)).toMatchObject({ phase: 'aborted' });
    expect(await names('steered')).toEqual(['v1']);
    // Ordered before the build can have got anywhere: orders are carried out one after the other.
    const next = starting({ autoSwitch: false });
    const begun = versioned.order(next);
    const paused = versioned.order({ do: 'pause', rebuildId: next.rebuildId, by });
    expect(await begun).toMatchObject({ phase: 'building' });
    expect(await paused).toMatchObject({ phase: 'paused' });
    await stores.append('steered-acme.0', raised(3));
    expect(await versioned.order({ do: 'show', rebuildId: next.rebuildId })).toMatchObject({
      phase: 'paused',
    });
    await versioned.order({ do: 'resume', rebuildId: next.rebuildId, by });
    expect(await phase(versioned, next.rebuildId, 'ready')).toMatchObject({ edition: 'v2-2' });
    const unknown = versioned.order(starting({ version: 9, autoSwitch: false }));
    await expect(unknown).rejects.toMatchObject({ code: 'version-not-shipped' });
  });

  it('is the live one at once where nothing was there, and is built afresh on demand', async () => {
    const projection = upgraded('fresh', 'fresh');
    const end = await stores.append('fresh-acme.0', opened(), raised(1));
    const versioned = started(projection, { keptMs: 1 });
    expect(await versioned.waitFor(end, PATIENCE)).toBe(true);
    expect(await notes(projection)).toEqual(new Set(['A NOTE']));
    const { rebuildId } = await versioned.order(starting({ autoSwitch: true }));
    await phase(versioned, rebuildId, 'switched');
    await versioned.stop();
    await started(projection).waitFor(end, PATIENCE);
    expect(await notes(projection)).toEqual(new Set(['A NOTE']));
    expect(await names('fresh')).toContain('v2-1');
  });

  it('makes an older build stand back: its readers have the version kept beside it', async () => {
    const projection = upgraded('older', 'older');
    const older = counterProjection('older', 'older');
    const end = await writtenByVersionOne('older', 'older', 2);
    const versioned = started(projection);
    await versioned.waitFor(1n, PATIENCE);
    const { rebuildId } = await versioned.order(starting({ autoSwitch: true }));
    await phase(versioned, rebuildId, 'switched');
    const old = started(older);
    expect(await old.waitFor(end, PATIENCE)).toBe(true);
    expect(old.status()).toMatchObject({ version: 1, status: 'standing-back' });
    expect(await notes(older)).toEqual(new Set(['a note']));
    const order = old.order(starting({ autoSwitch: false }));
    await expect(order).rejects.toMatchObject({ code: 'rebuild-not-possible' });
  });
});
