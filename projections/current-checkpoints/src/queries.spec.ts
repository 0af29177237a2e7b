import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { changed, digest, people, salted, seconds, standings, tenant } from '#libs/domain/examples';
import { type RunCommand, type RunState, approvalStatus, runStatus, runStream } from '#libs/domain/runs';
import { ProjectionRunner, ReadModelUnavailable, compareWithFold } from '#libs/projecting';
import {
  OWNER,
  TestStores,
  commandOf,
  grantedCommands,
  grantedRun,
  moves,
  send,
  startRun,
  takeLease,
} from '#test/projecting';
import type { Checkpoint } from './document.js';
import { CheckpointQueries } from './queries.js';
import { type PresentedRun, type RunStatus, present } from './present.js';
import { currentCheckpoints } from './projector.js';

const PATIENCE = 5_000;
const viewer = { tenant };
const STATUSES: RunStatus[] = [
  'open',
  'waiting',
  'approved',
  'filing',
  'needs-attention',
  'completed',
  'failed',
  'cancelled',
];

let stores: TestStores;
let queries: CheckpointQueries;
let runner: ProjectionRunner<Checkpoint>;

beforeAll(async () => {
  stores = await TestStores.start();
  queries = new CheckpointQueries(stores);
  runner = started();
});
afterAll(async () => {
  await runner.stop();
  await stores.close();
});

function started(): ProjectionRunner<Checkpoint> {
  const fresh = new ProjectionRunner(currentCheckpoints, stores);
  fresh.start();
  return fresh;
}

async function everyPage(status: RunStatus | undefined, now: string, limit = 3): Promise<PresentedRun[]> {
  const items: PresentedRun[] = [];
  let cursor: string | undefined;
  do {
    const page = await queries.list(viewer, { status }, { limit, cursor }, now);
    items.push(...page.items);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return items;
}

/** What a run's own rules make of its stream, in the words of the view. */
function told(state: RunState, now: string) {
  const steps = [...state.steps.values()];
  const inStatus = (status: string) => steps.filter((step) => step.status === status);
  return {
    status: runStatus(state, now),
    phase: state.phase,
    steps: {
      total: steps.length,
      started: inStatus('started').length,
      completed: inStatus('completed').length,
      failed: inStatus('failed').length,
    },
    drafts: [...state.drafts.values()].map(({ draftVersion, content }) => [draftVersion, content.notice]),
    approvals: [...state.approvals.values()].map((approval) => [
      approval.approvalId,
      approvalStatus(approval, now),
      approval.receipt?.receiptNumber,
    ]),
    workerState: state.workerState && { ...state.workerState, differenceBytes: undefined },
    ended: state.ended?.status,
  };
}

function shown(run: PresentedRun) {
  const { status, phase, steps, drafts, approvals, workerState, ended } = run;
  const { total, started, completed, failed } = steps;
  return {
    status,
    phase,
    steps: { total, started, completed, failed },
    drafts: drafts.map(({ draftVersion, notice }) => [draftVersion, notice]),
    approvals: approvals.map((approval) => [approval.approvalId, approval.status, approval.receiptNumber]),
    workerState,
    ended: ended?.status,
  };
}

describe('current checkpoints of random runs', () => {
  it('equal the plain fold and what the rules say, through stops, in single reads, lists and filters', async () => {
    const all = new Set<string>();
    await fc.assert(
      fc.asyncProperty(moves, fc.nat(20), async (made, stopAt) => {
        const runIds = [randomUUID(), randomUUID(), randomUUID()];
        for (const runId of runIds) {
          all.add(runId);
          await send(stores, runId, startRun(runId));
          await send(stores, runId, takeLease(seconds(1)));
          await send(
            stores,
            runId,
            commandOf({ run: 0, kind: 'SaveDraft', pick: 0, waitSeconds: 0 }, runId, seconds(2)),
          );
        }
        let after = 10;
        for (const [index, move] of made.entries()) {
          after += move.waitSeconds;
          const runId = runIds[move.run]!;
          await send(stores, runId, commandOf(move, runId, seconds(after)));
          if (index !== stopAt) continue;
          await runner.stop();
          runner = started();
        }
        expect(await runner.waitFor(await stores.log.head(), PATIENCE)).toBe(true);
        for (const now of [0, 100, 1_000, 100_000].map((later) => seconds(after + later)))
          for (const runId of runIds) {
            const view = (await queries.run(viewer, runId))!;
            const folded = (await stores.log.fold(runStream, tenant, runId))!;
            expect(view.revision).toBe(folded.revision);
            expect(shown(present(view, now))).toEqual(told(folded.state, now));
          }
      }),
      { numRuns: 3 },
    );
    const now = seconds(5_000);
    const items = await everyPage(undefined, now);
    expect(items.map(({ runId }) => runId).sort()).toEqual([...all].sort());
    for (const item of items) expect(item).toEqual(present((await queries.run(viewer, item.runId))!, now));
    const comparison = await compareWithFold(currentCheckpoints, stores);
    expect(comparison).toEqual({ compared: all.size, missing: [], extra: [], differing: [] });
  });
});

describe('lists of runs', () => {
  it('find by every status exactly the runs that show it, at any time', async () => {
    let position = 0n;
    for (const cut of [0, 1, 2, 3, 4, 5])
      for (const ending of [undefined, 'CompleteRun', 'FailRun', 'CancelRun'] as const) {
        const runId = randomUUID();
        const filing = { tenant, approvalId: `${runId}.1` };
        const later: RunCommand[] = [
          { type: 'StartFiling', ...filing, standings, at: seconds(610) },
          { type: 'RefuseFiling', ...filing, code: 'already-filed', at: seconds(620) },
        ];
        const commands = [...grantedCommands(runId), ...later].slice(0, cut + 2);
        const end =
          ending && commandOf({ run: 0, kind: ending, pick: 0, waitSeconds: 0 }, runId, seconds(630));
        for (const command of [...commands, ...(end ? [end] : [])])
          position = (await send(stores, runId, command))?.position ?? position;
      }
    expect(await runner.waitFor(position, PATIENCE)).toBe(true);
    const found = new Set<RunStatus>();
    for (const now of [631, 3_630, 87_000].map(seconds)) {
      const items = await everyPage(undefined, now, 50);
      for (const status of STATUSES) {
        const expected = items.filter((item) => item.status === status);
        expect(await everyPage(status, now, 50)).toEqual(expected);
        if (expected.length > 0) found.add(status);
      }
    }
    expect([...found].sort()).toEqual([...STATUSES].sort());
  });

  it('P16: show of a run what the single read shows at the same revision', async () => {
    const runId = randomUUID();
    await grantedRun(stores, runId);
    const lease = {
      number: 1,
      secretDigest: (await lastLease(runId)).secretDigest,
      holder: people.assistant.sub,
    };
    await send(stores, runId, {
      type: 'SaveDraft',
      draftId: 'glass',
      content: changed,
      lease,
      at: seconds(610),
    });
    const asked = { summary: 'Glass.', basedOn: [], requestedBy: people.assistant, expiresInSeconds: 600 };
    const request = { type: 'RequestApproval', draftId: 'glass', draftVersion: 1, ...asked } as const;
    const { position } = (await send(stores, runId, { ...request, lease, at: seconds(620) }))!;
    expect(await runner.waitFor(position, PATIENCE)).toBe(true);
    const single = present((await queries.run(viewer, runId))!, seconds(700));
    const { items } = await queries.list(viewer, {}, { limit: 1 }, seconds(700));
    expect(items).toEqual([single]);
    expect(single).toMatchObject({
      status: 'approved',
      revision: '6',
      approvals: [
        { status: 'granted', digest, decidedBy: [people.dana] },
        { status: 'pending', summary: 'Glass.' },
      ],
    });
  });

  it('follow a cursor past nothing twice and nothing left out, while runs start and change', async () => {
    const before = (await everyPage(undefined, seconds(700))).map(({ runId }) => runId);
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await queries.list(viewer, {}, { limit: 4, cursor }, seconds(700));
      seen.push(...page.items.map(({ runId }) => runId));
      cursor = page.nextCursor ?? undefined;
      const [started, touched] = [randomUUID(), seen[0]!];
      await send(stores, touched, { type: 'CancelRun', endedBy: people.dana, at: seconds(9_000) });
      const { position } = (await send(stores, started, startRun(started)))!;
      expect(await runner.waitFor(position, PATIENCE)).toBe(true);
    } while (cursor !== undefined);
    expect(seen).toEqual(before);
    await expect(queries.list(viewer, {}, { limit: 1, cursor: 'MARKER' }, seconds(0))).rejects.toThrow(
      'not a cursor',
    );
  });

  it('show a tenant its own runs and a customer their own', async () => {
    const [runId] = (await everyPage(undefined, seconds(0))).map((run) => run.runId);
    const list = (who: { tenant: string; customerId?: string }, customerId?: string) =>
      queries.list(who, { customerId }, { limit: 200 }, seconds(0)).then(({ items }) => items.length);
    expect(await list({ tenant: 'other' })).toBe(0);
    expect(await list({ tenant, customerId: randomUUID() })).toBe(0);
    expect(await list({ tenant, customerId: randomUUID() }, OWNER)).toBe(0);
    expect(await list({ tenant, customerId: OWNER })).toBe(await list({ tenant }));
    expect(await queries.run({ tenant: 'other' }, runId!)).toBeUndefined();
    expect(await queries.run({ tenant, customerId: randomUUID() }, runId!)).toBeUndefined();
    expect((await queries.run({ tenant, customerId: OWNER }, runId!))?.id).toBe(runId);
  });

  it('filter by phase and by time of change', async () => {
    const runId = randomUUID();
    await send(stores, runId, startRun(runId));
    await send(stores, runId, takeLease(seconds(1)));
    const lease = await lastLease(runId);
    const enter = {
      type: 'EnterPhase',
      phase: 'a-phase-of-its-own',
      lease,
      at: '2027-01-01T00:00:00.000Z',
    } as const;
    const { position } = (await send(stores, runId, enter))!;
    expect(await runner.waitFor(position, PATIENCE)).toBe(true);
    const ids = async (filters: Parameters<CheckpointQueries['list']>[1]) =>
      (await queries.list(viewer, filters, { limit: 200 }, seconds(0))).items.map((run) => run.runId);
    expect(await ids({ phase: 'a-phase-of-its-own' })).toEqual([runId]);
    expect(await ids({ updatedSince: '2027-01-01T00:00:00.000Z' })).toEqual([runId]);
    expect(await ids({ updatedSince: '2027-01-01T00:00:00.001Z' })).toEqual([]);
  });
});

describe('a single read of a run', () => {
  it('P70: is one document after fifty first writes at once', async () => {
    const runId = randomUUID();
    const answers = await Promise.all(Array.from({ length: 50 }, () => send(stores, runId, startRun(runId))));
    const [first] = answers;
    expect(await runner.waitFor(first!.position, PATIENCE)).toBe(true);
    expect(new Set(answers.map((answer) => answer?.revision))).toEqual(new Set([0n]));
    const found = await stores.models
      .openReadModel('current-checkpoints')
      .collection(`documents-v${currentCheckpoints.version}`)
      .find({ id: runId })
      .toArray();
    expect(found).toMatchObject([{ tenant, revision: 0n, customerId: OWNER }]);
    expect(JSON.stringify(found[0]!['input'])).not.toContain('web');
  });

  it('P01: is as fresh as the stream with the projector stopped and the document store down', async () => {
    const runId = randomUUID();
    await grantedRun(stores, runId);
    await runner.stop();
    const lease = await lastLease(runId);
    const step = { stepId: 's1', name: 'A step', kind: 'tool', status: 'completed', output: 1 } as const;
    await send(stores, runId, { type: 'RecordStep', ...step, lease, at: seconds(640) });
    const behind = present((await queries.run(viewer, runId))!, seconds(650));
    expect(behind).toMatchObject({ revision: '5', steps: { total: 1, completed: 1 }, status: 'approved' });
    await stores.stopDocuments();
    expect(present((await queries.run(viewer, runId))!, seconds(650))).toEqual(behind);
    await expect(queries.list(viewer, {}, { limit: 1 }, seconds(650))).rejects.toThrow(ReadModelUnavailable);
    await stores.startDocumentsAgain();
    expect(salted.notice).toEqual(behind.drafts[0]!.notice);
  });
});

async function lastLease(runId: string) {
  const { state } = (await stores.log.fold(runStream, tenant, runId))!;
  const { number, secretDigest, holder } = state.lease!;
  return { number, secretDigest, holder };
}
