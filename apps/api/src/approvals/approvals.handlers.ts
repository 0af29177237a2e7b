import {
  Command,
  CommandHandler,
  type ICommandHandler,
  type IQueryHandler,
  Query,
  QueryHandler,
} from '@nestjs/cqrs';
import { CheckpointQueries, present, type PresentedRun } from '#projections/current-checkpoints';
import type { Identity } from '#libs/access';
import type { RunState } from '#libs/domain/runs';
import type { Handled } from '#libs/event-store';
import type { Call } from '../calls.js';
import type { Read } from '../dispatch.js';
import { notFound } from '../problems.js';
import type { Paging } from '../routes.js';
import { runFor } from '../runs/runs.queries.js';
import { partyOf, Runs } from '../runs/runs.js';
import type { DecisionBody, WithdrawBody } from './approvals.schemas.js';

interface Decided {
  approvalId: string;
  status: 'granted' | 'denied';
  /** Signatures that are still missing. */
  remaining: number;
}

export class DecideApproval extends Command<Handled<Decided>> {
  constructor(readonly call: Call<DecisionBody>) {
    super();
  }
}

@CommandHandler(DecideApproval)
export class DecideApprovalHandler implements ICommandHandler<DecideApproval> {
  constructor(private readonly runs: Runs) {}

  execute({ call }: DecideApproval) {
    const { at, who, body } = call;
    const approvalId = call.param('approvalId');
    const { customerId } = who;
    const decidedBy = { ...partyOf(who), ...(customerId === undefined ? {} : { customerId }) };
    const command = { type: 'DecideApproval', at, approvalId, decidedBy, ...body } as const;
    return this.runs.handle(call, command, (run) => decided(run, approvalId));
  }
}

function decided(run: RunState, approvalId: string): Decided {
  const status = run.approvals.get(approvalId)?.decision?.decision === 'grant' ? 'granted' : 'denied';
  return { approvalId, status, remaining: 0 };
}

export class WithdrawApproval extends Command<Handled<{ approvalId: string; status: 'withdrawn' }>> {
  constructor(readonly call: Call<WithdrawBody>) {
    super();
  }
}

@CommandHandler(WithdrawApproval)
export class WithdrawApprovalHandler implements ICommandHandler<WithdrawApproval> {
  constructor(private readonly runs: Runs) {}

  execute({ call }: WithdrawApproval) {
    const { at, who, body } = call;
    const approvalId = call.param('approvalId');
    const command = { type: 'WithdrawApproval', at, approvalId, withdrawnBy: partyOf(who), ...body } as const;
    return this.runs.handle(call, command, () => ({ approvalId, status: 'withdrawn' as const }));
  }
}

type ShownApproval = ReturnType<typeof shown>;

function shown(run: PresentedRun, approval: PresentedRun['approvals'][number]) {
  const { runId, customerId } = run;
  return { ...approval, runId, customerId };
}

export class ReadApproval extends Query<Read<ShownApproval & Record<string, unknown>>> {
  constructor(readonly call: Call) {
    super();
  }
}

@QueryHandler(ReadApproval)
export class ReadApprovalHandler implements IQueryHandler<ReadApproval> {
  constructor(private readonly queries: CheckpointQueries) {}

  async execute({ call }: ReadApproval) {
    const view = await runFor(call, this.queries);
    const run = present(view, call.at);
    const approval = run.approvals.find(({ approvalId }) => approvalId === call.param('approvalId'));
    if (!approval) throw notFound();
    const { revision, position } = view;
    const answer = { ...shown(run, approval), ...asShown(run, approval), revision: run.revision };
    return { answer, revision, position };
  }
}

/** What the approval was asked for: the draft, where it still has that version, and who decided what. */
function asShown(
  run: PresentedRun,
  { draftId, draftVersion, decidedBy, decidedAt, status, comment }: PresentedRun['approvals'][number],
) {
  const draft = run.drafts.find((each) => each.draftId === draftId && each.draftVersion === draftVersion);
  const decision = status === 'denied' ? 'deny' : 'grant';
  const decisions = decidedBy.map(({ sub }) => ({
    decision,
    by: sub,
    at: decidedAt,
    ...(comment && { comment }),
  }));
  return { facts: [], decisions, ...(draft && { draft }) };
}

export class ListApprovals extends Query<{
  items: ShownApproval[];
  nextCursor: string | null;
  serverTime: string;
}> {
  constructor(readonly call: Call<undefined, Paging & { runId?: string }>) {
    super();
  }
}

/** Pages are of runs; an item is one of their pending approvals, so that a page may hold more or fewer. */
@QueryHandler(ListApprovals)
export class ListApprovalsHandler implements IQueryHandler<ListApprovals> {
  constructor(private readonly queries: CheckpointQueries) {}

  async execute({ call }: ListApprovals) {
    call.demand({});
    const { who, at, query } = call;
    const filters = { pendingApproval: true, runId: query.runId };
    const { items, ...rest } = await this.queries.list({ tenant: who.tenant }, filters, query, at);
    return { items: items.flatMap((run) => decidableBy(who, run)), ...rest, serverTime: at };
  }
}

function decidableBy(who: Identity, run: PresentedRun): ShownApproval[] {
  if (who.customerId === run.customerId) return [];
  return run.approvals
    .filter(({ status, requestedBy }) => status === 'pending' && !related(who, requestedBy))
    .map((approval) => shown(run, approval));
}

function related(who: Identity, { sub, actFor }: { sub: string; actFor: string[] }): boolean {
  return who.sub === sub || who.actFor.includes(sub) || actFor.includes(who.sub);
}
