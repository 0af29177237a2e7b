import type { Identity, Role } from './identity.js';

/**
 * `hidden`: the caller may not even know that it exists. `forbidden`: they may read it, but not do this to it.
 */
export type Verdict = 'yes' | 'forbidden' | 'hidden';

/** What a policy may look at of the record it is asked about. */
export interface Subject {
  readonly customerId?: string;
  /** Resuming although another worker's lease is live. */
  readonly takeOver?: boolean;
  /** An assistant works for this customer: it holds a run of theirs, or began the conversation. */
  readonly assigned?: boolean;
  /** For whom a message speaks. */
  readonly speaker?: 'customer' | 'assistant' | 'staff';
  /** The roles that remain to the caller by the staff register; absent for whoever may not act by it. */
  readonly standing?: readonly Role[] | undefined;
  /** The tenant has no supervisor in the register yet. */
  readonly founding?: boolean;
}

type Policy = (who: Identity, subject: Subject) => Verdict;

const is = (who: Identity, ...roles: Role[]) => roles.some((role) => who.roles.includes(role));
const isCustomer = (who: Identity, subject: Subject) =>
  is(who, 'customer') && who.customerId !== undefined && who.customerId === subject.customerId;

const readsRun = (who: Identity, run: Subject) =>
  is(who, 'assistant', 'adjuster', 'supervisor') || isCustomer(who, run);
const readsClaim = (who: Identity, claim: Subject) =>
  is(who, 'adjuster', 'supervisor') || isCustomer(who, claim);

const hears = (who: Identity, conversation: Subject) =>
  is(who, 'adjuster', 'supervisor') ||
  isCustomer(who, conversation) ||
  (is(who, 'assistant') && conversation.assigned === true);

/** Everybody speaks for themselves alone. */
const speaks = (who: Identity, { speaker, ...conversation }: Subject) => {
  if (speaker === 'customer') return isCustomer(who, conversation);
  if (speaker === 'assistant') return is(who, 'assistant');
  return speaker === 'staff' && is(who, 'adjuster', 'supervisor');
};
const readsProfile = (who: Identity, profile: Subject) => isCustomer(who, profile) || serves(who, profile);
const serves = (who: Identity, { assigned }: Subject) => is(who, 'assistant') && assigned === true;

/** To those who may read the record, no means forbidden; to everyone else the record does not exist. */
const on =
  (
    reads: (who: Identity, subject: Subject) => boolean,
    may: (who: Identity, subject: Subject) => boolean,
  ): Policy =>
  (who, subject) => {
    if (!reads(who, subject)) return 'hidden';
    return may(who, subject) ? 'yes' : 'forbidden';
  };

/** For what is no record of anybody's: a list, a new record, the service itself. */
const role =
  (...roles: Role[]): Policy =>
  (who) =>
    is(who, ...roles) ? 'yes' : 'forbidden';

const works = (who: Identity) => is(who, 'assistant', 'supervisor');

/** The whole of what anyone may do, after the People table of the product. What is not here is not allowed. */
export const policies = {
  'runs.start': (who, run) => (is(who, 'assistant') || isCustomer(who, run) ? 'yes' : 'forbidden'),
  'runs.list': role('customer', 'assistant', 'adjuster', 'supervisor'),
  'runs.read': on(readsRun, readsRun),
  'runs.read-checkpoint': on(readsRun, (who) => is(who, 'assistant', 'adjuster', 'supervisor')),
  'runs.resume': on(
    readsRun,
    (who, { takeOver }) => is(who, 'supervisor') || (is(who, 'assistant') && !takeOver),
  ),
  'runs.work': on(readsRun, works),
  'runs.fork': on(readsRun, works),
  'runs.cancel': on(readsRun, (who, run) => is(who, 'adjuster', 'supervisor') || isCustomer(who, run)),
  'approvals.list': role('adjuster', 'supervisor'),
  'approvals.read': on(readsRun, (who) => is(who, 'assistant', 'adjuster', 'supervisor')),
  'approvals.decide': on(
    readsRun,
    (who, { standing = [] }) =>
      is(who, 'adjuster', 'supervisor') && !is(who, 'assistant') && standing.length > 0,
  ),
  'approvals.delegate': on(
    readsRun,
    (who, { standing = [] }) =>
      is(who, 'supervisor') && !is(who, 'assistant') && standing.includes('supervisor'),
  ),
  'approvals.withdraw': on(readsRun, works),
  'conversations.begin': (who, conversation) =>
    is(who, 'assistant', 'adjuster', 'supervisor') || isCustomer(who, conversation) ? 'yes' : 'forbidden',
  'conversations.read': on(hears, hears),
  'conversations.speak': on(hears, speaks),
  'conversations.delete': on(hears, isCustomer),
  'retention.read': role('privacy-officer'),
  'retention.set': role('privacy-officer'),
  'claims.list': role('customer', 'adjuster', 'supervisor'),
  'claims.read': on(readsClaim, readsClaim),
  'claims.work': on(
    readsClaim,
    (who, { standing = [] }) => is(who, 'adjuster', 'supervisor') && standing.length > 0,
  ),
  'claims.read-provenance': on(readsClaim, (who) => is(who, 'adjuster', 'supervisor')),
  'staff.list': role('supervisor'),
  'staff.register': (who, { standing = [], founding = false }) =>
    is(who, 'supervisor') && (standing.includes('supervisor') || founding) ? 'yes' : 'forbidden',
  'profiles.read': on(readsProfile, readsProfile),
  'profiles.propose': on(readsProfile, serves),
  'profiles.own': on(readsProfile, isCustomer),
  'projections.read': role('operator'),
  'projections.rebuild': role('operator'),
} satisfies Record<string, Policy>;

export type PolicyName = keyof typeof policies;

const VERDICTS: readonly unknown[] = ['yes', 'forbidden', 'hidden'] satisfies Verdict[];

/** Asks a policy. One that is missing, answers nothing, or throws, is a no that gives nothing away. */
export function judge(
  name: string,
  who: Identity,
  subject: Subject,
  table: Readonly<Record<string, Policy>> = policies,
): Verdict {
  const policy = Object.hasOwn(table, name) ? table[name] : undefined;
  if (policy === undefined) return 'hidden';
  try {
    const verdict = policy(who, subject);
    return VERDICTS.includes(verdict) ? verdict : 'hidden';
  } catch {
    return 'hidden';
  }
}
