import { type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import {
  CheckpointQueries,
  present,
  type PresentedApproval,
  type PresentedRun,
} from '#projections/current-checkpoints';
import { standingIn } from '#apps/platform';
import { mayDecide } from '#libs/domain/runs';
import { EventStore } from '#libs/event-store';
import type { Call } from '../calls.js';
import type { Read } from '../dispatch.js';
import { notFound } from '../problems.js';
import type { Paging } from '../routes.js';
import { deciderOf } from '../runs/runs.js';
import { runFor } from '../runs/runs.queries.js';

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
function asShown(run: PresentedRun, approval: PresentedApproval) {
  const { basedOn, draftId, draftVersion } = approval;
  const facts = run.facts.filter(({ name }) => basedOn.includes(name));
  const draft = run.drafts.find((each) => each.draftId === draftId && each.draftVersion === draftVersion);
  return { facts, decisions: decisionsOf(approval), ...(draft && { draft }) };
}

interface Decision {
  decision: 'grant' | 'deny';
  by: string;
  at: string;
  delegatedBy?: string | undefined;
  comment?: string | undefined;
}

function decisionsOf(approval: PresentedApproval): Decision[] {
  const { endorsements = [], decidedBy, decidedAt, status, delegatedBy, comment } = approval;
  const before = endorsements.map(({ by, ...rest }) => ({ decision: 'grant' as const, by: by.sub, ...rest }));
  const last = decidedBy.at(-1);
  if (!last || decidedAt === undefined) return before;
  const decision = status === 'denied' ? ('deny' as const) : ('grant' as const);
  return [...before, { decision, by: last.sub, at: decidedAt, delegatedBy, comment }];
}

export interface ListFilters {
  readonly status: 'pending' | 'granted' | 'lapsed';
  readonly role?: 'adjuster' | 'supervisor';
  readonly runId?: string;
}

interface ApprovalPage {
  items: ShownApproval[];
  nextCursor: string | null;
  serverTime: string;
}

export class ListApprovals extends Query<ApprovalPage> {
  constructor(readonly call: Call<undefined, Paging & ListFilters>) {
    super();
  }
}

@QueryHandler(ListApprovals)
export class ListApprovalsHandler implements IQueryHandler<ListApprovals> {
  constructor(
    private readonly queries: CheckpointQueries,
    private readonly store: EventStore,
  ) {}

  async execute({ call }: ListApprovals): Promise<ApprovalPage> {
    call.demand({});
    const { who, at, query } = call;
    const wanted = query.status === 'pending' ? await this.decidable(call) : notExecuted(query.status, at);
    const found = wanted && { runId: query.runId, ...wanted };
    const { items, nextCursor } = await this.queries.approvals({ tenant: who.tenant }, found, query, at);
    return { items: items.map(({ run, approval }) => shown(run, approval)), nextCursor, serverTime: at };
  }

  /** Nothing for whoever the register does not know. */
  private async decidable({ who, query, at }: Call<undefined, ListFilters>) {
    const roles = who.roles.filter((role) => query.role === undefined || role === query.role);
    const standing = await standingIn(this.store, { ...who, roles });
    if (!standing) return undefined;
    const stored = { newest: true, state: 'pending', expiresAt: { $gt: at } };
    const passes: Wanted['passes'] = (approval, about) =>
      (approval.status === 'pending' || approval.status === 'endorsed') &&
      mayDecide(about, asked(approval), deciderOf(who), standing, at);
    return { stored, passes };
  }
}

type Wanted = NonNullable<Parameters<CheckpointQueries['approvals']>[1]>;

function asked({ requestedBy, requires, endorsements, delegations }: PresentedApproval) {
  return {
    requestedBy,
    requires,
    endorsements: endorsements?.map(({ by, delegatedBy }) => ({ decidedBy: by, delegatedBy })),
    delegations: delegations?.map(({ to, by, endsAt }) => ({ to, delegatedBy: by, endsAt })),
  };
}

function notExecuted(status: 'granted' | 'lapsed', at: string) {
  const executeBy = status === 'granted' ? { $gt: at } : { $lte: at };
  return {
    stored: { newest: true, state: 'granted', executeBy },
    passes: (approval: PresentedApproval) => approval.status === status,
  };
}
