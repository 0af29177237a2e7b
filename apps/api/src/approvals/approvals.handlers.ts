import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { standingIn } from '#apps/platform';
import { type RunState, signaturesOf } from '#libs/domain/runs';
import type { Standing } from '#libs/domain/staff';
import { EventStore, type Handled } from '#libs/event-store';
import type { Call } from '../calls.js';
import { deciderOf, partyOf, Runs } from '../runs/runs.js';
import type { DecisionBody, DelegateBody, WithdrawBody } from './approvals.schemas.js';

interface Decided {
  approvalId: string;
  status: 'endorsed' | 'granted' | 'denied';
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
  constructor(
    private readonly runs: Runs,
    private readonly store: EventStore,
  ) {}

  async execute({ call }: DecideApproval) {
    const { at, who, body } = call;
    const approvalId = call.param('approvalId');
    const standing = (await standingIn(this.store, who)) ?? NONE;
    const command = {
      type: 'DecideApproval',
      at,
      approvalId,
      decidedBy: deciderOf(who),
      standing,
      ...body,
    } as const;
    return this.runs.handle(call, command, (run) => decided(run, approvalId), { standing: standing.roles });
  }
}

/** Of whoever the register does not know: the policy refuses them, whatever the rule would say. */
const NONE: Standing = { roles: [] };

function decided(run: RunState, approvalId: string): Decided {
  const approval = run.approvals.get(approvalId);
  if (!approval) throw new Error('an approval that was decided is not in its run');
  if (approval.decision?.decision === 'deny') return { approvalId, status: 'denied', remaining: 0 };
  const remaining = approval.requires.signatures - signaturesOf(approval).length;
  return { approvalId, status: remaining > 0 ? 'endorsed' : 'granted', remaining };
}

interface Delegated {
  approvalId: string;
  to: { sub: string };
  endsAt: string;
}

export class DelegateApproval extends Command<Handled<Delegated>> {
  constructor(readonly call: Call<DelegateBody>) {
    super();
  }
}

@CommandHandler(DelegateApproval)
export class DelegateApprovalHandler implements ICommandHandler<DelegateApproval> {
  constructor(
    private readonly runs: Runs,
    private readonly store: EventStore,
  ) {}

  async execute({ call }: DelegateApproval) {
    const { at, who, body } = call;
    const approvalId = call.param('approvalId');
    const { to, expiresInSeconds } = body;
    const standing = (await standingIn(this.store, who)) ?? NONE;
    const asked = { to: to.sub, delegatedBy: deciderOf(who), standing, expiresInSeconds };
    return this.runs.handle(
      call,
      { type: 'DelegateApproval', at, approvalId, ...asked },
      (run) => ({ approvalId, to, endsAt: endOf(run, approvalId, to.sub) }),
      { standing: standing.roles },
    );
  }
}

function endOf(run: RunState, approvalId: string, sub: string): string {
  const delegation = run.approvals.get(approvalId)?.delegations?.find(({ to }) => to === sub);
  if (!delegation) throw new Error('a delegation that was made is not in its run');
  return delegation.endsAt;
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
