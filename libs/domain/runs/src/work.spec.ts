import { digestOf } from '#libs/canonical';
import { specification } from '#libs/decider';
import {
  customerId,
  lease,
  leasedRun,
  people,
  secondLease,
  seconds,
  startedRun,
  takenByAnother,
} from '#libs/domain/examples';
import type { RecordStep, RunCommand, SaveWorkerState, TakeLease } from './commands.js';
import type { RunEvent } from './events.js';
import { run } from './run.js';

const { given } = specification(run, (actual, expected) => expect(actual).toStrictEqual(expected));

const take: TakeLease = {
  type: 'TakeLease',
  workerId: 'intake-1',
  holder: people.assistant.sub,
  secretDigest: lease.secretDigest,
  leaseSeconds: 60,
  takeOver: false,
  at: seconds(1),
};
const takeSecond: TakeLease = {
  ...take,
  workerId: 'intake-2',
  secretDigest: secondLease.secretDigest,
  at: seconds(120),
};
const step: RecordStep = {
  type: 'RecordStep',
  stepId: 'fetch-policy',
  name: 'Fetch the policy',
  kind: 'tool',
  status: 'completed',
  input: { policyNumber: 'PA-204-5518' },
  output: { inForce: true, deductible: 500 },
  lease,
  at: seconds(10),
};
const stepCompleted: RunEvent = {
  type: 'StepCompleted',
  data: {
    stepId: 'fetch-policy',
    name: 'Fetch the policy',
    kind: 'tool',
    input: { policyNumber: 'PA-204-5518' },
    output: { inForce: true, deductible: 500 },
    completedAt: seconds(10),
  },
};
const stepStarted: RunEvent = {
  type: 'StepStarted',
  data: { stepId: 'fetch-policy', name: 'Fetch the policy', kind: 'tool', startedAt: seconds(9) },
};
const stepFailed: RunEvent = {
  type: 'StepFailed',
  data: {
    stepId: 'fetch-policy',
    name: 'Fetch the policy',
    kind: 'tool',
    error: { code: 'timeout' },
    failedAt: seconds(10),
  },
};
const start: RecordStep = { ...step, status: 'started', input: undefined, output: undefined, at: seconds(9) };
const fail: RecordStep = { ...start, status: 'failed', error: { code: 'timeout' }, at: seconds(10) };

describe('TakeLease', () => {
  it('takes the first lease, until its seconds have passed', () => {
    const taken = given(...startedRun).when(take);
    taken.then(...leasedRun.slice(1));
    expect(taken.state().lease).toMatchObject({ number: 1, workerId: 'intake-1', expiresAt: seconds(61) });
  });

  it('is refused while the lease of another worker or of another identity is live', () => {
    const held = { expiresAt: seconds(61) };
    given(...leasedRun)
      .when({ ...takeSecond, at: seconds(60) })
      .thenRefused('lease-held', held);
    given(...leasedRun)
      .when({ ...take, holder: 'another-assistant', at: seconds(60) })
      .thenRefused('lease-held', held);
  });

  it('takes a lapsed lease, with a greater number', () => {
    const taken = given(...leasedRun).when(takeSecond);
    taken.then(...takenByAnother.slice(2));
    expect(taken.state().lease?.number).toBe(2);
  });

  it('counts a heartbeat of the newest lease, and of no other', () => {
    const seen = { number: 1, expiresAt: seconds(180), closed: false };
    given(...leasedRun)
      .when({ ...takeSecond, seen })
      .thenRefused('lease-held', { expiresAt: seconds(180) });
    given(...leasedRun)
      .when({ ...takeSecond, seen, at: seconds(180) })
      .then(takenAt(2, 180));
    given(...leasedRun)
      .when({ ...takeSecond, seen: { ...seen, number: 7 } })
      .then(takenAt(2, 120));
    const earlier = { ...seen, expiresAt: seconds(2) };
    given(...leasedRun)
      .when({ ...takeSecond, seen: earlier, at: seconds(60) })
      .thenRefused('lease-held', { expiresAt: seconds(61) });
  });

  it('takes at once a lease that was given back', () => {
    const seen = { number: 1, expiresAt: seconds(61), closed: true };
    given(...leasedRun)
      .when({ ...takeSecond, seen, at: seconds(5) })
      .then(takenAt(2, 5));
    given(...leasedRun)
      .when({ ...takeSecond, seen: { ...seen, number: 0 }, at: seconds(5) })
      .thenRefused('lease-held', { expiresAt: seconds(61) });
  });

  it('takes over a live lease, and says so', () => {
    given(...leasedRun)
      .when({ ...takeSecond, takeOver: true, at: seconds(5) })
      .then(takenAt(2, 5, true));
    given(...leasedRun)
      .when({ ...takeSecond, takeOver: true })
      .then(takenAt(2, 120));
  });

  it('renews for the same worker, whose older lease is stale from then on', () => {
    const renewed = given(...leasedRun).when({
      ...take,
      secretDigest: secondLease.secretDigest,
      at: seconds(30),
    });
    expect(renewed.outcome).toMatchObject([{ data: { number: 2, workerId: 'intake-1', takenOver: false } }]);
    given(...leasedRun, ...(renewed.outcome as RunEvent[]))
      .when(step)
      .thenRefused('stale-lease');
  });
});

function takenAt(number: number, after: number, takenOver = false): RunEvent {
  const { workerId, holder, secretDigest, leaseSeconds } = takeSecond;
  const times = { takenAt: seconds(after), expiresAt: seconds(after + leaseSeconds) };
  return {
    type: 'LeaseTaken',
    data: { number, workerId, holder, secretDigest, leaseSeconds, takenOver, ...times },
  };
}

describe('a worker command', () => {
  it('needs a lease', () => {
    given(...leasedRun)
      .when({ ...step, lease: undefined })
      .thenRefused('lease-required');
  });

  it.each([
    ['an older number', lease, takenByAnother],
    ['a number never given out', { ...lease, number: 2 }, leasedRun],
    ['another secret', { ...lease, secretDigest: secondLease.secretDigest }, leasedRun],
    ['another subject', { ...lease, holder: 'another-assistant' }, leasedRun],
    ['a lease nobody took', lease, startedRun],
  ])('is refused with %s', (_case, shown, history) => {
    given(...history)
      .when({ ...step, lease: shown })
      .thenRefused('stale-lease');
  });

  it('goes on with a lapsed lease while there is no newer one', () => {
    given(...leasedRun)
      .when({ ...step, at: seconds(10_000) })
      .then({ ...stepCompleted, data: { ...stepCompleted.data, completedAt: seconds(10_000) } });
  });

  it('P03 refuses the late write of the first worker after the second has completed the run', () => {
    const complete: RunCommand = {
      type: 'CompleteRun',
      endedBy: people.assistant,
      lease: secondLease,
      at: seconds(130),
    };
    const done = given(...takenByAnother).when(complete).outcome as RunEvent[];
    given(...takenByAnother, ...done)
      .when(step)
      .thenRefused('stale-lease');
    given(...takenByAnother, ...done)
      .when({ ...step, lease: secondLease })
      .thenRefused('run-ended');
  });
});

describe('EnterPhase', () => {
  const enter: RunCommand = { type: 'EnterPhase', phase: 'drafting', lease, at: seconds(5) };
  const entered: RunEvent = { type: 'PhaseEntered', data: { phase: 'drafting', enteredAt: seconds(5) } };

  it('enters a phase once', () => {
    const done = given(...leasedRun).when(enter);
    done.then(entered);
    expect(done.state().phase).toBe('drafting');
    given(...leasedRun, entered)
      .when({ ...enter, at: seconds(6) })
      .then();
  });
});

describe('RecordStep', () => {
  it('records what was started, completed or failed', () => {
    given(...leasedRun)
      .when(start)
      .then(stepStarted);
    given(...leasedRun, stepStarted)
      .when(fail)
      .then(stepFailed);
    const completed = given(...leasedRun, stepStarted).when(step);
    completed.then(stepCompleted);
    expect(completed.state().steps.get('fetch-policy')).toStrictEqual({
      stepId: 'fetch-policy',
      name: 'Fetch the policy',
      kind: 'tool',
      status: 'completed',
      digest: digestOf({ result: { deductible: 500, inForce: true } }),
      at: seconds(10),
    });
  });

  it('appends nothing for a repeat with an equal result, whatever the order of its members', () => {
    const repeated = { ...step, output: { deductible: 500, inForce: true }, at: seconds(11) };
    given(...leasedRun, stepCompleted)
      .when(repeated)
      .then();
    given(...leasedRun, stepStarted)
      .when({ ...start, at: seconds(11) })
      .then();
    given(...leasedRun, stepFailed)
      .when({ ...fail, at: seconds(11) })
      .then();
  });

  it('refuses to complete, start or fail a completed step otherwise', () => {
    const completed = { stepId: 'fetch-policy', completedAt: seconds(10) };
    const history = [...leasedRun, stepCompleted];
    for (const command of [
      { ...step, output: { inForce: false } },
      { ...step, output: undefined },
      start,
      fail,
    ])
      given(...history)
        .when(command)
        .thenRefused('step-already-completed', completed);
  });

  it('tries a failed step again', () => {
    given(...leasedRun, stepFailed)
      .when(start)
      .then(stepStarted);
    given(...leasedRun, stepFailed)
      .when(step)
      .then(stepCompleted);
    given(...leasedRun, stepFailed)
      .when({ ...fail, error: { code: 'refused' } })
      .then({ ...stepFailed, data: { ...stepFailed.data, error: { code: 'refused' } } });
  });

  it('cites messages only as the conversation holds them, and asks for them when nothing else refuses', () => {
    const message = { messageId: '6f1f2f0e-52b3-4f3a-9a4e-8d2f6d8f7a11', digest: digestOf('m') };
    const cites = [message];
    const { conversationId } = given(...startedRun).state().started ?? {};
    given(...leasedRun)
      .when({ ...step, cites })
      .thenRefused('messages-unread', { customerId, conversationId });
    const other = { ...message, digest: digestOf('n') };
    given(...leasedRun)
      .when({ ...step, cites, messages: [other] })
      .thenRefused('message-unknown', { messages: [message.messageId] });
    const cited = { ...stepCompleted, data: { ...stepCompleted.data, cites } } as RunEvent;
    given(...leasedRun)
      .when({ ...step, cites, messages: [other, message] })
      .then(cited);
    given(...leasedRun, cited)
      .when({ ...step, cites })
      .then();
    given(...leasedRun)
      .when({ ...step, cites, lease: undefined })
      .thenRefused('lease-required');
  });

  it('P09 keeps a thousand steps of one millisecond in the order of the stream, whatever their names', () => {
    const ids = Array.from({ length: 1000 }, (_, n) => digestOf(n).slice(0, 12));
    let state = given(...leasedRun).state();
    for (const stepId of ids) {
      const recorded = run.decide({ ...step, stepId }, state) as RunEvent[];
      state = recorded.reduce((folded, event) => run.evolve(folded, event), state);
    }
    expect([...state.steps.keys()]).toEqual(ids);
    expect(new Set([...state.steps.values()].map(({ at }) => at))).toEqual(new Set([step.at]));
  });
});

describe('SaveWorkerState', () => {
  const save: SaveWorkerState = {
    type: 'SaveWorkerState',
    state: { turn: 3, todo: ['call garage'], open: { garage: true } },
    label: 'after intake',
    lease,
    at: seconds(10),
  };
  const saved: RunEvent = {
    type: 'WorkerStateSaved',
    data: { content: { kind: 'whole', state: save.state }, label: 'after intake', savedAt: seconds(10) },
  };

  it('saves the whole state', () => {
    const done = given(...leasedRun).when(save);
    done.then(saved);
    expect(done.state().workerState).toStrictEqual({
      state: save.state,
      label: 'after intake',
      savedAt: seconds(10),
    });
  });

  it('appends nothing for an equal state', () => {
    const state = { open: { garage: true }, todo: ['call garage'], turn: 3 };
    given(...leasedRun, saved)
      .when({ ...save, state })
      .then();
    given(...leasedRun, saved)
      .when({ ...save, state: {}, patch: true })
      .then();
  });

  it('applies a merge patch, and stores the whole', () => {
    const patch = { turn: 4, todo: null, open: { part: { no: 7, old: null } } };
    const merged = { turn: 4, open: { garage: true, part: { no: 7 } } };
    const done = given(...leasedRun, saved).when({ ...save, state: patch, patch: true, label: undefined });
    done.then({
      type: 'WorkerStateSaved',
      data: { content: { kind: 'whole', state: merged }, savedAt: seconds(10) },
    });
    expect(done.state().workerState).toStrictEqual({ state: merged, savedAt: seconds(10) });
  });

  it('folds a stored patch as the saving of it did', () => {
    const content = { kind: 'patch' as const, patch: { turn: 5, open: null } };
    const patched: RunEvent = { type: 'WorkerStateSaved', data: { content, savedAt: seconds(11) } };
    const { workerState } = given(...leasedRun, saved, patched).state();
    expect(workerState).toStrictEqual({ state: { turn: 5, todo: ['call garage'] }, savedAt: seconds(11) });
  });

  it('stores a large state once, and then what differs', () => {
    const note = 'x'.repeat(2000);
    const whole: RunEvent = {
      type: 'WorkerStateSaved',
      data: { content: { kind: 'whole', state: { note, turn: 1 } }, savedAt: seconds(10) },
    };
    const done = given(...leasedRun, whole).when({ ...save, state: { note, turn: 2 }, label: undefined });
    const operations = [{ op: 'replace', path: '/turn', value: 2 }];
    const content = { kind: 'difference' as const, operations };
    done.then({ type: 'WorkerStateSaved', data: { content, savedAt: seconds(10) } });
    expect(done.state().workerState).toStrictEqual({
      state: { note, turn: 2 },
      differenceBytes: JSON.stringify(operations).length,
      savedAt: seconds(10),
    });
  });

  it('leaves a state that is too large for an event to the payload store, and takes it from there', () => {
    const large = { ...save, inlineBytes: 20, label: undefined };
    given(...leasedRun)
      .when(large)
      .thenRefused('payload-required', { customerId, state: save.state });
    const digest = 'ab'.repeat(32);
    const payload = { digest, bytes: 90, of: digestOf(save.state) };
    const done = given(...leasedRun).when({ ...large, payload });
    const content = { kind: 'payload' as const, digest, bytes: 90 };
    done.then({ type: 'WorkerStateSaved', data: { content, savedAt: seconds(10) } });
    const other = { ...payload, of: digest };
    given(...leasedRun)
      .when({ ...large, payload: other })
      .thenRefused('payload-required', { customerId, state: save.state });
    const event: RunEvent = { type: 'WorkerStateSaved', data: { content, savedAt: seconds(10) } };
    given(...leasedRun, event)
      .when(large)
      .thenRefused('payload-away', { digest, bytes: 90 });
    const opened = { digest, state: save.state };
    given(...leasedRun, event)
      .when({ ...large, opened })
      .then();
    const small = { ...large, opened, state: { turn: 4, todo: null, open: null }, patch: true };
    given(...leasedRun, event)
      .when(small)
      .then({
        type: 'WorkerStateSaved',
        data: { content: { kind: 'whole', state: { turn: 4 } }, savedAt: seconds(10) },
      });
  });

  it('names the limit, the size and the field of a state that is too large, also by patches', () => {
    given(...leasedRun)
      .when({ ...save, state: 'é'.repeat(10), limitBytes: 21 })
      .thenRefused('state-too-large', { limit: 21, size: 22, field: 'state' });
    given(...leasedRun)
      .when({ ...save, state: 'é'.repeat(10), limitBytes: 22, label: undefined })
      .then({
        type: 'WorkerStateSaved',
        data: { content: { kind: 'whole', state: 'é'.repeat(10) }, savedAt: seconds(10) },
      });
    const { refused } = given(...leasedRun, saved).when({
      ...save,
      state: { more: 'x'.repeat(60) },
      patch: true,
      limitBytes: 100,
    }).outcome as { refused?: string };
    expect(refused).toBe('state-too-large');
  });
});
