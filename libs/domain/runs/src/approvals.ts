import { canonicalJson, digestOf } from '#libs/canonical';
import { covers, happened, refuse, type Refusal } from '#libs/decider';
import type { Outcome, RequestApproval, RunRefusal, SaveDraft, WithdrawApproval } from './commands.js';
import type { Party, RunEvent } from './events.js';
import type { Approval, Draft, Fact, Run, RunState } from './state.js';
import { later } from './time.js';

export type ApprovalStatus = Approval['stage'] | 'endorsed' | 'expired' | 'lapsed';

const ONE_DAY = 86_400;
/** Ending a run withdraws what is open in one append, which has to fit whatever else is in it. */
const MOST_OPEN = 50;

export function approvalStatus(approval: Approval, at: string): ApprovalStatus {
  const { stage, superseded, endorsements, expiresAt, executeBy = expiresAt } = approval;
  if (stage === 'pending' && (superseded || at >= expiresAt)) return 'expired';
  if (stage === 'pending' && endorsements) return 'endorsed';
  if (stage === 'granted' && (superseded || at >= executeBy)) return 'lapsed';
  return stage;
}

export function isOpen(approval: Approval, at: string): boolean {
  return ['pending', 'endorsed', 'granted'].includes(approvalStatus(approval, at));
}

/** The newest approval of a draft, the only one of it that can be open, filing or filed. */
export function approvalOf(run: RunState, draft: Draft | undefined): Approval | undefined {
  return draft?.approvalId === undefined ? undefined : run.approvals.get(draft.approvalId);
}

export function saveDraft({ draftId, content, at }: SaveDraft, run: Run): Outcome {
  const draft = run.drafts.get(draftId);
  if (draft && canonicalJson(draft.content.notice) === canonicalJson(content.notice)) return [];
  const approval = approvalOf(run, draft);
  const filed = refuseFiled(approval);
  if (filed) return filed;
  const draftVersion = (draft?.draftVersion ?? 0) + 1;
  const digest = digestOf(content);
  const kind = 'claim' as const;
  const saved = happened('DraftSaved', { draftId, draftVersion, kind, content, digest, savedAt: at });
  if (!approval || !isOpen(approval, at)) return [saved];
  const cause = { kind: 'draft-changed' as const, draftVersion, digest };
  const { approvalId } = approval;
  return [saved, happened('ApprovalInvalidated', { approvalId, cause, invalidatedAt: at })];
}

function refuseFiled(approval: Approval | undefined): Refusal<RunRefusal> | undefined {
  if (approval?.stage === 'filing')
    return refuse('filing-in-progress', 'The claim is being filed from this draft.', {
      approvalId: approval.approvalId,
    });
  if (approval?.stage === 'filed')
    return refuse('already-filed', 'The claim was filed from this draft.', {
      approvalId: approval.approvalId,
      claimId: approval.filing?.claimId,
    });
  return undefined;
}

export function requestApproval(command: RequestApproval, run: Run): Outcome {
  const draft = run.drafts.get(command.draftId);
  if (!draft) return refuse('draft-unknown', `The run has no draft ${command.draftId}.`);
  const { draftId, draftVersion, digest, content } = draft;
  const approval = approvalOf(run, draft);
  const filed = refuseFiled(approval);
  if (filed) return filed;
  if (command.draftVersion !== draftVersion)
    return refuse('draft-outdated', `The newest version of the draft is ${draftVersion}.`, { draftVersion });
  if (approval && isOpen(approval, command.at))
    return refuse('approval-open', 'An approval of this draft is open.', {
      approvalId: approval.approvalId,
    });
  const unfit = refuseFacts(command, run);
  if (unfit) return unfit;
  const open = [...run.approvals.values()].filter((each) => isOpen(each, command.at)).length;
  if (open >= MOST_OPEN)
    return refuse('too-many-approvals', `The run has ${open} open approvals.`, { limit: MOST_OPEN });
  const { estimatedAmount: authority } = content.notice;
  const { twoPersonLimit } = command;
  const signatures = twoPersonLimit && !covers(twoPersonLimit, authority) ? (2 as const) : (1 as const);
  return [
    happened('ApprovalRequested', {
      approvalId: `${run.started.runId}.${run.approvals.size + 1}`,
      draftId,
      draftVersion,
      digest,
      summary: command.summary,
      basedOn: command.basedOn,
      requestedBy: command.requestedBy,
      requires: { signatures, authority },
      executeWithinSeconds: command.executeWithinSeconds ?? ONE_DAY,
      requestedAt: command.at,
      expiresAt: later(command.at, command.expiresInSeconds),
    }),
  ];
}

function refuseFacts({ basedOn, at }: RequestApproval, run: Run): Refusal<RunRefusal> | undefined {
  const unknown = basedOn.filter((name) => !run.facts.has(name));
  if (unknown.length > 0) return refuse('fact-unknown', 'The run has no such facts.', { facts: unknown });
  const outdated = basedOn.filter((name) => isOutdated(run.facts.get(name), at));
  if (outdated.length > 0)
    return refuse('fact-outdated', 'These facts are older than they may be.', { facts: outdated });
  return undefined;
}

/** A fact that may be so old, and is older. */
export function isOutdated(fact: Fact | undefined, at: string): boolean {
  return fact?.maxAgeSeconds !== undefined && at > later(fact.observedAt, fact.maxAgeSeconds);
}

export function refuseUnknown(approvalId: string): Refusal<RunRefusal> {
  return refuse('approval-unknown', `The run has no approval ${approvalId}.`, { approvalId });
}

export function hasFallen({ stage }: Approval): boolean {
  return stage === 'withdrawn' || stage === 'invalidated';
}

/** Why an approval can no longer be decided or withdrawn, or undefined while it is pending. */
export function refuseClosed(approval: Approval, at: string): Refusal<RunRefusal> | undefined {
  const { decision, expiresAt } = approval;
  const fallen = refuseFallen(approval);
  if (fallen) return fallen;
  if (decision)
    return refuse('already-decided', 'The approval was decided.', {
      decision: decision.decision,
      by: decision.decidedBy.sub,
      at: decision.decidedAt,
    });
  if (approvalStatus(approval, at) === 'expired')
    return refuse('approval-expired', `The approval expired at ${expiresAt}.`, { expiresAt });
  return undefined;
}

export function refuseFallen({ withdrawal, invalidation }: Approval): Refusal<RunRefusal> | undefined {
  if (withdrawal)
    return refuse('approval-withdrawn', 'The approval was withdrawn.', {
      because: withdrawal.because,
      by: withdrawal.withdrawnBy.sub,
      at: withdrawal.withdrawnAt,
    });
  if (invalidation)
    return refuse('approval-invalidated', 'What the approval was asked for has changed.', {
      cause: invalidation.cause,
      at: invalidation.invalidatedAt,
    });
  return undefined;
}

export function withdrawApproval(command: WithdrawApproval, run: Run): Outcome {
  const { approvalId, withdrawnBy, reason, at } = command;
  const approval = run.approvals.get(approvalId);
  if (!approval) return refuseUnknown(approvalId);
  if (withdrawnBy.sub !== approval.requestedBy.sub)
    return refuse('not-permitted', 'Only who asked for an approval may withdraw it.');
  if (approval.withdrawal?.because === 'requested') return [];
  const filed = refuseFiled(approval);
  if (filed) return filed;
  const status = approvalStatus(approval, at);
  if (status === 'lapsed') return refuseLapsed(approval);
  const closed = status === 'granted' ? undefined : refuseClosed(approval, at);
  if (closed) return closed;
  if (run.ended) return refuse('run-ended', `The run has ${run.ended.status}.`);
  return [withdrawn(approval, 'requested', withdrawnBy, reason, at)];
}

export function refuseLapsed({ executeBy }: Approval): Refusal<RunRefusal> {
  return refuse('approval-lapsed', 'The grant was not executed in time.', { executeBy });
}

function withdrawn(
  { approvalId }: Approval,
  because: 'requested' | 'run-ended',
  withdrawnBy: Party,
  reason: string | undefined,
  at: string,
): RunEvent {
  return happened('ApprovalWithdrawn', { approvalId, because, withdrawnBy, reason, withdrawnAt: at });
}

/** What ending a run does to its approvals. */
export function withdrawOpen(run: Run, endedBy: Party, at: string): RunEvent[] {
  return [...run.approvals.values()]
    .filter((approval) => isOpen(approval, at))
    .map((approval) => withdrawn(approval, 'run-ended', endedBy, undefined, at));
}
