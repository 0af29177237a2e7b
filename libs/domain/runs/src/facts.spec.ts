import { specification } from '#libs/decider';
import {
  approvalId,
  draftedRun,
  draftId,
  grantedByDana,
  lease,
  people,
  secondLease,
  standings,
  seconds,
  tenant,
} from '#libs/domain/examples';
import type { FactReading, RecordFacts, StartFiling, TakeLease } from './commands.js';
import type { RunEvent } from './events.js';
import { factsDue } from './facts.js';
import { run, runStatus } from './run.js';

const { given } = specification(run, (actual, expected) => expect(actual).toStrictEqual(expected));
type Recorded = RecordFacts['facts'][number];

const policy: Recorded = {
  name: 'policy-in-force',
  value: { status: 'in-force' },
  source: { kind: 'policy', ref: 'PA-204-5518' },
  recheck: 'both',
  required: true,
};
const statement: Recorded = {
  name: 'no-injuries',
  value: 'nobody was hurt',
  source: { kind: 'statement', ref: 'message-3' },
  recheck: 'on-resume',
  required: true,
  maxAgeSeconds: 100,
};
const optional: Recorded = {
  ...policy,
  name: 'channel',
  value: 'sms',
  source: { kind: 'profile' },
  required: false,
};

const recorded = (facts: Recorded[], after = 25): RunEvent => ({
  type: 'FactsRecorded',
  data: { facts, observedAt: seconds(after) },
});
const basedOn = (history: RunEvent[], names: string[]): RunEvent[] =>
  history.map((event) =>
    event.type === 'ApprovalRequested' ? { ...event, data: { ...event.data, basedOn: names } } : event,
  );
const asked = (facts: Recorded[], history = grantedByDana) => {
  const [before, after] = [history.slice(0, 3), history.slice(3)];
  return basedOn(
    [...before, recorded(facts), ...after],
    facts.map(({ name }) => name),
  );
};

const take = (after: number, readings: FactReading[] = []): TakeLease => ({
  type: 'TakeLease',
  workerId: 'intake-2',
  holder: secondLease.holder,
  secretDigest: secondLease.secretDigest,
  leaseSeconds: 60,
  takeOver: false,
  readings,
  at: seconds(after),
});
const file = (after: number, readings: FactReading[] = []): StartFiling => ({
  type: 'StartFiling',
  tenant,
  approvalId,
  standings,
  readings,
  at: seconds(after),
});
const says = (name: string, found: FactReading['found'], version = 1): FactReading => ({
  name,
  version,
  found,
});
const inForce = says(policy.name, { status: 'in-force', inForce: true, version: 1 });
const lapsed = says(policy.name, { status: 'lapsed', inForce: false, version: 2 });

const rechecked = (
  on: Extract<RunEvent, { type: 'FactsRechecked' }>['data']['on'],
  found: Partial<Extract<RunEvent, { type: 'FactsRechecked' }>['data']>,
  after: number,
): RunEvent => ({
  type: 'FactsRechecked',
  data: { on, unchanged: [], changed: [], unavailable: [], ...found, recheckedAt: seconds(after) },
});
const resumed = { kind: 'resume', lease: 2 } as const;
const executed = { kind: 'execution', approvalId } as const;
const change = { name: policy.name, was: { status: 'in-force' }, now: { status: 'lapsed' } };
const invalidated = (after: number, facts: object[] = [change]): RunEvent =>
  ({
    type: 'ApprovalInvalidated',
    data: { approvalId, cause: { kind: 'facts-changed', facts }, invalidatedAt: seconds(after) },
  }) as RunEvent;
const types = (outcome: unknown) => (outcome as RunEvent[]).map(({ type }) => type);

describe('RecordFacts', () => {
  const record = (facts: Recorded[], after = 25): RecordFacts => ({
    type: 'RecordFacts',
    facts,
    lease,
    at: seconds(after),
  });

  it('notes what the run rests on; the same at the same time appends nothing', () => {
    const outcome = given(...draftedRun).when(record([policy, statement]));
    outcome.then(recorded([policy, statement]));
    expect([...outcome.state().facts.keys()]).toEqual(['policy-in-force', 'no-injuries']);
    given(...draftedRun, recorded([policy]))
      .when(record([policy]))
      .then();
    given(...draftedRun, recorded([policy]))
      .when(record([policy], 26))
      .then(recorded([policy], 26));
  });

  it('invalidates the open approval that rests on another value', () => {
    const other = { ...policy, value: { status: 'lapsed' } };
    given(...asked([policy]))
      .when(record([other], 700))
      .then(recorded([other], 700), invalidated(700));
    given(...asked([policy]))
      .when(record([policy], 700))
      .then(recorded([policy], 700));
    given(...grantedByDana)
      .when(record([other], 700))
      .then(recorded([other], 700));
  });

  it.each<Partial<Recorded>>([
    { recheck: 'never' },
    { required: false },
    { source: { kind: 'profile', ref: 'PA-204-5518' } },
    { source: { kind: 'policy', ref: 'PA-204-5519' } },
    { maxAgeSeconds: 86_400 },
  ])('invalidates the open approval that rests on a fact that is now %j, and files nothing', (term) => {
    const other = { ...policy, ...term };
    const same = { name: policy.name, was: policy.value, now: policy.value };
    const outcome = given(...asked([policy])).when(record([other], 700));
    outcome.then(recorded([other], 700), invalidated(700, [same]));
    given(...asked([policy]), recorded([other], 700), invalidated(700, [same]))
      .when(file(701, [inForce]))
      .thenRefused('approval-invalidated', {
        cause: { kind: 'facts-changed', facts: [same] },
        at: seconds(700),
      });
  });

  it('needs the lease, and keeps to two hundred names', () => {
    given(...draftedRun)
      .when({ ...record([policy]), lease: undefined })
      .thenRefused('lease-required');
    const many = Array.from({ length: 201 }, (_, n) => ({ ...policy, name: `fact-${n}` }));
    given(...draftedRun)
      .when(record(many))
      .thenRefused('too-many-facts', { limit: 200 });
    expect(types(given(...draftedRun).when(record(many.slice(1))).outcome)).toEqual(['FactsRecorded']);
  });
});

describe('RequestApproval', () => {
  const ask = (names: string[], after = 30) =>
    ({
      type: 'RequestApproval',
      draftId,
      draftVersion: 1,
      summary: 'A collision.',
      basedOn: names,
      requestedBy: people.assistant,
      expiresInSeconds: 3600,
      lease,
      at: seconds(after),
    }) as const;

  it('rests on facts that the run has and that are young enough', () => {
    const history = [...draftedRun, recorded([policy, statement])];
    expect(types(given(...history).when(ask([policy.name, statement.name], 125)).outcome)).toEqual([
      'ApprovalRequested',
    ]);
    given(...history)
      .when(ask([policy.name, 'guess']))
      .thenRefused('fact-unknown', { facts: ['guess'] });
    given(...history)
      .when(ask([statement.name], 126))
      .thenRefused('fact-outdated', { facts: [statement.name] });
  });
});

describe('a recheck at resume', () => {
  it('is noted with the lease in one append, and unchanged facts are as young as it', () => {
    const outcome = given(...asked([policy])).when(take(700, [inForce]));
    expect(types(outcome.outcome)).toEqual(['FactsRechecked', 'LeaseTaken']);
    expect((outcome.outcome as RunEvent[])[0]).toStrictEqual(
      rechecked(resumed, { unchanged: [policy.name] }, 700),
    );
    expect(outcome.state().facts.get(policy.name)).toMatchObject({ observedAt: seconds(700), version: 1 });
    expect(runStatus(outcome.state(), seconds(700))).toBe('approved');
  });

  it('P23: of a fact that changed invalidates what rests on it; the run needs attention until a worker asks again', () => {
    const outcome = given(...asked([policy])).when(take(700, [lapsed]));
    expect((outcome.outcome as RunEvent[]).slice(0, 2)).toStrictEqual([
      rechecked(resumed, { changed: [change] }, 700),
      invalidated(700),
    ]);
    const state = outcome.state();
    expect(state.approvals.get(approvalId)?.stage).toBe('invalidated');
    expect(state.facts.get(policy.name)).toMatchObject({ value: { status: 'lapsed' }, version: 2 });
    expect(runStatus(state, seconds(701))).toBe('needs-attention');
    const known = run.evolve(state, recorded([{ ...policy, value: { status: 'lapsed' } }], 702));
    expect(known.facts.get(policy.name)?.changedAt).toBeUndefined();
    expect(runStatus(known, seconds(702))).toBe('needs-attention');
  });

  it('leaves the lease untaken while a required fact cannot be looked up; of another it says so', () => {
    const down = says(policy.name, undefined);
    given(...asked([policy]))
      .when(take(700, [down]))
      .thenRefused('facts-unavailable', { facts: [policy.name] });
    const outcome = given(...asked([optional])).when(take(700, [says(optional.name, undefined)]));
    expect((outcome.outcome as RunEvent[])[0]).toStrictEqual(
      rechecked(resumed, { unavailable: [optional.name] }, 700),
    );
  });

  it('is done anew when the facts moved meanwhile, and after the question whether the lease is free', () => {
    given(...asked([policy]))
      .when(take(700))
      .thenRefused('facts-moved');
    given(...asked([policy]))
      .when(take(700, [{ ...inForce, version: 2 }]))
      .thenRefused('facts-moved');
    given(...asked([policy], draftedRun))
      .when(take(2))
      .thenRefused('lease-held', { expiresAt: seconds(61) });
  });

  it('knows a statement by its age alone', () => {
    const young = given(...asked([statement], draftedRun)).when(take(125));
    expect((young.outcome as RunEvent[])[0]).toStrictEqual(
      rechecked(resumed, { unchanged: [statement.name] }, 125),
    );
    expect(young.state().facts.get(statement.name)?.observedAt).toBe(seconds(25));
    const old = given(...asked([statement], draftedRun)).when(take(126));
    const changed = [{ name: statement.name, was: statement.value }];
    expect((old.outcome as RunEvent[])[0]).toStrictEqual(rechecked(resumed, { changed }, 126));
    expect(runStatus(old.state(), seconds(126))).toBe('needs-attention');
  });
});

describe('a recheck at execution', () => {
  it('of what did not change starts the filing, in one append', () => {
    const { outcome } = given(...asked([policy])).when(file(700, [inForce]));
    expect(types(outcome)).toEqual(['FactsRechecked', 'FilingStarted']);
    expect((outcome as RunEvent[])[0]).toStrictEqual(rechecked(executed, { unchanged: [policy.name] }, 700));
  });

  it('of what changed invalidates the approval and files nothing', () => {
    const outcome = given(...asked([policy])).when(file(700, [lapsed]));
    outcome.then(rechecked(executed, { changed: [change] }, 700), invalidated(700));
    expect(runStatus(outcome.state(), seconds(701))).toBe('needs-attention');
  });

  it('waits for a required fact, until the grant has lapsed', () => {
    const down = says(policy.name, undefined);
    given(...asked([policy]))
      .when(file(700, [down]))
      .thenRefused('facts-unavailable', { facts: [policy.name] });
    const executeBy = seconds(600 + 86_400);
    given(...asked([policy]))
      .when(file(600 + 86_400, [inForce]))
      .thenRefused('approval-lapsed', { executeBy });
  });

  it('waits for every fact that the approval rests on, required or not', () => {
    given(...asked([optional]))
      .when(file(700, [says(optional.name, undefined)]))
      .thenRefused('facts-unavailable', { facts: [optional.name] });
  });

  it.each<Partial<Recorded>>([
    { recheck: 'never' },
    { recheck: 'on-resume' },
    { recheck: 'never', source: statement.source },
  ])('files nothing on a fact that is too old, though it is %j', (term) => {
    const aged = { ...policy, ...term, maxAgeSeconds: 675 };
    const changed = [{ name: aged.name, was: aged.value }];
    expect(types(given(...asked([aged])).when(file(700)).outcome)).toEqual(['FilingStarted']);
    given(...asked([aged]))
      .when(file(701))
      .then(rechecked(executed, { changed }, 701), invalidated(701, changed));
  });

  it('looks at the facts that the approval rests on, and at no other', () => {
    const other = { ...policy, name: 'other' };
    const history = [...asked([policy]), recorded([other, statement], 650)];
    const { state } = given(...history);
    expect(factsDue(state(), executed).map(({ name }) => name)).toEqual([policy.name]);
    expect(factsDue(state(), resumed).map(({ name }) => name)).toEqual([policy.name, 'other']);
    const never = { ...policy, recheck: 'never' as const };
    expect(types(given(...asked([never])).when(file(700)).outcome)).toEqual(['FilingStarted']);
  });
});

describe('what a source says', () => {
  const value = (recordedValue: Recorded['value'], found: FactReading['found']) => {
    const fact = { ...policy, value: recordedValue };
    const outcome = given(...asked([fact], draftedRun)).when(take(700, [says(fact.name, found)]));
    return outcome.state().facts.get(fact.name)?.value;
  };
  const found = { status: 'lapsed', inForce: false, version: 2, until: '2026-02-01' };

  it.each([
    [
      { status: 'in-force', until: '2026-12-31' },
      { status: 'lapsed', until: '2026-02-01' },
    ],
    [
      { status: 'in-force', excess: 300 },
      { status: 'lapsed', excess: null },
    ],
    ['in-force', 'lapsed'],
    [true, false],
    [1, 2],
  ])('is compared in the form in which %j was recorded', (known, now) => {
    expect(value(known, found)).toStrictEqual(now);
  });

  it('is the one thing there is, or the whole of it, where no member is of that kind', () => {
    expect(value('sms', { 'contact.channel': null })).toBe(null);
    expect(value(null, { 'contact.channel': 'email' })).toBe('email');
    expect(value(null, found)).toStrictEqual(found);
  });
});
