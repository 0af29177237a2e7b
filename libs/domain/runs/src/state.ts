import { digestOf, type Json } from '#libs/canonical';
import { acknowledge, factFolds } from './fact-folds.js';
import type { Party, RunEvent } from './events.js';
import { foldWorkerState, type WorkerState } from './worker-state.js';

type DataOf<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>['data'];

export interface Step {
  stepId: string;
  name: string;
  kind: DataOf<'StepStarted'>['kind'];
  status: 'started' | 'completed' | 'failed';
  /** Of the input, output or error that this status came with. */
  digest: string;
  at: string;
}

export interface Draft extends DataOf<'DraftSaved'> {
  /** The newest approval asked for; an older one is never open. */
  approvalId?: string;
}

export interface Signature {
  decidedBy: Party;
  /** On whose authority, where not on their own. */
  delegatedBy?: string;
  comment?: string;
  decidedAt: string;
}

export interface Approval extends DataOf<'ApprovalRequested'> {
  stage: 'pending' | 'granted' | 'denied' | 'withdrawn' | 'invalidated' | 'filing' | 'filed' | 'refused';
  /** A newer version or a newer approval of its draft stands: it is no longer open, whatever the time. */
  superseded: boolean;
  /** The signatures before the one that decided. */
  endorsements?: Signature[];
  delegations?: Omit<DataOf<'ApprovalDelegated'>, 'approvalId'>[];
  decision?: Signature & { decision: 'grant' | 'deny' };
  executeBy?: string;
  withdrawal?: Omit<DataOf<'ApprovalWithdrawn'>, 'approvalId'>;
  invalidation?: Omit<DataOf<'ApprovalInvalidated'>, 'approvalId'>;
  filing?: { claimId: string; startedAt: string };
  receipt?: { receiptNumber: string; filedAt: string; notedAt: string };
  refusal?: { code: string; refusedAt: string };
}

type Recorded = DataOf<'FactsRecorded'>['facts'][number];

export interface Fact extends Recorded {
  /** When it was last known to be so. */
  observedAt: string;
  /** Grows whenever the value may have changed. */
  version: number;
  /** A recheck found another value, or that it is too old, and no worker has answered to that yet. */
  changedAt?: string;
}

export interface RunState {
  started?: DataOf<'RunStarted'>;
  /** The run, and its revision, whose state this one began with. */
  forkedFrom?: DataOf<'RunForked'>['forkedFrom'];
  phase?: string;
  lease?: DataOf<'LeaseTaken'>;
  steps: Map<string, Step>;
  facts: Map<string, Fact>;
  /** The last one. */
  recheck?: DataOf<'FactsRechecked'>;
  drafts: Map<string, Draft>;
  approvals: Map<string, Approval>;
  workerState?: WorkerState;
  ended?: { status: 'completed' | 'failed' | 'cancelled'; reason?: string; output?: Json; endedAt: string };
}

/** A run that was started. */
export type Run = RunState & { started: DataOf<'RunStarted'> };

export function initialState(): RunState {
  return { steps: new Map(), facts: new Map(), drafts: new Map(), approvals: new Map() };
}

type Folds = { [Type in RunEvent['type']]: (state: RunState, data: DataOf<Type>) => void };

export const folds: Folds = {
  RunStarted: (state, data) => void (state.started = data),
  RunForked: (state, data) => {
    const { runId, originRunId, customerId, forkedFrom, pending = [], forkedAt } = data;
    // What stands in the clear holds also where the content does not open: whose run it is, and that it is one.
    state.started = { runId, originRunId, customerId, workflow: UNKNOWN_WORKFLOW, startedAt: forkedAt };
    state.forkedFrom = forkedFrom;
    for (const known of pending) state.approvals.set(known.approvalId, unopened(known, forkedAt));
    if (!isSaved(data.state)) throw new Error('the state of the fork cannot be opened');
    Object.assign(state, load(data.state));
  },
  LeaseTaken: (state, data) => void (state.lease = data),
  PhaseEntered: (state, data) => void (state.phase = data.phase),
  StepStarted: (state, data) => setStep(state, data, 'started', data.input, data.startedAt),
  StepCompleted: (state, data) => setStep(state, data, 'completed', data.output, data.completedAt),
  StepFailed: (state, data) => setStep(state, data, 'failed', data.error, data.failedAt),
  ...factFolds,
  DraftSaved: (state, data) => {
    const { approvalId } = supersede(state, data.draftId);
    state.drafts.set(data.draftId, { ...data, ...(approvalId && { approvalId }) });
  },
  ApprovalRequested: (state, data) => {
    supersede(state, data.draftId);
    acknowledge(state, data.basedOn);
    const draft = state.drafts.get(data.draftId);
    if (draft) draft.approvalId = data.approvalId;
    state.approvals.set(data.approvalId, { ...data, stage: 'pending', superseded: false });
  },
  ApprovalDelegated: (state, { approvalId, ...delegation }) => {
    const others = approvalIn(state, approvalId).delegations?.filter(({ to }) => to !== delegation.to) ?? [];
    change(state, approvalId, { delegations: [...others, delegation] });
  },
  ApprovalEndorsed: (state, data) => {
    const { endorsements = [] } = approvalIn(state, data.approvalId);
    change(state, data.approvalId, { endorsements: [...endorsements, signature(data, data.endorsedAt)] });
  },
  ApprovalGranted: (state, data) => {
    const { approvalId, grantedAt, executeBy } = data;
    const decision = { decision: 'grant' as const, ...signature(data, grantedAt) };
    change(state, approvalId, { stage: 'granted', decision, executeBy });
  },
  ApprovalDenied: (state, data) => {
    const decision = { decision: 'deny' as const, ...signature(data, data.deniedAt) };
    change(state, data.approvalId, { stage: 'denied', decision });
  },
  ApprovalWithdrawn: (state, { approvalId, ...withdrawal }) =>
    change(state, approvalId, { stage: 'withdrawn', withdrawal }),
  ApprovalInvalidated: (state, { approvalId, ...invalidation }) =>
    change(state, approvalId, { stage: 'invalidated', invalidation }),
  WorkerStateSaved: (state, data) => void (state.workerState = foldWorkerState(state.workerState, data)),
  FilingStarted: (state, data) => {
    const { approvalId, claimId, startedAt } = data;
    if (state.forkedFrom && !state.approvals.has(approvalId))
      state.approvals.set(approvalId, unopened(data, startedAt));
    change(state, approvalId, { stage: 'filing', filing: { claimId, startedAt } });
  },
  ReceiptNoted: (state, { approvalId, receiptNumber, filedAt, notedAt }) =>
    change(state, approvalId, { stage: 'filed', receipt: { receiptNumber, filedAt, notedAt } }),
  FilingRefused: (state, { approvalId, code, refusedAt }) =>
    change(state, approvalId, { stage: 'refused', refusal: { code, refusedAt } }),
  RunCompleted: (state, { completedAt, ...rest }) => end(state, 'completed', completedAt, rest),
  RunFailed: (state, { failedAt, ...rest }) => end(state, 'failed', failedAt, rest),
  RunCancelled: (state, { cancelledAt, ...rest }) => end(state, 'cancelled', cancelledAt, rest),
};

const UNKNOWN_WORKFLOW = { name: 'unknown', version: 'unknown' };

export function evolve(state: RunState, event: RunEvent): RunState {
  if (!Object.hasOwn(folds, event.type)) throw new Error(`a run has no event ${event.type}`);
  const fold = folds[event.type] as (state: RunState, data: RunEvent['data']) => void;
  fold(state, event.data);
  return state;
}

/** All that is known of an approval in a fork whose content does not open: enough for its filing to be refused. */
function unopened(
  { approvalId, draftId, draftVersion, digest }: NonNullable<DataOf<'RunForked'>['pending']>[number],
  at: string,
): Approval {
  return {
    ...{ approvalId, draftId, draftVersion, digest, summary: '', basedOn: [], executeWithinSeconds: 1 },
    requestedBy: { sub: 'unknown', actFor: [] },
    requires: { signatures: 1, authority: { amount: '0', currency: 'XXX' } },
    ...{ requestedAt: at, expiresAt: at, stage: 'pending', superseded: false },
  };
}

function setStep(
  state: RunState,
  { stepId, name, kind }: Pick<DataOf<'StepStarted'>, 'stepId' | 'name' | 'kind'>,
  status: Step['status'],
  result: Json | undefined,
  at: string,
): void {
  state.steps.set(stepId, { stepId, name, kind, status, digest: stepDigest(result), at });
}

export function stepDigest(result: Json | undefined): string {
  return digestOf({ result });
}

function supersede(state: RunState, draftId: string): { approvalId?: string } {
  const approvalId = state.drafts.get(draftId)?.approvalId;
  const approval = approvalId === undefined ? undefined : state.approvals.get(approvalId);
  if (approval) approval.superseded = true;
  return approvalId === undefined ? {} : { approvalId };
}

function signature(
  { decidedBy, delegatedBy, comment }: Omit<Signature, 'decidedAt'>,
  decidedAt: string,
): Signature {
  return {
    decidedBy,
    ...(delegatedBy !== undefined && { delegatedBy }),
    ...(comment !== undefined && { comment }),
    decidedAt,
  };
}

function approvalIn(state: RunState, approvalId: string): Approval {
  const approval = state.approvals.get(approvalId);
  if (!approval) throw new Error(`the run has no approval ${approvalId}`);
  return approval;
}

function change(state: RunState, approvalId: string, changes: Partial<Approval>): void {
  Object.assign(approvalIn(state, approvalId), changes);
}

function end(
  state: RunState,
  status: NonNullable<RunState['ended']>['status'],
  endedAt: string,
  rest: { reason?: string; output?: Json },
): void {
  state.ended = { status, endedAt, ...rest };
}

type Saved = Omit<RunState, 'steps' | 'facts' | 'drafts' | 'approvals'> & {
  steps: Step[];
  facts: Fact[];
  drafts: Draft[];
  approvals: Approval[];
};

function isSaved(state: Json | undefined): state is Json {
  return typeof state === 'object' && state !== null && 'steps' in state;
}

/** Copies what later events change in place, and shares the rest. */
export function save(state: RunState): Json {
  const saved: Saved = {
    ...state,
    steps: [...state.steps.values()],
    facts: [...state.facts.values()],
    drafts: [...state.drafts.values()].map((draft) => ({ ...draft })),
    approvals: [...state.approvals.values()].map((approval) => ({ ...approval })),
  };
  return saved as unknown as Json;
}

export function load(json: Json): RunState {
  const saved = json as unknown as Saved;
  return {
    ...saved,
    steps: new Map(saved.steps.map((step) => [step.stepId, step])),
    facts: new Map(saved.facts.map((fact) => [fact.name, fact])),
    drafts: new Map(saved.drafts.map((draft) => [draft.draftId, { ...draft }])),
    approvals: new Map(saved.approvals.map((approval) => [approval.approvalId, { ...approval }])),
  };
}
