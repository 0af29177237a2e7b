import { specification } from '#libs/decider';
import {
  approvalId,
  claimId,
  customerId,
  deniedByDana,
  draftedRun,
  filedRun,
  filingRun,
  grantedByDana,
  lease,
  leasedRun,
  pendingApproval,
  people,
  runId,
  seconds,
  standings,
  startedRun,
} from '#libs/domain/examples';
import type { CancelRun, CompleteRun, FailRun, RunCommand, StartRun } from './commands.js';
import { runEvents, type RunEvent } from './events.js';
import { run, runStatus, runStream } from './run.js';
import { folds } from './state.js';

const { given } = specification(run, (actual, expected) => expect(actual).toStrictEqual(expected));

const start: StartRun = {
  type: 'StartRun',
  runId,
  workflow: { name: 'auto-claim-intake', version: '1' },
  customerId,
  input: { channel: 'web' },
  customer: people.carol,
  at: seconds(0),
};
const ending = { endedBy: people.assistant, reason: 'The customer called back.', at: seconds(700) };
const complete: CompleteRun = { type: 'CompleteRun', ...ending, output: { claims: 0 }, lease };
const fail: FailRun = { type: 'FailRun', ...ending, lease };
const cancel: CancelRun = { type: 'CancelRun', ...ending, endedBy: people.carol };
const { reason } = ending;
const completed: RunEvent = {
  type: 'RunCompleted',
  data: { reason, output: { claims: 0 }, completedAt: seconds(700) },
};
const failed: RunEvent = { type: 'RunFailed', data: { reason, failedAt: seconds(700) } };
const cancelled: RunEvent = { type: 'RunCancelled', data: { reason, cancelledAt: seconds(700) } };
const endings: [CompleteRun | FailRun | CancelRun, RunEvent][] = [
  [complete, completed],
  [fail, failed],
  [cancel, cancelled],
];

describe('StartRun', () => {
  it('starts a run that is its own origin', () => {
    const started = given().when(start);
    started.then(...startedRun);
    expect(started.state().started).toStrictEqual(startedRun[0]?.data);
    given()
      .when({ ...start, customer: undefined, input: undefined })
      .then({
        type: 'RunStarted',
        data: { runId, originRunId: runId, workflow: start.workflow, customerId, startedAt: seconds(0) },
      });
  });

  it('is refused for a run that exists', () => {
    given(...startedRun)
      .when(start)
      .thenRefused('run-exists');
  });

  it('comes before everything else', () => {
    given().when(complete).thenRefused('not-found');
    given().when(cancel).thenRefused('not-found');
  });
});

describe.each(endings)('$type', (command, event) => {
  it('ends the run', () => {
    const done = given(...leasedRun).when(command);
    done.then(event);
    expect(done.state().ended).toMatchObject({ reason, endedAt: seconds(700) });
    expect(runStatus(done.state(), seconds(701))).toBe(event.type.slice('Run'.length).toLowerCase());
  });

  it.each([
    ['pending', pendingApproval],
    ['granted', grantedByDana],
  ])('withdraws a %s approval in the same append, before the end', (_status, history) => {
    const withdrawn: RunEvent = {
      type: 'ApprovalWithdrawn',
      data: {
        approvalId,
        because: 'run-ended',
        withdrawnBy: command.endedBy,
        withdrawnAt: seconds(700),
      },
    };
    const done = given(...history).when(command);
    done.then(withdrawn, event);
    expect(done.state().approvals.get(approvalId)?.stage).toBe('withdrawn');
  });

  it('leaves approvals alone that are no longer open', () => {
    given(...deniedByDana)
      .when(command)
      .then(event);
    given(...filedRun)
      .when(command)
      .then(event);
    const lapsed = given(...grantedByDana).when({ ...command, at: seconds(90_000) }).outcome;
    expect(lapsed).toHaveLength(1);
  });

  it('is refused while a claim is being filed', () => {
    given(...filingRun)
      .when(command)
      .thenRefused('filing-in-progress', { approvalId });
  });

  it.each(endings)('is refused after $type', (_before, ended) => {
    given(...leasedRun, ended)
      .when(command)
      .thenRefused('run-ended');
  });
});

describe('an ended run', () => {
  const lateOnes: RunCommand[] = [
    {
      type: 'TakeLease',
      workerId: 'w',
      holder: 'h',
      secretDigest: '',
      leaseSeconds: 60,
      takeOver: true,
      at: seconds(800),
    },
    { type: 'EnterPhase', phase: 'late', lease, at: seconds(800) },
    { type: 'SaveWorkerState', state: 1, lease, at: seconds(800) },
    { type: 'CancelRun', endedBy: people.sam, at: seconds(800) },
  ];

  it.each(lateOnes)('refuses $type', (command) => {
    given(...leasedRun, completed)
      .when(command)
      .thenRefused('run-ended');
  });

  it('is not changed by a clock that runs behind', () => {
    const ended = [...pendingApproval, { ...cancelled, data: { cancelledAt: seconds(4000) } } as RunEvent];
    const decision = { type: 'DecideApproval' as const, approvalId, decision: 'grant' as const };
    const digest =
      given(...ended)
        .state()
        .approvals.get(approvalId)?.digest ?? '';
    given(...ended)
      .when({ ...decision, digest, decidedBy: people.dana, standing: standings.dana, at: seconds(600) })
      .thenRefused('run-ended');
    given(...ended)
      .when({ type: 'WithdrawApproval', approvalId, withdrawnBy: people.assistant, at: seconds(600) })
      .thenRefused('run-ended');
    const granted = [...grantedByDana, { ...cancelled, data: { cancelledAt: seconds(90_000) } } as RunEvent];
    given(...granted)
      .when({ type: 'StartFiling', tenant: 'acme', approvalId, standings, at: seconds(601) })
      .thenRefused('run-ended');
  });
});

describe('runStatus', () => {
  const refusal = { approvalId, draftId: 'collision', code: 'already-filed', refusedAt: seconds(603) };
  const refused: RunEvent = { type: 'FilingRefused', data: refusal };
  const again = given(...grantedByDana).when({
    type: 'RequestApproval',
    draftId: 'collision',
    draftVersion: 1,
    summary: 'Once more.',
    basedOn: [],
    requestedBy: people.assistant,
    expiresInSeconds: 3600,
    lease,
    at: seconds(90_000),
  }).outcome as RunEvent[];

  it.each([
    ['open', startedRun, 1],
    ['open', draftedRun, 21],
    ['waiting', pendingApproval, 3629],
    ['open', pendingApproval, 3630],
    ['open', deniedByDana, 700],
    ['approved', grantedByDana, 86_999],
    ['needs-attention', grantedByDana, 87_000],
    ['waiting', [...grantedByDana, ...again], 90_001],
    ['filing', filingRun, 999_999],
    ['needs-attention', [...filingRun, refused], 700],
    ['open', filedRun, 999_999],
    ['completed', [...filedRun, completed], 999_999],
  ])('is %s (%#)', (status, history, after) => {
    expect(runStatus(given(...history).state(), seconds(after))).toBe(status);
  });
});

describe('the run stream', () => {
  it('belongs to the customer of the run, from its first event on', () => {
    expect(runStream.customerOf(run.initialState(), startedRun)).toBe(customerId);
    expect(runStream.customerOf(given(...startedRun).state(), [completed])).toBe(customerId);
    expect(() => runStream.customerOf(run.initialState(), [])).toThrow('has no customer');
  });

  it('folds every stored event, and refuses one that it does not know', () => {
    expect(Object.keys(folds).sort()).toEqual(Object.keys(runEvents).sort());
    const unknown = { type: 'RunRetired', data: {} } as unknown as RunEvent;
    expect(() => run.evolve(run.initialState(), unknown)).toThrow('a run has no event RunRetired');
    const strange = { type: 'constructor', data: {} } as unknown as RunEvent;
    expect(() => run.evolve(run.initialState(), strange)).toThrow('a run has no event constructor');
  });

  it('saves and loads its state unchanged, and apart from the state saved', () => {
    const state = given(...filedRun).state();
    const saved = runStream.save(state);
    expect(runStream.load(JSON.parse(JSON.stringify(saved)) as typeof saved)).toStrictEqual(state);
    run.evolve(state, completed);
    expect(runStream.load(saved)).toStrictEqual(given(...filedRun).state());
    expect(state.approvals.get(approvalId)?.filing?.claimId).toBe(claimId);
  });
});
