import type { View } from '#libs/projecting';
import type { Approval, Checkpoint } from './document.js';

export type RunStatus =
  'completed' | 'failed' | 'cancelled' | 'needs-attention' | 'filing' | 'approved' | 'waiting' | 'open';
export type ApprovalStatus = Approval['state'] | 'endorsed';

const OPEN_STEPS = 200;

/** Time closes what is open, whether or not anything was recorded. */
function approvalStatus(approval: Approval, now: string): ApprovalStatus {
  if (approval.state === 'pending' && approval.expiresAt <= now) return 'expired';
  if (approval.state === 'pending' && approval.endorsements) return 'endorsed';
  if (approval.state === 'granted' && approval.executeBy !== undefined && approval.executeBy <= now)
    return 'lapsed';
  return approval.state;
}

function runStatus(doc: Checkpoint, now: string): RunStatus {
  if (doc.ended) return doc.ended.status;
  const approvals = doc.approvals.filter((a) => a.newest);
  const newest = new Set(approvals.map((a) => approvalStatus(a, now)));
  const recheckFailed = approvals.some(
    ({ invalidation }) => invalidation && invalidation.cause.kind !== 'draft-changed',
  );
  const changed = doc.facts.some(({ changedAt }) => changedAt !== undefined);
  if (changed || recheckFailed || newest.has('refused') || newest.has('lapsed')) return 'needs-attention';
  if (newest.has('filing')) return 'filing';
  if (newest.has('granted')) return 'approved';
  return newest.has('pending') || newest.has('endorsed') ? 'waiting' : 'open';
}

/** What a reader is shown of a run at a time: a single read and a list item are both made here. */
export function present({ doc, tenant, revision }: View<Checkpoint>, now: string) {
  const { customer: _, steps, approvals, startedAt, updatedAt, ...rest } = doc;
  const started = steps.open.length;
  const failed = steps.failed.length;
  return {
    ...rest,
    tenant,
    status: runStatus(doc, now),
    steps: {
      total: steps.completed + started + failed,
      started,
      completed: steps.completed,
      failed,
      open: steps.open.slice(0, OPEN_STEPS),
      recent: steps.recent,
    },
    approvals: approvals
      .map(({ state: __, newest: ___, ...approval }) => approval)
      .map((approval, at) => ({
        ...approval,
        status: approvalStatus(approvals[at] as Approval, now),
      })),
    startedAt,
    updatedAt,
    revision: revision.toString(),
  };
}
export type PresentedRun = ReturnType<typeof present>;

type Condition = Record<string, unknown>;

/** The runs that `present` would show with a status at that time, as a condition on what is stored. */
export function withStatus(status: RunStatus, now: string): Condition {
  const newest = (condition: Condition) => ({ approvals: { $elemMatch: { newest: true, ...condition } } });
  const attention = {
    $or: [
      newest({ state: { $in: ['refused', 'lapsed'] } }),
      newest({ state: 'granted', executeBy: { $lte: now } }),
      newest({ state: 'invalidated', 'invalidation.cause.kind': { $ne: 'draft-changed' } }),
      { 'facts.changedAt': { $exists: true } },
    ],
  };
  const filing = newest({ state: 'filing' });
  const approved = newest({ state: 'granted', executeBy: { $gt: now } });
  const waiting = newest({ state: 'pending', expiresAt: { $gt: now } });
  const running = (holds: Condition[], holdsNot: Condition[]) => ({
    $and: [{ ended: { $exists: false } }, ...holds],
    ...(holdsNot.length > 0 && { $nor: holdsNot }),
  });
  switch (status) {
    case 'completed':
    case 'failed':
    case 'cancelled':
      return { 'ended.status': status };
    case 'needs-attention':
      return running([attention], []);
    case 'filing':
      return running([filing], [attention]);
    case 'approved':
      return running([approved], [attention, filing]);
    case 'waiting':
      return running([waiting], [attention, filing, approved]);
    case 'open':
      return running([], [attention, filing, approved, waiting]);
  }
}
