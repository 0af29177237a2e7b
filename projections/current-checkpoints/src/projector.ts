import type { DomainEvent } from '#libs/decider';
import {
  type Approval as RunApproval,
  foldWorkerState,
  type RunEvent,
  type RunState,
  runStream,
  type WorkerState,
} from '#libs/domain/runs';
import { type Fold, type Recorded, Unprojectable, defineProjection } from '#libs/projecting';
import { type Approval, type Checkpoint, checkpoint, type Fact } from './document.js';

const RECENT = 10;

type Of<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>;
type StepEvent = Of<'StepStarted'> | Of<'StepCompleted'> | Of<'StepFailed'>;
type StepStatus = Checkpoint['steps']['recent'][number]['status'];

export const currentCheckpoints = defineProjection<Checkpoint, RunEvent>({
  name: 'current-checkpoints',
  version: 3,
  category: 'run',
  document: checkpoint,
  indexes: [
    { key: { tenant: 1, created: -1 } },
    { key: { tenant: 1, customerId: 1, created: -1 } },
    { key: { tenant: 1, phase: 1, created: -1 } },
    { key: { tenant: 1, updatedAt: 1 } },
  ],
  customerOf: (doc) => doc.customerId,
  fold: {
    RunStarted: {
      begins: ({ data, metadata }) => ({
        runId: data.runId,
        originRunId: data.originRunId,
        customerId: data.customerId,
        ...(data.customer && { customer: data.customer }),
        ...(data.conversationId !== undefined && { conversationId: data.conversationId }),
        workflow: data.workflow,
        ...(data.input !== undefined && { input: data.input }),
        steps: { completed: 0, open: [], failed: [], recent: [] },
        drafts: [],
        facts: [],
        approvals: [],
        startedAt: data.startedAt,
        updatedAt: metadata.recordedAt,
      }),
    },
    RunForked: {
      begins: ({ data, metadata, revision }) => {
        if (data.state === undefined)
          throw new Unprojectable('payload-missing', 'the state of the fork is away');
        const state = runStream.load(data.state);
        return { ...forkedDocument(state, revision.toString()), updatedAt: metadata.recordedAt };
      },
    },
    LeaseTaken: updating((doc, { data }) => {
      const { number, workerId, holder, expiresAt } = data;
      return { ...doc, lease: { number, workerId, holder, expiresAt } };
    }),
    PhaseEntered: updating((doc, { data }) => ({ ...doc, phase: data.phase })),
    StepStarted: updating((doc, event) => withStep(doc, event, 'started', event.data.startedAt)),
    StepCompleted: updating((doc, event) => withStep(doc, event, 'completed', event.data.completedAt)),
    StepFailed: updating((doc, event) => withStep(doc, event, 'failed', event.data.failedAt)),
    DraftSaved: updating((doc, { data }) => {
      const { draftId, draftVersion, kind, digest, savedAt, content } = data;
      const draft = { draftId, draftVersion, kind, digest, notice: content.notice, savedAt };
      const at = doc.drafts.findIndex((other) => other.draftId === draftId);
      return {
        ...doc,
        drafts: at < 0 ? [...doc.drafts, draft] : doc.drafts.with(at, draft),
        approvals: superseding(doc.approvals, draftId),
      };
    }),
    FactsRecorded: updating((doc, { data: { facts, observedAt }, revision }) => {
      const recorded = facts.map((fact) => ({ ...fact, observedAt, revision: revision.toString() }));
      return { ...doc, facts: recorded.reduce(withFact, doc.facts) };
    }),
    FactsRechecked: updating((doc, { data, revision }) => {
      const { unchanged, changed, unavailable, recheckedAt: at } = data;
      const facts = doc.facts.map((fact) => {
        if (unchanged.includes(fact.name) && fact.source.kind !== 'statement')
          return { ...fact, observedAt: at };
        const change = changed.find(({ name }) => name === fact.name);
        return change ? changedFact(fact, change.now, at, revision) : fact;
      });
      return { ...doc, facts, recheck: { unchanged, changed, unavailable, at } };
    }),
    ApprovalRequested: updating((doc, { data }) => {
      const { executeWithinSeconds: _, ...asked } = data;
      const older = superseding(doc.approvals, asked.draftId, { newest: false });
      const facts = doc.facts.map((fact) => (asked.basedOn.includes(fact.name) ? acknowledged(fact) : fact));
      return {
        ...doc,
        facts,
        approvals: [...older, { ...asked, state: 'pending', newest: true, decidedBy: [] }],
      };
    }),
    ApprovalDelegated: approving(({ to, delegatedBy, delegatedAt, endsAt }, { delegations = [] }) => ({
      delegations: [
        ...delegations.filter((other) => other.to !== to),
        { to, by: delegatedBy, at: delegatedAt, endsAt },
      ],
    })),
    ApprovalEndorsed: approving(({ endorsedAt, decidedBy, ...rest }, { endorsements = [], ...approval }) => ({
      decidedBy: [...approval.decidedBy, decidedBy],
      endorsements: [...endorsements, { by: decidedBy, at: endorsedAt, ...signature(rest) }],
    })),
    ApprovalGranted: approving(({ grantedAt, executeBy, decidedBy, ...rest }, approval) => ({
      state: 'granted',
      decidedBy: [...approval.decidedBy, decidedBy],
      decidedAt: grantedAt,
      ...signature(rest),
      executeBy,
    })),
    ApprovalDenied: approving(({ deniedAt, decidedBy, ...rest }, approval) => ({
      state: 'denied',
      decidedBy: [...approval.decidedBy, decidedBy],
      decidedAt: deniedAt,
      ...signature(rest),
    })),
    ApprovalWithdrawn: approving(({ because, withdrawnBy, reason, withdrawnAt }) => ({
      state: 'withdrawn',
      withdrawal: { because, by: withdrawnBy, ...(reason !== undefined && { reason }), at: withdrawnAt },
    })),
    ApprovalInvalidated: approving(({ cause, invalidatedAt }) => ({
      state: 'invalidated',
      invalidation: { cause, at: invalidatedAt },
    })),
    WorkerStateSaved: updating((doc, { data }) => {
      return { ...doc, workerState: withoutCount(foldWorkerState(doc.workerState, data)) };
    }),
    FilingStarted: approving(({ claimId, startedAt }) => ({
      state: 'filing',
      claimId,
      filingStartedAt: startedAt,
    })),
    ReceiptNoted: approving(({ claimId, receiptNumber, filedAt }) => ({
      state: 'filed',
      claimId,
      receiptNumber,
      filedAt,
    })),
    FilingRefused: approving(({ code, refusedAt }) => ({
      state: 'refused',
      refusal: { code, at: refusedAt },
    })),
    RunCompleted: updating((doc, { data }) => ending(doc, 'completed', data, data.completedAt)),
    RunFailed: updating((doc, { data }) => ending(doc, 'failed', data, data.failedAt)),
    RunCancelled: updating((doc, { data }) => ending(doc, 'cancelled', data, data.cancelledAt)),
  },
});

/** What folding the other run's events, and reopening its approvals, would have made. */
function forkedDocument(
  { started, forkedFrom, phase, steps, facts, drafts, approvals, workerState }: RunState,
  revision: string,
): Omit<Checkpoint, 'updatedAt'> {
  if (!started) throw new Unprojectable('no-start', 'the fork of a run that was not started');
  const of = (status: StepStatus) => [...steps.values()].filter((step) => step.status === status);
  const mark = ({ stepId, kind, at }: { stepId: string; kind: StepEvent['data']['kind']; at: string }) => ({
    stepId,
    kind,
    at,
    revision,
  });
  return {
    ...started,
    ...(forkedFrom && { forkedFrom }),
    ...(phase !== undefined && { phase }),
    steps: {
      completed: of('completed').length,
      open: of('started').map(mark),
      failed: of('failed').map(({ stepId }) => stepId),
      recent: [...steps.values()].slice(-RECENT).map((step) => ({ ...mark(step), status: step.status })),
    },
    facts: [...facts.values()].map(({ version: _, ...fact }) => ({ ...fact, revision })),
    drafts: [...drafts.values()].map(({ content, approvalId: _, ...draft }) => ({
      ...draft,
      notice: content.notice,
    })),
    approvals: [...approvals.values()].map((approval) => forkedApproval(approval)),
    ...(workerState && { workerState: withoutCount(workerState) }),
  };
}

function withoutCount({
  differenceBytes: _,
  ...workerState
}: WorkerState): NonNullable<Checkpoint['workerState']> {
  return workerState;
}

/** Pending again, or filed: a fork begins with no others. */
function forkedApproval(approval: RunApproval): Approval {
  const { approvalId, draftId, draftVersion, digest, summary, basedOn, requestedBy, requires } = approval;
  const { requestedAt, expiresAt, decision, executeBy, filing, receipt } = approval;
  const asked = { approvalId, draftId, draftVersion, digest, summary, basedOn, requestedBy, requires };
  const common = { ...asked, requestedAt, expiresAt, newest: true };
  if (approval.stage !== 'filed') return { ...common, state: 'pending', decidedBy: [] };
  return {
    ...common,
    state: 'filed',
    decidedBy: decision ? [decision.decidedBy] : [],
    ...(decision && { decidedAt: decision.decidedAt }),
    ...(decision?.comment !== undefined && { comment: decision.comment }),
    ...(executeBy !== undefined && { executeBy }),
    ...(filing && { claimId: filing.claimId, filingStartedAt: filing.startedAt }),
    ...(receipt && { receiptNumber: receipt.receiptNumber, filedAt: receipt.filedAt }),
  };
}

function updating<Event extends DomainEvent>(fold: Fold<Checkpoint, Event>): Fold<Checkpoint, Event> {
  return (doc, event) => ({ ...fold(doc, event), updatedAt: event.metadata.recordedAt });
}

function withFact(facts: Fact[], fact: Fact): Fact[] {
  const at = facts.findIndex(({ name }) => name === fact.name);
  return at < 0 ? [...facts, fact] : facts.with(at, fact);
}

function changedFact(fact: Fact, now: Fact['value'] | undefined, at: string, revision: bigint): Fact {
  const known = now === undefined ? {} : { value: now, observedAt: at, revision: revision.toString() };
  return { ...fact, ...known, changedAt: at };
}

function acknowledged({ changedAt: _, ...fact }: Fact): Fact {
  return fact;
}

/** A newer version or approval of a draft closes whatever approval of it was open. */
function superseding(approvals: Approval[], draftId: string, change: Partial<Approval> = {}): Approval[] {
  const closed = { pending: 'expired', granted: 'lapsed' } as const;
  return approvals.map((approval) => {
    if (approval.draftId !== draftId) return approval;
    const { state } = approval;
    return {
      ...approval,
      ...change,
      ...((state === 'pending' || state === 'granted') && { state: closed[state] }),
    };
  });
}

function signature({ delegatedBy, comment }: { delegatedBy?: string; comment?: string }) {
  return { ...(delegatedBy !== undefined && { delegatedBy }), ...(comment !== undefined && { comment }) };
}

type ApprovalData = Extract<RunEvent, { data: { approvalId: string } }>['data'];

function approving<Data extends ApprovalData>(
  change: (data: Data, approval: Approval) => Partial<Approval>,
): Fold<Checkpoint, DomainEvent<RunEvent['type'], Data>> {
  return updating((doc, event) => {
    const { approvalId } = event.data;
    const at = doc.approvals.findIndex((approval) => approval.approvalId === approvalId);
    const approval = doc.approvals[at];
    if (!approval) throw new Unprojectable('unknown-approval', `${event.type} for approval ${approvalId}`);
    return { ...doc, approvals: doc.approvals.with(at, { ...approval, ...change(event.data, approval) }) };
  });
}

function withStep(doc: Checkpoint, event: Recorded<StepEvent>, status: StepStatus, at: string): Checkpoint {
  const { stepId, kind } = event.data;
  const mark = { stepId, kind, at, revision: event.revision.toString() };
  const { completed, open, failed, recent } = doc.steps;
  const others = <Mark extends { stepId: string }>(marks: Mark[]) =>
    marks.filter((other) => other.stepId !== stepId);
  return {
    ...doc,
    steps: {
      completed: completed + (status === 'completed' ? 1 : 0),
      open: status === 'started' ? [...others(open), mark] : others(open),
      failed:
        status === 'failed'
          ? [...failed.filter((id) => id !== stepId), stepId]
          : failed.filter((id) => id !== stepId),
      recent: [...others(recent), { ...mark, status }].slice(-RECENT),
    },
  };
}

type Ending = NonNullable<Checkpoint['ended']>;

function ending(
  doc: Checkpoint,
  status: Ending['status'],
  { reason, output }: Pick<Ending, 'reason' | 'output'>,
  at: string,
): Checkpoint {
  const ended = {
    status,
    ...(reason !== undefined && { reason }),
    ...(output !== undefined && { output }),
    at,
  };
  return { ...doc, ended };
}
