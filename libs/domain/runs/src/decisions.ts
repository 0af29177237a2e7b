import { happened, refuse, type Money, type Refusal } from '#libs/decider';
import { hasAuthority, type Standing } from '#libs/domain/staff';
import { hasFallen, refuseClosed, refuseUnknown } from './approvals.js';
import type { DecideApproval, Decider, DelegateApproval, Outcome, RunRefusal } from './commands.js';
import type { Party } from './events.js';
import type { Approval, Run, Signature } from './state.js';
import { later } from './time.js';

type Signed = Pick<Signature, 'decidedBy'> & { delegatedBy?: string | undefined };
type Lent = Pick<NonNullable<Approval['delegations']>[number], 'to' | 'delegatedBy' | 'endsAt'>;

/** The customer of a run. */
interface About {
  customerId: string;
  customer?: Party | undefined;
}

/** An approval, as far as it settles who may decide it. */
interface Asked extends Pick<Approval, 'requestedBy'> {
  requires: { authority: Money };
  endorsements?: readonly Signed[] | undefined;
  delegations?: readonly Lent[] | undefined;
}

export function decideApproval(command: DecideApproval, run: Run): Outcome {
  const { approvalId, decision, digest, decidedBy, standing, comment, at } = command;
  const approval = run.approvals.get(approvalId);
  if (!approval) return refuseUnknown(approvalId);
  if (digest !== approval.digest)
    return refuse('digest-mismatch', 'This is not the digest that the approval is for.', {
      digest: approval.digest,
    });
  if (isRepeated(approval, decision, decidedBy.sub) && !hasFallen(approval)) return [];
  const closed = refuseClosed(approval, at) ?? refuseEnded(run);
  if (closed) return closed;
  const refused = refuseDecider(run.started, approval, decidedBy, standing, at);
  if (refused) return refused;
  const delegatedBy = delegatorOf(approval, decidedBy, standing, at)?.sub;
  const made = { approvalId, digest, decidedBy: partyOf(decidedBy), delegatedBy, comment };
  if (decision === 'deny') return [happened('ApprovalDenied', { ...made, deniedAt: at })];
  if (signaturesOf(approval).length + 1 < approval.requires.signatures)
    return [happened('ApprovalEndorsed', { ...made, endorsedAt: at })];
  const executeBy = later(at, approval.executeWithinSeconds);
  return [happened('ApprovalGranted', { ...made, grantedAt: at, executeBy })];
}

/** Of an approval that is open: whether its run's customer, who asked and who signed leave it to the decider. */
export function mayDecide(
  about: About,
  approval: Asked,
  decider: Decider,
  standing: Standing,
  at: string,
): boolean {
  return refuseDecider(about, approval, decider, standing, at) === undefined;
}

function refuseDecider(
  about: About,
  approval: Asked,
  decider: Decider,
  standing: Standing,
  at: string,
): Refusal<RunRefusal> | undefined {
  const { authority } = approval.requires;
  const delegator = delegatorOf(approval, decider, standing, at);
  if (!fourEyes(decider, approval, about) || signedBefore(approval, decider, delegator))
    return refuseFourEyes();
  if (!delegator && !hasAuthority(standing, authority)) return refuseAuthority(standing, authority);
  return undefined;
}

function isRepeated(
  { decision: taken, endorsements = [] }: Approval,
  decision: string,
  sub: string,
): boolean {
  if (taken?.decision !== decision) return false;
  const signers = decision === 'grant' ? [...endorsements, taken] : [taken];
  return signers.some(({ decidedBy }) => decidedBy.sub === sub);
}

export function delegateApproval(command: DelegateApproval, run: Run): Outcome {
  const { approvalId, to, delegatedBy, standing, expiresInSeconds, at } = command;
  const approval = run.approvals.get(approvalId);
  if (!approval) return refuseUnknown(approvalId);
  const closed = refuseClosed(approval, at) ?? refuseEnded(run);
  if (closed) return closed;
  if (!standing.roles.includes('supervisor'))
    return refuse('not-permitted', 'Only a supervisor delegates a decision.');
  const delegate = { sub: to, actFor: [] };
  const { started } = run;
  const independent = fourEyes(delegatedBy, approval, started) && fourEyes(delegate, approval, started);
  if (!independent || to === delegatedBy.sub) return refuseFourEyes();
  const { authority } = approval.requires;
  if (!hasAuthority(standing, authority)) return refuseAuthority(standing, authority);
  const asked = expiresInSeconds === undefined ? approval.expiresAt : later(at, expiresInSeconds);
  const endsAt = asked < approval.expiresAt ? asked : approval.expiresAt;
  const standingOne = approval.delegations?.find((each) => each.to === to);
  if (standingOne?.endsAt === endsAt && standingOne.delegatedBy.sub === delegatedBy.sub) return [];
  if (signaturesOf(approval).some(({ decidedBy }) => decidedBy.sub === to)) return refuseFourEyes();
  const made = { approvalId, to, delegatedBy: partyOf(delegatedBy), delegatedAt: at, endsAt };
  return [happened('ApprovalDelegated', made)];
}

/** Nobody where the decider's own authority is enough. */
function delegatorOf(
  { requires, delegations = [] }: Asked,
  { sub }: Decider,
  standing: Standing,
  at: string,
): Party | undefined {
  if (hasAuthority(standing, requires.authority)) return undefined;
  return delegations.find(({ to, endsAt }) => to === sub && at < endsAt)?.delegatedBy;
}

/** In the order in which they were given. */
export function signaturesOf({ endorsements = [], decision }: Approval): Signature[] {
  return decision?.decision === 'grant' ? [...endorsements, decision] : endorsements;
}

/** Everybody whose rights a grant rests on. */
export function signersOf(approval: Approval): string[] {
  const subjects = signaturesOf(approval).flatMap(({ decidedBy, delegatedBy }) => [
    decidedBy.sub,
    delegatedBy,
  ]);
  return [...new Set(subjects.filter((sub) => sub !== undefined))];
}

/**
 * The first on whose rights the grant rests and who has them no longer. The amount of a draft that cannot be opened
 * any more is compared with nothing: filing ends at that.
 */
export function lostRights(
  approval: Approval,
  standings: Readonly<Record<string, Standing>>,
  draftOpens = true,
): string | undefined {
  const { authority } = approval.requires;
  const opened = draftOpens && typeof authority.amount === 'string';
  for (const { decidedBy, delegatedBy } of signaturesOf(approval)) {
    const own = standings[decidedBy.sub];
    if (!own) return decidedBy.sub;
    const behind = delegatedBy === undefined ? own : standings[delegatedBy];
    if (!behind || (opened && !hasAuthority(behind, authority))) return delegatedBy ?? decidedBy.sub;
    if (delegatedBy !== undefined && !behind.roles.includes('supervisor')) return delegatedBy;
  }
  return undefined;
}

/** Nobody decides who asked, is the customer, acts for either, or has either acting for them. */
function fourEyes(decider: Decider, { requestedBy }: Asked, { customerId, customer }: About): boolean {
  const interested = [requestedBy, ...(customer ? [customer] : []), { sub: customerId, actFor: [] }];
  return decider.customerId !== customerId && !interested.some((party) => related(decider, party));
}

/** One pair of eyes is not two: nobody behind a signature is, or is tied by acting for to, anybody behind another. */
function signedBefore(
  { endorsements = [], delegations = [] }: Asked,
  decider: Party,
  delegator: Party | undefined,
): boolean {
  const behind = delegator ? [decider, delegator] : [decider];
  return endorsements
    .flatMap((signature) => partiesBehind(signature, delegations))
    .some((earlier) => behind.some((party) => related(party, earlier)));
}

/** Nothing is delegated to who has signed, so that the delegation a signature rests on stays as it was. */
function partiesBehind({ decidedBy, delegatedBy }: Signed, delegations: readonly Lent[]): Party[] {
  if (delegatedBy === undefined) return [decidedBy];
  const used = delegations.find((each) => each.to === decidedBy.sub && each.delegatedBy.sub === delegatedBy);
  return [decidedBy, used?.delegatedBy ?? { sub: delegatedBy, actFor: [] }];
}

function related(one: Party, other: Party): boolean {
  return one.sub === other.sub || one.actFor.includes(other.sub) || other.actFor.includes(one.sub);
}

function partyOf({ sub, actFor }: Decider): Party {
  return { sub, actFor };
}

function refuseEnded({ ended }: Run): Refusal<RunRefusal> | undefined {
  return ended && refuse('run-ended', `The run has ${ended.status}.`);
}

function refuseFourEyes(): Refusal<RunRefusal> {
  return refuse(
    'four-eyes',
    'The requester, the customer, whoever acts for either or has either acting for them, and whoever signed already cannot sign this.',
  );
}

function refuseAuthority({ authorityLimit }: Standing, amount: Money): Refusal<RunRefusal> {
  return refuse('over-authority', 'The amount is above what you may decide.', {
    limit: authorityLimit ?? null,
    amount,
  });
}
