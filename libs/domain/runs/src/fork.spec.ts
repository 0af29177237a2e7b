import { isRefusal } from '#libs/decider';
import { approvalId, customerId, digest, lease, people, runId, seconds } from '#libs/domain/examples';
import * as examples from '#libs/domain/examples';
import type { ForkRun } from './commands.js';
import { runEvents, type RunEvent } from './events.js';
import { run, runStatus, runStream } from './run.js';
import type { Run } from './state.js';

const forkId = '7c1e2b90-4a3d-4f5e-8b6c-1d2e3f4a5b6c';
const fold = (...events: RunEvent[]) =>
  events.reduce((state, event) => run.evolve(state, event), run.initialState());
const filed = examples.filedRun;
/** The history before its first event of a type. */
const before = (type: RunEvent['type']) =>
  filed.slice(
    0,
    filed.findIndex((event) => event.type === type),
  );

function command(history: readonly RunEvent[], changes: Partial<ForkRun> = {}): ForkRun {
  const source = fold(...history) as Run;
  return {
    type: 'ForkRun',
    runId: forkId,
    forkedFrom: { runId, revision: String(history.length - 1) },
    source,
    openAt: seconds(10),
    heldLease: source.lease,
    endedNow: source.ended,
    lease,
    bySupervisor: false,
    at: seconds(5000),
    ...changes,
  };
}

function forked(history: readonly RunEvent[], changes: Partial<ForkRun> = {}): Run {
  const outcome = run.decide(command(history, changes), run.initialState());
  if (isRefusal(outcome)) throw new Error(outcome.refused);
  for (const { type, data } of outcome) expect(runEvents[type].parse(data)).toStrictEqual(data);
  return fold(...outcome) as Run;
}

describe('ForkRun', () => {
  it('P28: from before a grant, the approval is pending again under an id of the fork', () => {
    const history = before('ApprovalGranted');
    const untouched = runStream.save(fold(...history));
    const cause = command(history);
    const fork = forked(history);
    expect(runStream.save(cause.source)).toStrictEqual(untouched);
    expect(fork.started).toMatchObject({ runId: forkId, originRunId: runId, customerId });
    expect(fork.forkedFrom).toEqual({ runId, revision: String(history.length - 1) });
    expect(fork.lease).toBeUndefined();
    expect(fork.steps).toEqual(cause.source.steps);
    const asked = cause.source.approvals.get(approvalId);
    expect([...fork.approvals.values()]).toMatchObject([
      { approvalId: `${forkId}.1`, digest, stage: 'pending', requestedAt: seconds(5000) },
    ]);
    const reopened = fork.approvals.get(`${forkId}.1`);
    const length = (each = asked) => Date.parse(each?.expiresAt ?? '') - Date.parse(each?.requestedAt ?? '');
    expect(length(reopened)).toBe(length());
    expect(runStatus(fork, seconds(5001))).toBe('waiting');
  });

  it('from after a grant that was not executed, what was decided is forgotten', () => {
    const fork = forked(before('FilingStarted'));
    const [approval] = fork.approvals.values();
    expect(approval).toMatchObject({ stage: 'pending', superseded: false });
    expect(approval).not.toHaveProperty('decision');
    expect(approval).not.toHaveProperty('executeBy');
  });

  it('an approval that had expired by that revision does not come back', () => {
    expect(forked(before('ApprovalGranted'), { openAt: seconds(10_000_000) }).approvals.size).toBe(0);
  });

  it('from after filing, the draft is filed in the fork as well', () => {
    const history = filed.filter(({ type }) => type !== 'RunCompleted');
    const fork = forked(history);
    const { content } = [...fork.drafts.values()][0] ?? { content: undefined };
    const refused = run.decide(
      {
        type: 'SaveDraft',
        draftId: examples.draftId,
        content: examples.changed,
        lease: undefined,
        at: seconds(1),
      },
      fork,
    );
    expect(content).toEqual(examples.salted);
    expect(refused).toMatchObject({ refused: 'lease-required' });
    expect([...fork.approvals.values()]).toMatchObject([{ stage: 'filed', approvalId: `${forkId}.1` }]);
  });

  it('needs the newest lease of the other run, unless a supervisor forks', () => {
    const history = before('ApprovalGranted');
    const decided = (changes: Partial<ForkRun>) => run.decide(command(history, changes), run.initialState());
    expect(decided({ lease: undefined })).toMatchObject({ refused: 'lease-required' });
    expect(decided({ lease: { ...lease, number: 7 } })).toMatchObject({ refused: 'stale-lease' });
    expect(decided({ lease: { ...lease, holder: people.dana.sub } })).toMatchObject({
      refused: 'stale-lease',
    });
    expect(forked(history, { lease: undefined, bySupervisor: true }).started.runId).toBe(forkId);
  });

  it('of a run that had ended by then is refused, and so is one that is there already', () => {
    const ended: RunEvent = { type: 'RunCancelled', data: { cancelledAt: seconds(60) } };
    const history = [...before('ApprovalGranted'), ended];
    expect(run.decide(command(history), run.initialState())).toMatchObject({ refused: 'run-ended' });
    expect(run.decide(command(before('ApprovalGranted')), forked(before('ApprovalGranted')))).toMatchObject({
      refused: 'run-exists',
    });
  });

  it('from before its end, of a run that has ended since, is for a supervisor alone', () => {
    const endedNow = { status: 'cancelled', endedAt: seconds(60) } as const;
    const history = before('ApprovalGranted');
    const decided = (changes: Partial<ForkRun>) =>
      run.decide(command(history, { endedNow, ...changes }), run.initialState());
    expect(decided({})).toMatchObject({ refused: 'run-ended', detail: 'The run has cancelled.' });
    expect(decided({ lease: undefined })).toMatchObject({ refused: 'lease-required' });
    expect(forked(history, { endedNow, lease: undefined, bySupervisor: true }).ended).toBeUndefined();
  });

  it('whose content does not open is still known to be whose it is, and its filing can be refused', () => {
    const [forkedEvent] = run.decide(command(before('ApprovalGranted')), run.initialState()) as RunEvent[];
    const { state: _, ...rest } = (forkedEvent as Extract<RunEvent, { type: 'RunForked' }>).data;
    const state = run.initialState();
    expect(() => run.evolve(state, { type: 'RunForked', data: rest })).toThrow('cannot be opened');
    const { originRunId, forkedFrom } = rest;
    expect(state).toMatchObject({ started: { runId: forkId, originRunId, customerId }, forkedFrom });
    expect(runStream.customerOf(state, [])).toBe(customerId);
    const asked = `${forkId}.1`;
    const started = filed.find(({ type }) => type === 'FilingStarted') as Extract<
      RunEvent,
      { type: 'FilingStarted' }
    >;
    run.evolve(state, { ...started, data: { ...started.data, approvalId: asked } });
    const refusing = { type: 'RefuseFiling', approvalId: asked, code: 'draft-unopenable', at: seconds(9) };
    expect(run.decide({ type: 'CancelRun', endedBy: people.dana, at: seconds(9) }, state)).toMatchObject({
      refused: 'filing-in-progress',
    });
    const refused = run.decide(refusing as Parameters<typeof run.decide>[0], state) as RunEvent[];
    expect(refused.map(({ type }) => type)).toEqual(['FilingRefused']);
    const after = refused.reduce((each, event) => run.evolve(each, event), state);
    const cancelled = run.decide({ type: 'CancelRun', endedBy: people.dana, at: seconds(10) }, after);
    expect(cancelled).toMatchObject([{ type: 'RunCancelled' }]);
  });

  it('leaves a large state to the payload store', () => {
    const history = before('ApprovalGranted');
    const asked = run.decide(command(history, { inlineBytes: 100 }), run.initialState());
    expect(asked).toMatchObject({ refused: 'payload-required', extra: { customerId } });
  });
});
