import { canonicalJson } from '#libs/canonical';
import { covers, happened, type Money, refuse, type Refusal } from '#libs/decider';
import { hasAuthority, type Standing } from '#libs/domain/staff';
import type { ClaimRefusal, ClaimState, ClaimStatus } from './claim.js';
import type { ClaimEvent, Party } from './events.js';

interface ByStaff {
  /** `customerId`, where the caller's token says they are a customer. */
  by: Party & { customerId?: string };
  at: string;
}

export interface AcknowledgeClaim extends ByStaff {
  type: 'AcknowledgeClaim';
  note?: string;
}

export interface AssessClaim extends ByStaff {
  type: 'AssessClaim';
  amount?: Money;
  findings?: string;
}

export interface SettleClaim extends ByStaff {
  type: 'SettleClaim';
  amount: Money;
  payee: string;
  /** By token and register, as of now. */
  standing: Standing;
  /** Above it a second person is needed, whatever the authority of the first. */
  twoPersonLimit?: Money;
}

interface WithReason extends ByStaff {
  reason: string;
}

export interface RejectClaim extends WithReason {
  type: 'RejectClaim';
}

export interface WithdrawClaim extends WithReason {
  type: 'WithdrawClaim';
}

export interface ReopenClaim extends WithReason {
  type: 'ReopenClaim';
}

export type HandleClaim =
  AcknowledgeClaim | AssessClaim | SettleClaim | RejectClaim | WithdrawClaim | ReopenClaim;
type Filed = NonNullable<ClaimState['filed']>;
type Outcome = ClaimEvent[] | Refusal<ClaimRefusal>;

const OPEN: readonly ClaimStatus[] = ['filed', 'acknowledged', 'assessed', 'reopened'];

/** From which states each step can be taken. */
export const steps: { readonly [Type in HandleClaim['type']]: readonly ClaimStatus[] } = {
  AcknowledgeClaim: ['filed'],
  AssessClaim: ['acknowledged', 'reopened', 'assessed'],
  SettleClaim: ['assessed'],
  RejectClaim: ['acknowledged', 'assessed', 'reopened'],
  WithdrawClaim: OPEN,
  ReopenClaim: ['settled', 'rejected', 'withdrawn'],
};

export function handleClaim(command: HandleClaim, state: ClaimState): Outcome {
  const { filed, status = 'filed' } = state;
  if (!filed) return refuse('not-found', 'There is no such claim.');
  if (!steps[command.type].includes(status))
    return refuse('claim-state', `The claim is ${status}.`, { status, allowed: [...steps[command.type]] });
  if (isInterested(command.by, filed))
    return refuse(
      'four-eyes',
      'The customer, whoever acts for them, and whom they act for cannot work on their claim.',
    );
  return command.type === 'SettleClaim' ? settle(command, state) : [eventOf(command)];
}

function isInterested(by: ByStaff['by'], { customerId, customer }: Filed): boolean {
  const customers = [...(customer ? [customer] : []), { sub: customerId, actFor: [] }];
  return by.customerId === customerId || customers.some((party) => related(by, party));
}

function eventOf(command: Exclude<HandleClaim, SettleClaim>): ClaimEvent {
  const { at } = command;
  const by = partyOf(command.by);
  switch (command.type) {
    case 'AcknowledgeClaim':
      return happened('ClaimAcknowledged', { note: command.note, acknowledgedBy: by, acknowledgedAt: at });
    case 'AssessClaim': {
      const { amount, findings } = command;
      return happened('ClaimAssessed', { amount, findings, assessedBy: by, assessedAt: at });
    }
    case 'RejectClaim':
      return happened('ClaimRejected', { reason: command.reason, rejectedBy: by, rejectedAt: at });
    case 'WithdrawClaim':
      return happened('ClaimWithdrawn', { reason: command.reason, withdrawnBy: by, withdrawnAt: at });
    case 'ReopenClaim':
      return happened('ClaimReopened', { reason: command.reason, reopenedBy: by, reopenedAt: at });
  }
}

/** Alone within one's authority and the two-person limit; else somebody with authority settles what another proposed. */
function settle(command: SettleClaim, { proposal }: ClaimState): Outcome {
  const { amount, payee, standing, twoPersonLimit, at } = command;
  const by = partyOf(command.by);
  const same =
    proposal !== undefined &&
    canonicalJson([proposal.amount, proposal.payee]) === canonicalJson([amount, payee]);
  const own = same && proposal.proposedBy.sub === by.sub;
  const authorized = hasAuthority(standing, amount);
  const alone = authorized && (twoPersonLimit === undefined || covers(twoPersonLimit, amount));
  if (alone) return [happened('ClaimSettled', { amount, payee, settledBy: [by], settledAt: at })];
  if (own) return [];
  if (!same) return [happened('SettlementProposed', { amount, payee, proposedBy: by, proposedAt: at })];
  if (related(by, proposal.proposedBy))
    return refuse(
      'four-eyes',
      'Whoever acts for the one who proposed it, or the other way, is no second person.',
    );
  if (!authorized)
    return refuse('over-authority', 'The amount is above what you may settle.', {
      limit: standing.authorityLimit ?? null,
      amount,
    });
  return [happened('ClaimSettled', { amount, payee, settledBy: [proposal.proposedBy, by], settledAt: at })];
}

function related(one: Party, other: Party): boolean {
  return one.sub === other.sub || one.actFor.includes(other.sub) || other.actFor.includes(one.sub);
}

function partyOf({ sub, actFor }: ByStaff['by']): Party {
  return { sub, actFor };
}
