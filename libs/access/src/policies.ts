import { AbilityBuilder, createMongoAbility, type MongoAbility, subject as subjectOf } from '@casl/ability';
import { Counter } from 'prom-client';
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

/**
 * Every policy, and the policy of reading what it is about: to those who may read the record, no means forbidden; to
 * everyone else the record does not exist. `null` stands where there is no record of anybody's: a list, a new record,
 * the service itself.
 */
export const policies = {
  'runs.start': null,
  'runs.list': null,
  'runs.read': 'runs.read',
  'runs.read-checkpoint': 'runs.read',
  'runs.resume': 'runs.read',
  'runs.work': 'runs.read',
  'runs.fork': 'runs.read',
  'runs.cancel': 'runs.read',
  'approvals.list': null,
  'approvals.read': 'runs.read',
  'approvals.decide': 'runs.read',
  'approvals.delegate': 'runs.read',
  'approvals.withdraw': 'runs.read',
  'conversations.begin': null,
  'conversations.read': 'conversations.read',
  'conversations.speak': 'conversations.read',
  'conversations.delete': 'conversations.read',
  'retention.read': null,
  'retention.set': null,
  'claims.list': null,
  'claims.read': 'claims.read',
  'claims.work': 'claims.read',
  'claims.read-provenance': 'claims.read',
  'staff.list': null,
  'staff.register': null,
  'profiles.read': 'profiles.read',
  'profiles.propose': 'profiles.read',
  'profiles.own': 'profiles.read',
  'projections.read': null,
  'projections.rebuild': null,
} as const;

export type PolicyName = keyof typeof policies;
export type Abilities = MongoAbility<[PolicyName, 'record' | (Subject & { __caslSubjectType__: 'record' })]>;
type Can = (names: PolicyName | PolicyName[], conditions?: object) => unknown;

const assistant = (can: Can) => {
  can(['runs.start', 'runs.list', 'runs.read', 'runs.read-checkpoint', 'runs.work', 'runs.fork']);
  can('runs.resume', { takeOver: { $ne: true } });
  can(['approvals.read', 'approvals.withdraw', 'conversations.begin']);
  can(['conversations.read', 'profiles.read', 'profiles.propose'], { assigned: true });
  can('conversations.speak', { speaker: 'assistant' });
};

/** By the token; what changes a decision or a claim also needs the register. */
const staff = (can: Can) => {
  can(['runs.list', 'runs.read', 'runs.read-checkpoint', 'runs.cancel', 'approvals.list', 'approvals.read']);
  can(['conversations.begin', 'conversations.read']);
  can('conversations.speak', { speaker: 'staff' });
  can(['claims.list', 'claims.read', 'claims.read-provenance']);
  can(['approvals.decide', 'claims.work'], { standing: { $in: ['adjuster', 'supervisor'] } });
};

const supervisor = (can: Can) => {
  can(['runs.resume', 'runs.work', 'runs.fork', 'approvals.withdraw', 'staff.list']);
  can(['approvals.delegate', 'staff.register'], { standing: 'supervisor' });
  can('staff.register', { founding: true });
};

/** Nobody's own record has this customer. */
const NOBODY = '';

const customer = (can: Can, customerId = NOBODY) => {
  can(['runs.start', 'runs.list', 'runs.read', 'runs.cancel', 'conversations.begin'], { customerId });
  can(['conversations.read', 'conversations.delete', 'claims.list', 'claims.read'], { customerId });
  can('conversations.speak', { customerId, speaker: 'customer' });
  can(['profiles.read', 'profiles.own'], { customerId });
};

/** The whole of what anyone may do, after the People table of the product. What is not here is not allowed. */
export function abilitiesOf({ roles, customerId }: Identity): Abilities {
  const { can, cannot, build } = new AbilityBuilder<Abilities>(createMongoAbility);
  const grant: Can = (names, conditions) => can(names, 'record', conditions as Subject);
  const is = (role: Role) => roles.includes(role);
  if (is('assistant')) assistant(grant);
  if (is('adjuster') || is('supervisor')) staff(grant);
  if (is('supervisor')) supervisor(grant);
  if (is('customer')) customer(grant, customerId);
  if (is('privacy-officer')) grant(['retention.read', 'retention.set']);
  if (is('operator')) grant(['projections.read', 'projections.rebuild']);
  if (is('assistant')) cannot(['approvals.decide', 'approvals.delegate'], 'record');
  return build();
}

/** Abilities live as long as the identity, which a token that was verified before keeps. */
const known = new WeakMap<Identity, Abilities>();

function remembered(who: Identity): Abilities {
  const abilities = known.get(who) ?? abilitiesOf(who);
  known.set(who, abilities);
  return abilities;
}

/** Policies that gave no answer, whoever registers it; each was a no. */
export const policyFaults = new Counter({
  name: 'waymark_policy_faults_total',
  help: 'Policies that were missing, threw or gave no answer, each taken as a no.',
  labelNames: ['policy'] as const,
  registers: [],
});

/**
 * Asks a policy. It is a no that gives nothing away, and counted, where the policy is missing, throws, or answers
 * anything but yes or no, a promise included: nothing is waited for, so none can hang.
 */
export function judge(
  name: string,
  who: Identity,
  subject: Subject,
  abilities: (who: Identity) => Pick<Abilities, 'can'> = remembered,
): Verdict {
  try {
    if (!isPolicy(name)) throw new Error('no such policy');
    const may = abilities(who);
    const record = isList(name) ? 'record' : subjectOf('record', { ...subject });
    const reads = policies[name];
    if (reads !== null && !answer(may.can(reads, record))) return 'hidden';
    return answer(may.can(name, record)) ? 'yes' : 'forbidden';
  } catch {
    policyFaults.inc({ policy: isPolicy(name) ? name : 'unknown' });
    return 'hidden';
  }
}

/**
 * Which records a list may hold: those with these fields, as a condition of a MongoDB query. Nothing is taken out
 * after a page was read. Who may see no list gets a condition that no record meets.
 */
export function scopeOf(name: 'runs.list' | 'claims.list', who: Identity): { customerId?: string } {
  const granted = remembered(who).rulesFor(name, 'record');
  if (granted.some(({ conditions }) => conditions === undefined)) return {};
  const [own] = granted.map(({ conditions }) => (conditions as Subject).customerId);
  return { customerId: own ?? NOBODY };
}

/** A list is asked of no record: who may see some may ask for it, and `scopeOf` says which it holds. */
function isList(name: PolicyName): boolean {
  return name.endsWith('.list');
}

/** Whether it is the name of a policy, of our own making. */
export function isPolicy(name: string): name is PolicyName {
  return Object.hasOwn(policies, name);
}

function answer(given: unknown): boolean {
  if (typeof given !== 'boolean') throw new Error('neither yes nor no');
  return given;
}
