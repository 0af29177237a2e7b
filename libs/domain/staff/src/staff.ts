import { canonicalJson, type Json } from '#libs/canonical';
import { covers, happened, refuse, type Decider, type Money, type Refusal } from '#libs/decider';
import { staffEvents, type StaffEvent } from './events.js';

export interface Entry {
  sub: string;
  roles: StaffEvent['data']['roles'];
  authorityLimit?: Money | undefined;
  active: boolean;
}

export interface StaffState {
  entry?: Entry;
}

export interface RegisterStaff {
  type: 'RegisterStaff';
  sub: string;
  roles: Entry['roles'];
  authorityLimit?: Money | undefined;
  active: boolean;
  registeredBy: string;
  /** The tenant has no active supervisor yet, so that whoever begins the register may enter themselves. */
  founding: boolean;
  at: string;
}

function decide(command: RegisterStaff, { entry }: StaffState): StaffEvent[] | Refusal<'not-permitted'> {
  const { sub, authorityLimit, active, registeredBy, at } = command;
  const said = { sub, roles: [...new Set(command.roles)].sort(), authorityLimit, active };
  if (sub === registeredBy && !command.founding && raises(said, entry))
    return refuse('not-permitted', 'Nobody raises their own rights: another supervisor has to.');
  if (!entry) return [happened('StaffRegistered', { ...said, registeredBy, registeredAt: at })];
  const changed = happened('StaffChanged', { ...said, changedBy: registeredBy, changedAt: at });
  return canonicalJson(entryOf(changed)) === canonicalJson(entryOf({ data: entry })) ? [] : [changed];
}

function raises({ roles, authorityLimit, active }: Entry, entry: Entry | undefined): boolean {
  if (!entry || (active && !entry.active)) return true;
  if (roles.some((role) => !entry.roles.includes(role))) return true;
  const limit = entry.authorityLimit;
  return limit !== undefined && (authorityLimit === undefined || !covers(limit, authorityLimit));
}

function entryOf({ data: { sub, roles, authorityLimit, active } }: { data: Entry }): Json {
  return { sub, roles, active, ...(authorityLimit && { authorityLimit }) };
}

function evolve(state: StaffState, event: StaffEvent): StaffState {
  if (!Object.hasOwn(staffEvents, event.type)) throw new Error(`the register has no event ${event.type}`);
  const { sub, roles, authorityLimit, active } = event.data;
  state.entry = { sub, roles, active, ...(authorityLimit && { authorityLimit }) };
  return state;
}

export const staff: Decider<StaffState, RegisterStaff, StaffEvent, 'not-permitted'> = {
  initialState: () => ({}),
  evolve,
  decide,
};

/** Streams `staff-<tenant>.<sub>`. They are about nobody's data: what is in them is not sealed. */
export const staffStream = {
  category: 'staff',
  decider: staff,
  events: staffEvents,
  foldVersion: 1,
  customerOf(): string {
    throw new Error('a register entry has no customer');
  },
  save: (state: StaffState): Json => ({ ...state }) as unknown as Json,
  load: (json: Json): StaffState => ({ ...(json as unknown as StaffState) }),
};

const BOUND = ['adjuster', 'supervisor'] as const;

/** In what capacity somebody may act as adjuster or supervisor, and up to which amount. */
export interface Standing {
  readonly roles: readonly (typeof BOUND)[number][];
  readonly authorityLimit?: Money;
}

/**
 * What remains of the roles in a token after the register; of all that it says where no token is at hand. Nothing
 * for whoever is not registered, or not active.
 */
export function standingOf(
  { entry }: StaffState,
  tokenRoles: readonly string[] = BOUND,
): Standing | undefined {
  if (entry?.active !== true) return undefined;
  const roles = BOUND.filter((role) => tokenRoles.includes(role) && entry.roles.includes(role));
  if (roles.length === 0) return undefined;
  const { authorityLimit } = entry;
  return authorityLimit ? { roles, authorityLimit } : { roles };
}

/** Up to the limit, in its currency. Without a limit a supervisor may decide anything, an adjuster nothing. */
export function hasAuthority({ roles, authorityLimit }: Standing, amount: Money): boolean {
  return authorityLimit ? covers(authorityLimit, amount) : roles.includes('supervisor');
}
