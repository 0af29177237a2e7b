import { deepStrictEqual, ok } from 'node:assert/strict';
import { digestOf } from '#libs/canonical';
import type { ClaimEvent } from '#libs/domain/claims';
import { people } from '#libs/domain/examples';
import { type Approval, type Draft, type Fact, type RunCommand, type RunEvent } from '#libs/domain/runs';
import { hasAuthority, type Standing } from '#libs/domain/staff';

/** An event with the time at which its command was carried out. */
export interface Recorded {
  readonly event: RunEvent;
  readonly at: string;
}

interface Log {
  readonly runId: string;
  readonly originRunId: string;
  readonly history: readonly Recorded[];
}
interface Around {
  readonly runs: readonly Log[];
  readonly claims: ReadonlyMap<string, { filed?: { origin: { approvalId: string } } }>;
  readonly register: ReadonlyMap<string, Standing>;
  readonly at: string;
}
type Of<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>;
type Filed = Extract<ClaimEvent, { type: 'ClaimFiled' }>['data'];

/** Carol is the customer; Mia acts for her, and she for Mia. */
const INTERESTED = [people.carol.sub, 'mia'];
const WORKING: readonly RunEvent['type'][] = [
  ...(['PhaseEntered', 'StepStarted', 'StepCompleted', 'StepFailed', 'FactsRecorded', 'DraftSaved'] as const),
  ...(['ApprovalRequested', 'WorkerStateSaved', 'RunCompleted', 'RunFailed'] as const),
];

/**
 * The events of a run, the beginning of a fork told as the events it stands for. What must hold is read from these
 * and from the world around, never from a fold or a rule of the product.
 */
function told({ history }: Log): RunEvent[] {
  return history.flatMap(({ event }) => (event.type === 'RunForked' ? beginning(event) : [event]));
}

function beginning({ data: { state } }: Of<'RunForked'>): RunEvent[] {
  const { facts, drafts, approvals } = state as unknown as {
    facts: Fact[];
    drafts: Draft[];
    approvals: Approval[];
  };
  return [
    ...facts.map(({ observedAt, version: _, changedAt: __, ...fact }): RunEvent => {
      return { type: 'FactsRecorded', data: { facts: [fact], observedAt } };
    }),
    ...drafts.map(({ approvalId: _, ...data }): RunEvent => ({ type: 'DraftSaved', data })),
    ...approvals.map(({ stage, ...data }): RunEvent => {
      ok(stage === 'pending' || stage === 'filed');
      return { type: stage === 'filed' ? 'ReceiptNoted' : 'ApprovalRequested', data } as unknown as RunEvent;
    }),
  ];
}

/** What must hold of a new event after those before it. */
export function checkEvent(event: RunEvent, command: RunCommand, log: Log, around: Around): void {
  const before = told(log);
  const { type } = event;
  ok(!before.some((each) => ['RunCompleted', 'RunFailed', 'RunCancelled'].includes(each.type)));
  if (WORKING.includes(type)) checkLease(command, before);
  if (type === 'LeaseTaken') deepStrictEqual(event.data.number, all(before, 'LeaseTaken').length + 1);
  if (type === 'ApprovalEndorsed' || type === 'ApprovalGranted') checkSignature(event, before, around.at);
  if (type === 'FilingStarted') checkFiling(event, command, before, around);
  if (type === 'ReceiptNoted') {
    const { approvalId, claimId } = event.data;
    deepStrictEqual(about(before, approvalId).at(-1)?.type, 'FilingStarted');
    deepStrictEqual(around.claims.get(claimId)?.filed?.origin.approvalId, approvalId);
  }
  if (type === 'FilingRefused')
    deepStrictEqual(about(before, event.data.approvalId).at(-1)?.type, 'FilingStarted');
  if (['DraftSaved', 'ApprovalInvalidated', 'ApprovalWithdrawn'].includes(type))
    checkUndisturbed(event, before);
}

function checkLease(command: RunCommand, before: readonly RunEvent[]): void {
  const newest = all(before, 'LeaseTaken').at(-1)?.data;
  const { number, secretDigest, holder } = newest ?? {};
  ok('lease' in command);
  deepStrictEqual(command.lease, { number, secretDigest, holder });
}

function checkSignature(
  { data }: Of<'ApprovalEndorsed' | 'ApprovalGranted'>,
  before: readonly RunEvent[],
  at: string,
): void {
  const { data: request } = requestOf(before, data.approvalId);
  ok(at < request.expiresAt);
  deepStrictEqual(data.digest, request.digest);
  deepStrictEqual(all(before, 'DraftSaved').findLast(ofDraft(request.draftId))?.data.digest, request.digest);
}

/** A claim may be filed: the grant stands, from as many as it takes who still may, on facts that are still so. */
function checkFiling(
  { data }: Of<'FilingStarted'>,
  command: RunCommand,
  before: readonly RunEvent[],
  { at, register }: Around,
): void {
  const { approvalId, draftId, digest } = data;
  const grant = about(before, approvalId).at(-1) as Of<'ApprovalGranted'>;
  deepStrictEqual(grant.type, 'ApprovalGranted');
  ok(at < grant.data.executeBy);
  const request = requestOf(before, approvalId);
  const { requestedBy, requires, basedOn } = request.data;
  const draft = all(before, 'DraftSaved').findLast(ofDraft(draftId))?.data;
  deepStrictEqual([grant.data.digest, request.data.digest, draft?.digest], [digest, digest, digest]);
  deepStrictEqual(requires.authority, draft?.content.notice.estimatedAmount);
  const signatures = about(before, approvalId).filter(
    (each): each is Of<'ApprovalEndorsed' | 'ApprovalGranted'> =>
      each.type === 'ApprovalEndorsed' || each.type === 'ApprovalGranted',
  );
  deepStrictEqual(signatures.length, Number(requires.authority.amount) > 50_000 ? 2 : 1);
  const behind = signatures.flatMap(({ data: { decidedBy, delegatedBy } }) => [
    decidedBy.sub,
    ...(delegatedBy === undefined ? [] : [delegatedBy]),
  ]);
  deepStrictEqual(new Set(behind).size, behind.length);
  ok(!behind.some((sub) => [...INTERESTED, requestedBy.sub].includes(sub)));
  for (const { data: signed } of signatures) {
    ok(register.has(signed.decidedBy.sub));
    const authority = register.get(signed.delegatedBy ?? signed.decidedBy.sub);
    ok(authority && hasAuthority(authority, requires.authority));
  }
  for (const other of [...all(before, 'ReceiptNoted')]) ok(other.data.draftId !== draftId);
  for (const started of all(before, 'FilingStarted').filter(ofDraft(draftId)))
    deepStrictEqual(about(before, started.data.approvalId).at(-1)?.type, 'FilingRefused');
  const asked = before.slice(0, before.indexOf(request));
  for (const name of basedOn) checkFact(name, command, asked, before, at);
}

function checkFact(
  name: string,
  command: RunCommand,
  asked: readonly RunEvent[],
  before: readonly RunEvent[],
  at: string,
): void {
  const [then, now] = [factIn(name, asked), factIn(name, before)];
  const { observedAt: _, ...known } = then ?? {};
  const { observedAt = '', ...standing } = now ?? {};
  deepStrictEqual(standing, known);
  const { source, recheck, maxAgeSeconds = Infinity } = standing as Omit<Fact, 'version'>;
  const lookedUp = source.kind !== 'statement' && (recheck === 'both' || recheck === 'on-execution');
  if (!lookedUp) return ok(Date.parse(at) <= Date.parse(observedAt) + maxAgeSeconds * 1000);
  const { readings = [] } = command as Extract<RunCommand, { type: 'StartFiling' }>;
  const found = readings.find((reading) => reading.name === name)?.found;
  deepStrictEqual(found, { value: (standing as Partial<Fact>).value });
}

/** What a run's events say of a fact: its value and terms, and when it was last known to be so. */
function factIn(name: string, events: readonly RunEvent[]) {
  let found: (Of<'FactsRecorded'>['data']['facts'][number] & { observedAt: string }) | undefined;
  for (const { type, data } of events) {
    if (type === 'FactsRecorded') {
      const fact = data.facts.find((each) => each.name === name);
      if (fact) found = { ...fact, observedAt: data.observedAt };
    }
    if (type !== 'FactsRechecked' || !found) continue;
    const changed = data.changed.find((each) => each.name === name);
    if (changed?.now !== undefined) found = { ...found, value: changed.now, observedAt: data.recheckedAt };
    if (found.source.kind !== 'statement' && data.unchanged.includes(name))
      found = { ...found, observedAt: data.recheckedAt };
  }
  return found;
}

/** While a claim is being filed nothing about it changes. */
function checkUndisturbed(event: RunEvent, before: readonly RunEvent[]): void {
  for (const { data } of all(before, 'FilingStarted')) {
    const over = about(before, data.approvalId).at(-1)?.type !== 'FilingStarted';
    if (event.type === 'DraftSaved') ok(over || event.data.draftId !== data.draftId);
    else ok(over || (event.data as { approvalId: string }).approvalId !== data.approvalId);
  }
}

/** A claim comes of one filing of one approved draft, and of no other in all branches of its run. */
export function checkClaim({ claimId, origin, content }: Filed, log: Log, { claims }: Around): void {
  ok(!claims.get(claimId)?.filed);
  const before = told(log);
  deepStrictEqual([origin.runId, origin.originRunId], [log.runId, log.originRunId]);
  const started = about(before, origin.approvalId).at(-1) as Of<'FilingStarted'>;
  deepStrictEqual(started.type, 'FilingStarted');
  deepStrictEqual([started.data.claimId, started.data.draftId], [claimId, origin.draftId]);
  const approved = about(before, origin.approvalId).find(({ type }) => type === 'ApprovalGranted');
  deepStrictEqual((approved as Of<'ApprovalGranted'>).data.digest, digestOf(content));
  deepStrictEqual(origin.digest, digestOf(content));
}

function all<Type extends RunEvent['type']>(events: readonly RunEvent[], type: Type): Of<Type>[] {
  return events.filter((event): event is Of<Type> => event.type === type);
}

function about(events: readonly RunEvent[], approvalId: string): RunEvent[] {
  return events.filter(({ data }) => 'approvalId' in data && data.approvalId === approvalId);
}

function requestOf(events: readonly RunEvent[], approvalId: string): Of<'ApprovalRequested'> {
  const request = all(events, 'ApprovalRequested').find(({ data }) => data.approvalId === approvalId);
  ok(request);
  return request;
}

function ofDraft(draftId: string) {
  return ({ data }: { data: { draftId: string } }) => data.draftId === draftId;
}
