import { deepStrictEqual, ok } from 'node:assert/strict';
import { isRefusal } from '#libs/decider';
import { changed, customerId, lease, people, runId, salted, tenant } from '#libs/domain/examples';
import type { Standing } from '#libs/domain/staff';
import fc from 'fast-check';
import type { FactReading, LeaseShown, RunCommand, WorkerCommand } from './commands.js';
import { runEvents, type RunEvent } from './events.js';
import { run, runStream } from './run.js';
import type { RunState } from './state.js';

/** One move of somebody; what the numbers stand for depends on where the run is when the move is made. */
interface Move {
  kind: Exclude<RunCommand['type'], 'ForkRun'>;
  pick: number;
  who: number;
  /** What is shown with the command is not what it should be. */
  wrong: boolean;
  waitSeconds: number;
}

const kinds: fc.WeightedArbitrary<Move['kind']>[] = [
  { weight: 15, arbitrary: fc.constantFrom('TakeLease', 'RecordStep', 'SaveWorkerState', 'EnterPhase') },
  { weight: 8, arbitrary: fc.constantFrom('StartRun', 'WithdrawApproval', 'SaveDraft') },
  {
    weight: 60,
    arbitrary: fc.constantFrom('RequestApproval', 'DecideApproval', 'DecideApproval', 'StartFiling'),
  },
  { weight: 5, arbitrary: fc.constant('DelegateApproval') },
  { weight: 10, arbitrary: fc.constantFrom('RecordFacts', 'TakeLease') },
  { weight: 20, arbitrary: fc.constantFrom('SaveDraft', 'NoteReceipt', 'RefuseFiling') },
  { weight: 2, arbitrary: fc.constantFrom('CompleteRun', 'FailRun', 'CancelRun') },
];
const move: fc.Arbitrary<Move> = fc.record({
  kind: fc.oneof(...kinds),
  pick: fc.nat(11),
  who: fc.nat(3),
  wrong: fc.nat(9).map((n) => n === 0),
  waitSeconds: fc.oneof(
    { weight: 20, arbitrary: fc.integer({ min: 0, max: 40 }) },
    { weight: 1, arbitrary: fc.constantFrom(3600, 86_400) },
    { weight: 2, arbitrary: fc.integer({ min: -4000, max: -1 }) },
  ),
});

const workers = ['intake-1', 'intake-2'];
const drafts = ['collision', 'glass'];
const notices = [salted, changed, { ...salted, salt: changed.salt }];
const parties = [people.dana, people.sam, people.assistant, people.carol];
const usd = (amount: string) => ({ amount, currency: 'USD' });

/** Dana decides up to 1500 USD: the one notice of the two; the others all. */
const rights: Record<string, Standing> = {
  [people.dana.sub]: { roles: ['adjuster'], authorityLimit: usd('1500.00') },
  ...Object.fromEntries(parties.slice(1).map(({ sub }) => [sub, { roles: ['supervisor'] }])),
};
const standingOf = ({ sub }: { sub: string }): Standing => rights[sub] ?? { roles: [] };

function newest<T>(values: Iterable<T>, pick: number): T | undefined {
  const list = [...values];
  return list[list.length - 1 - (pick % 3 === 0 && list.length > 1 ? 1 : 0)];
}

function commandOf(
  { kind, pick, who, wrong }: Move,
  state: RunState,
  at: string,
): Exclude<RunCommand, { type: 'ForkRun' }> {
  const { number = 0, secretDigest = '', holder = '' } = state.lease ?? {};
  const shown: LeaseShown = { number: wrong ? number - 1 : number, secretDigest, holder };
  const worker = { lease: wrong && who === 0 ? undefined : shown, at };
  const draftId = drafts[who % 2] ?? '';
  const approval = newest(state.approvals.values(), pick);
  const approvalId = approval?.approvalId ?? `${runId}.1`;
  const party = parties[who] ?? people.dana;
  const step = { stepId: `step-${who}`, name: 'A step', kind: 'tool' as const };
  const status = (['started', 'completed', 'failed'] as const)[pick % 3] ?? 'started';
  const value = { value: pick % 2 };
  switch (kind) {
    case 'StartRun':
      return {
        type: kind,
        runId,
        workflow: { name: 'w', version: '1' },
        customerId,
        customer: people.carol,
        at,
      };
    case 'TakeLease': {
      const workerId = workers[pick % 2] ?? '';
      const heldBy = people.assistant.sub;
      const seconds = { leaseSeconds: 30, takeOver: wrong };
      const found = { readings: readingsOf(state, pick) };
      const taken = { workerId, holder: heldBy, secretDigest: lease.secretDigest, ...seconds };
      return { type: kind, ...taken, ...found, at };
    }
    case 'RecordFacts':
      return { type: kind, facts: [factOf(who, pick)], ...worker };
    case 'EnterPhase':
      return { type: kind, phase: `phase-${pick % 2}`, ...worker };
    case 'RecordStep':
      return { type: kind, ...step, status, input: value, output: value, error: value, ...worker };
    case 'SaveWorkerState':
      return {
        type: kind,
        state: { [`key-${who}`]: pick % 2 ? pick : null },
        patch: pick % 3 > 0,
        ...worker,
      };
    case 'SaveDraft':
      return { type: kind, draftId, content: notices[pick % 3] ?? salted, ...worker };
    case 'RequestApproval': {
      const draftVersion = (state.drafts.get(draftId)?.draftVersion ?? 1) - (wrong ? 1 : 0);
      const basedOn = [...state.facts.keys()].filter((_, at) => (pick + at) % 2 === 0);
      const asked = { summary: 's', basedOn, requestedBy: people.assistant, expiresInSeconds: 600 };
      const twoPersonLimit = usd(pick % 3 ? '1700.00' : '1000.00');
      return {
        type: kind,
        draftId,
        draftVersion,
        ...asked,
        twoPersonLimit,
        executeWithinSeconds: 300,
        ...worker,
      };
    }
    case 'DecideApproval': {
      const decision = pick % 5 === 0 ? 'deny' : 'grant';
      const digest = wrong ? lease.secretDigest : (approval?.digest ?? '');
      return { type: kind, approvalId, decision, digest, decidedBy: party, standing: standingOf(party), at };
    }
    case 'DelegateApproval': {
      const lent = { to: people.dana.sub, delegatedBy: party, standing: standingOf(party) };
      return { type: kind, approvalId, ...lent, expiresInSeconds: 60 * pick, at };
    }
    case 'WithdrawApproval':
      return { type: kind, approvalId, withdrawnBy: who % 2 ? people.assistant : party, at };
    case 'StartFiling':
      return {
        type: kind,
        tenant,
        approvalId,
        standings: wrong ? {} : rights,
        readings: readingsOf(state, pick),
        at,
      };
    case 'NoteReceipt':
      return { type: kind, approvalId, receiptNumber: wrong ? 'R-2' : 'R-1', filedAt: at, at };
    case 'RefuseFiling':
      return { type: kind, approvalId, code: 'already-filed', at };
    case 'CompleteRun':
    case 'FailRun':
      return { type: kind, endedBy: people.assistant, ...worker };
    case 'CancelRun':
      return { type: kind, endedBy: party, at };
  }
}

const FACTS = ['stated', 'held', 'wished'];

function factOf(who: number, pick: number) {
  const name = FACTS[who % 3] ?? '';
  const kind = (['statement', 'policy', 'profile'] as const)[who % 3] ?? 'policy';
  const recheck = (['both', 'on-execution', 'on-resume', 'never'] as const)[pick % 4] ?? 'both';
  const age = kind === 'statement' ? { maxAgeSeconds: 200 } : {};
  return { name, value: pick % 3, source: { kind }, recheck, required: pick % 2 === 0, ...age };
}

/** What the sources say: mostly what is known, now and then another value, nothing, or of a version long gone. */
function readingsOf({ facts }: RunState, pick: number): FactReading[] {
  return [...facts.values()].map(({ name, version, value }) => {
    if (pick === 0) return { name, version };
    return { name, version: pick === 1 ? version - 1 : version, found: { value: pick === 2 ? 7 : value } };
  });
}

type Of<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>;

/** What must hold of a new event after the events before it, told from the stored events alone. */
function check(event: RunEvent, before: readonly RunEvent[], at: string): void {
  const all = <Type extends RunEvent['type']>(type: Type) =>
    before.filter((earlier): earlier is Of<Type> => earlier.type === type);
  const about = (approvalId: string) =>
    before.filter(({ data }) => 'approvalId' in data && data.approvalId === approvalId);
  const filing = before.filter(
    (start): start is Of<'FilingStarted'> =>
      start.type === 'FilingStarted' && about(start.data.approvalId).at(-1)?.type === 'FilingStarted',
  );
  ok(!before.some(({ type }) => ['RunCompleted', 'RunFailed', 'RunCancelled'].includes(type)));
  if (event.type === 'FilingStarted') {
    const { approvalId, draftId, digest } = event.data;
    const grant = about(approvalId).at(-1) as Of<'ApprovalGranted'>;
    deepStrictEqual(grant.type, 'ApprovalGranted');
    deepStrictEqual(grant.data.digest, digest);
    ok(at < grant.data.executeBy);
    const request = before.indexOf(about(approvalId)[0] as RunEvent);
    const { basedOn } = (before[request] as Of<'ApprovalRequested'>).data;
    for (const name of basedOn)
      deepStrictEqual(valueOf(name, before), valueOf(name, before.slice(0, request)));
    for (const name of basedOn)
      deepStrictEqual(termsOf(name, before), termsOf(name, before.slice(0, request)));
    const looked = before.at(-1);
    if (looked?.type === 'FactsRechecked' && looked.data.on.kind === 'execution')
      deepStrictEqual(looked.data.unavailable, []);
    deepStrictEqual(all('DraftSaved').findLast(({ data }) => data.draftId === draftId)?.data.digest, digest);
    deepStrictEqual(
      filing.filter(({ data }) => data.draftId === draftId),
      [],
    );
    deepStrictEqual(
      all('ReceiptNoted').filter(({ data }) => data.draftId === draftId),
      [],
    );
  }
  if (
    event.type === 'ApprovalEndorsed' ||
    event.type === 'ApprovalGranted' ||
    event.type === 'ApprovalDenied'
  ) {
    const asked = about(event.data.approvalId);
    const { draftId, expiresAt, requestedBy, requires } = (asked[0] as Of<'ApprovalRequested'>).data;
    ok(at < expiresAt);
    const { decidedBy, delegatedBy } = event.data;
    const lent = asked.filter((each): each is Of<'ApprovalDelegated'> => each.type === 'ApprovalDelegated');
    const endorsed = asked.filter((each): each is Of<'ApprovalEndorsed'> => each.type === 'ApprovalEndorsed');
    deepStrictEqual(asked.length, 1 + lent.length + endorsed.length);
    const behind = [event, ...endorsed].flatMap(({ data }) =>
      [data.decidedBy.sub, data.delegatedBy ?? []].flat(),
    );
    deepStrictEqual(new Set(behind).size, behind.length);
    ok(!behind.some((sub) => [requestedBy.sub, people.carol.sub].includes(sub)));
    const small = requires.authority.amount === '1250.00';
    ok(delegatedBy === undefined ? small || decidedBy.sub !== people.dana.sub : !small);
    if (delegatedBy !== undefined)
      ok(lent.some(({ data }) => data.delegatedBy.sub === delegatedBy && at < data.endsAt));
    if (event.type === 'ApprovalGranted') deepStrictEqual(endorsed.length + 1, requires.signatures);
    const requests = all('ApprovalRequested').filter(({ data }) => data.draftId === draftId);
    deepStrictEqual(requests.at(-1)?.data.approvalId, event.data.approvalId);
  }
  if (event.type === 'DraftSaved') {
    const versions = all('DraftSaved').filter(({ data }) => data.draftId === event.data.draftId);
    deepStrictEqual(event.data.draftVersion, versions.length + 1);
    ok(!filing.map(({ data }) => data.draftId).includes(event.data.draftId));
  }
  if (event.type === 'StepStarted' || event.type === 'StepCompleted' || event.type === 'StepFailed')
    ok(
      !all('StepCompleted')
        .map(({ data }) => data.stepId)
        .includes(event.data.stepId),
    );
  if (event.type === 'LeaseTaken') deepStrictEqual(event.data.number, all('LeaseTaken').length + 1);
  if (event.type === 'RunCompleted' || event.type === 'RunFailed' || event.type === 'RunCancelled')
    deepStrictEqual(filing, []);
}

/** What the stored events say of a fact. */
function valueOf(name: string, events: readonly RunEvent[]): unknown {
  let value: unknown;
  for (const { type, data } of events) {
    if (type === 'FactsRecorded') value = data.facts.find((fact) => fact.name === name)?.value ?? value;
    if (type === 'FactsRechecked') value = data.changed.find((fact) => fact.name === name)?.now ?? value;
  }
  return value;
}

/** On what terms a fact was recorded last. */
function termsOf(name: string, events: readonly RunEvent[]): unknown {
  const recorded = events
    .flatMap(({ type, data }) => (type === 'FactsRecorded' ? data.facts : []))
    .findLast((fact) => fact.name === name);
  return recorded && { ...recorded, value: undefined };
}

function checkLease(command: WorkerCommand, before: readonly RunEvent[]): void {
  const last = before.findLast((event): event is Of<'LeaseTaken'> => event.type === 'LeaseTaken');
  expect(command.lease).toMatchObject({ number: last?.data.number, holder: last?.data.holder });
}

/** Makes the moves one after the other and checks every step; the answer is the whole history. */
function play(moves: readonly Move[]): RunEvent[] {
  const first: Move = { kind: 'StartRun', pick: 0, who: 0, wrong: false, waitSeconds: 0 };
  const opening: Move[] = [first, { ...first, kind: 'TakeLease' }, { ...first, kind: 'SaveDraft' }];
  const history: RunEvent[] = [];
  let state = run.initialState();
  let now = Date.parse('2026-03-02T09:00:00.000Z');
  for (const made of [...opening, ...moves]) {
    now += made.waitSeconds * 1000;
    const at = new Date(now).toISOString();
    const command = commandOf(made, state, at);
    const untouched = runStream.save(state);
    const outcome = run.decide(command, state);
    deepStrictEqual(runStream.save(state), untouched);
    deepStrictEqual(runStream.load(untouched), state);
    deepStrictEqual(run.decide(command, runStream.load(untouched)), outcome);
    if (isRefusal(outcome)) continue;
    if (outcome.length > 0 && 'lease' in command) checkLease(command, history);
    for (const event of outcome) {
      check(event, history, at);
      deepStrictEqual(runEvents[event.type].parse(event.data), event.data);
      history.push(event);
      state = run.evolve(state, event);
    }
    const again = run.decide(command, state);
    if (command.type !== 'TakeLease') deepStrictEqual(isRefusal(again) ? [] : again, []);
  }
  const folded = history.reduce((fold, event) => run.evolve(fold, event), run.initialState());
  deepStrictEqual(folded, state);
  return history;
}

describe('any history of a run', () => {
  it('files nothing without a live grant, nothing twice, and ends once; saved or folded it is the same', () => {
    const seen = new Map<string, number>();
    fc.assert(
      fc.property(fc.array(move, { minLength: 20, maxLength: 60, size: 'max' }), (moves) => {
        for (const { type } of play(moves)) seen.set(type, (seen.get(type) ?? 0) + 1);
      }),
      { numRuns: 250 },
    );
    const begun = Object.keys(runEvents).filter((type) => type !== 'RunForked');
    expect([...seen.keys()].sort()).toEqual(begun.sort());
  });
});
