import { digestOf, type Json } from '#libs/canonical';
import { happened, refuse } from '#libs/decider';
import { approvalOf, isOpen } from './approvals.js';
import type { ForkRun, Outcome } from './commands.js';
import type { RunEvent } from './events.js';
import { type Approval, type Draft, type RunState, save } from './state.js';
import { later } from './time.js';
import { refuseLease } from './work.js';

type Forked = Extract<RunEvent, { type: 'RunForked' }>['data'];

export function forkRun(command: ForkRun, fork: RunState): Outcome {
  const { source, endedNow, heldLease, lease, bySupervisor, runId, forkedFrom, inlineBytes, payload, at } =
    command;
  if (fork.started) return refuse('run-exists', `The run ${runId} exists, and was started otherwise.`);
  const refused = bySupervisor ? undefined : refuseLease(lease, heldLease ? { lease: heldLease } : {});
  if (refused) return refused;
  if (endedNow && !bySupervisor) return refuse('run-ended', `The run has ${endedNow.status}.`);
  if (source.ended) return refuse('run-ended', `The run had ${source.ended.status} by that revision.`);
  const { customerId, originRunId } = source.started;
  const { state, pending } = forkedState(command);
  const large = inlineBytes !== undefined && Buffer.byteLength(JSON.stringify(state)) > inlineBytes;
  if (large && payload?.of !== digestOf(state))
    return refuse('payload-required', 'The state has to be put into the payload store first.', {
      customerId,
      state,
    });
  const left = large && payload ? { digest: payload.digest, bytes: payload.bytes } : undefined;
  const cites = [left, source.workerState?.payload].flatMap((each) => (each ? [each.digest] : []));
  const from = { runId, originRunId, forkedFrom, customerId };
  return [happened('RunForked', { ...from, state, payload: left, cites, pending, forkedAt: at })];
}

/** The state of the run as its fork begins with it: nobody holds it, and what was open is to be decided anew. */
function forkedState({ source, runId, forkedFrom, openAt, at }: ForkRun): {
  state: Json;
  pending: NonNullable<Forked['pending']>;
} {
  const approvals: Approval[] = [];
  const drafts = [...source.drafts.values()].map((draft): Draft => {
    const { approvalId: _, ...rest } = draft;
    const approval = approvalOf(source, draft);
    if (!approval || !(isOpen(approval, openAt) || approval.stage === 'filed')) return rest;
    const approvalId = `${runId}.${approvals.length + 1}`;
    approvals.push(
      approval.stage === 'filed' ? { ...approval, approvalId } : reopened(approval, approvalId, at),
    );
    return { ...rest, approvalId };
  });
  const { lease: _, ended: __, recheck: ___, ...kept } = source;
  const forked: RunState = {
    ...kept,
    started: { ...source.started, runId },
    forkedFrom,
    drafts: new Map(drafts.map((draft) => [draft.draftId, draft])),
    approvals: new Map(approvals.map((approval) => [approval.approvalId, approval])),
  };
  const pending = approvals
    .filter(({ stage }) => stage === 'pending')
    .map(({ approvalId, draftId, draftVersion, digest }) => ({ approvalId, draftId, draftVersion, digest }));
  return { state: save(forked), pending };
}

/** Without what was decided of it, for as long as it was open to begin with. */
function reopened(approval: Approval, approvalId: string, at: string): Approval {
  const { draftId, draftVersion, digest, summary, basedOn, requestedBy, requires } = approval;
  const { executeWithinSeconds, requestedAt, expiresAt } = approval;
  const openSeconds = (Date.parse(expiresAt) - Date.parse(requestedAt)) / 1000;
  return {
    ...{ approvalId, draftId, draftVersion, digest, summary, basedOn, requestedBy, requires },
    ...{ executeWithinSeconds, requestedAt: at, expiresAt: later(at, openSeconds) },
    stage: 'pending',
    superseded: false,
  };
}
