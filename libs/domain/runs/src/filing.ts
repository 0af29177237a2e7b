import { happened, refuse, type Refusal } from '#libs/decider';
import { claimIdOf } from '#libs/domain/losses';
import { approvalOf, approvalStatus, refuseFallen, refuseLapsed, refuseUnknown } from './approvals.js';
import { lostRights } from './decisions.js';
import type { NoteReceipt, Outcome, RefuseFiling, RunRefusal, StartFiling } from './commands.js';
import { recheck } from './facts.js';
import type { Approval, Run } from './state.js';

const NOTHING_DUE = { events: [], changed: false };

/** A run whose draft does not open has no facts that do; its filing starts only to be refused. */
function isOpened({ draftId }: Approval, { drafts }: Run): boolean {
  const draft = drafts.get(draftId);
  return draft !== undefined && 'notice' in draft.content;
}

export function startFiling(command: StartFiling, run: Run): Outcome {
  const { tenant, approvalId, standings, readings = [], at } = command;
  const approval = run.approvals.get(approvalId);
  if (!approval) return refuseUnknown(approvalId);
  if (approval.filing) return [];
  const refusal = refuseExecution(approval, run, at);
  if (refusal) return refusal;
  const opens = isOpened(approval, run);
  const sub = lostRights(approval, standings, opens);
  if (sub !== undefined) {
    const cause = { kind: 'rights-changed' as const, sub };
    return [happened('ApprovalInvalidated', { approvalId, cause, invalidatedAt: at })];
  }
  const rechecked = opens ? recheck(run, { kind: 'execution', approvalId }, readings, at) : NOTHING_DUE;
  if ('refused' in rechecked) return rechecked;
  if (rechecked.changed) return rechecked.events;
  const { draftId, draftVersion, digest } = approval;
  const claimId = claimIdOf(tenant, run.started.originRunId, draftId);
  const filing = { approvalId, draftId, draftVersion, digest, claimId, startedAt: at };
  return [...rechecked.events, happened('FilingStarted', filing)];
}

function refuseExecution(approval: Approval, run: Run, at: string): Refusal<RunRefusal> | undefined {
  const draft = run.drafts.get(approval.draftId);
  const newest = approvalOf(run, draft);
  if (newest?.stage === 'filing' || newest?.stage === 'filed')
    return refuse('already-filed', 'The draft is filed under another approval.', {
      approvalId: newest.approvalId,
    });
  const fallen = refuseFallen(approval);
  if (fallen) return fallen;
  const status = approvalStatus(approval, at);
  if (status === 'lapsed') return refuseLapsed(approval);
  if (status !== 'granted')
    return refuse('approval-not-granted', `The approval is ${status}, not granted.`, { status });
  if (run.ended) return refuse('run-ended', `The run has ${run.ended.status}.`);
  // A fork whose state does not open has no draft; its filing starts only to be refused.
  if (draft && draft.digest !== approval.digest)
    return refuse('digest-mismatch', 'The draft is not what was approved.', { digest: draft.digest });
  return undefined;
}

export function noteReceipt(command: NoteReceipt, run: Run): Outcome {
  const { approvalId, receiptNumber, filedAt, at } = command;
  const approval = run.approvals.get(approvalId);
  if (!approval) return refuseUnknown(approvalId);
  const { draftId, filing, receipt } = approval;
  if (receipt?.receiptNumber === receiptNumber) return [];
  if (receipt) return refuseReceipt(receipt.receiptNumber);
  if (approval.stage === 'refused') return refuse('filing-refused', 'The filing was refused.');
  if (!filing) return refuseNotStarted();
  const { claimId } = filing;
  return [happened('ReceiptNoted', { approvalId, draftId, claimId, receiptNumber, filedAt, notedAt: at })];
}

export function refuseFiling(command: RefuseFiling, run: Run): Outcome {
  const { approvalId, code, at } = command;
  const approval = run.approvals.get(approvalId);
  if (!approval) return refuseUnknown(approvalId);
  if (approval.stage === 'refused') return [];
  if (approval.receipt) return refuseReceipt(approval.receipt.receiptNumber);
  if (!approval.filing) return refuseNotStarted();
  const { draftId } = approval;
  return [happened('FilingRefused', { approvalId, draftId, code, refusedAt: at })];
}

function refuseReceipt(receiptNumber: string): Refusal<RunRefusal> {
  return refuse('already-filed', 'The claim was filed, and its receipt noted.', { receiptNumber });
}

function refuseNotStarted(): Refusal<RunRefusal> {
  return refuse('filing-not-started', 'No filing was started from this approval.');
}

/** While a claim is being filed the run stays as it is. */
export function refuseWhileFiling(run: Run): Refusal<RunRefusal> | undefined {
  for (const { stage, approvalId } of run.approvals.values())
    if (stage === 'filing')
      return refuse('filing-in-progress', 'A claim is being filed from this run.', { approvalId });
  return undefined;
}
