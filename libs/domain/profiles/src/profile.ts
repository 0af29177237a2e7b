import { canonicalJson, digestOf, type Json } from '#libs/canonical';
import { happened, isRefusal, refuse, type Decider, type Refusal } from '#libs/decider';
import { catalogue, isPreferenceKey } from './catalogue.js';
import { profileEvents, type ProfileEvent } from './events.js';

export const profileRefusals = [
  'already-decided',
  'invalid-preference',
  'not-found',
  'proposal-exists',
  'too-many-proposals',
  'unknown-preference',
] as const;
export type ProfileRefusal = (typeof profileRefusals)[number];

const MOST_PENDING = 50;

export interface Source {
  kind: 'customer' | 'proposal';
  proposalId?: string;
  runId?: string;
  quoteMessageId?: string;
  proposedBy?: string;
}

export interface Preference {
  value: Json;
  approvedAt: string;
  approvedBy: string;
  source: Source;
}

interface Proposal {
  key: string;
  /** Of key, value and run: what a proposal under the same id has to equal. */
  digest: string;
  source: Source;
  /** Gone once it is decided. */
  value?: Json;
  decision?: { decision: 'approve' | 'reject'; by: string; at: string };
}

export interface ProfileState {
  customerId?: string;
  preferences: Map<string, Preference>;
  withdrawn: Set<string>;
  proposals: Map<string, Proposal>;
}

interface Timed {
  at: string;
  customerId: string;
}

export interface ProposePreference extends Timed {
  type: 'ProposePreference';
  proposalId: string;
  key: string;
  value: Json;
  runId: string;
  quoteMessageId?: string;
  proposedBy: string;
}

export interface DecideProposal extends Timed {
  type: 'DecideProposal';
  proposalId: string;
  decision: 'approve' | 'reject';
  decidedBy: string;
}

export interface SetPreference extends Timed {
  type: 'SetPreference';
  key: string;
  value: Json;
  setBy: string;
}

export interface WithdrawPreference extends Timed {
  type: 'WithdrawPreference';
  key: string;
  withdrawnBy: string;
}

export type ProfileCommand = ProposePreference | DecideProposal | SetPreference | WithdrawPreference;
type Outcome = ProfileEvent[] | Refusal<ProfileRefusal>;
type DataOf<Type extends ProfileEvent['type']> = Extract<ProfileEvent, { type: Type }>['data'];

const folds: { [Type in ProfileEvent['type']]: (state: ProfileState, data: DataOf<Type>) => void } = {
  ProfileOpened: (state, { customerId }) => void (state.customerId = customerId),
  PreferenceProposed: (state, { proposalId, key, value, runId, quoteMessageId, proposedBy }) => {
    const quoted = quoteMessageId === undefined ? {} : { quoteMessageId };
    const source = { kind: 'proposal' as const, proposalId, runId, ...quoted, proposedBy };
    state.proposals.set(proposalId, { key, digest: digestOf({ key, value, runId }), source, value });
  },
  PreferenceApproved: (state, { proposalId, key, approvedBy, approvedAt }) => {
    const { value = null, source } = close(state, proposalId, 'approve', approvedBy, approvedAt);
    put(state, key, { value, approvedAt, approvedBy, source });
  },
  ProposalRejected: (state, { proposalId, rejectedBy, rejectedAt }) =>
    void close(state, proposalId, 'reject', rejectedBy, rejectedAt),
  PreferenceSet: (state, { key, value, setBy, setAt }) =>
    put(state, key, { value, approvedAt: setAt, approvedBy: setBy, source: { kind: 'customer' } }),
  PreferenceWithdrawn: (state, { key }) => {
    state.preferences.delete(key);
    state.withdrawn.add(key);
  },
};

function put(state: ProfileState, key: string, preference: Preference): void {
  state.preferences.set(key, preference);
  state.withdrawn.delete(key);
}

/** Decides a proposal; gives it as it was. */
function close(
  state: ProfileState,
  proposalId: string,
  decision: 'approve' | 'reject',
  by: string,
  at: string,
): Proposal {
  const proposal = state.proposals.get(proposalId);
  if (!proposal) throw new Error(`the profile has no proposal ${proposalId}`);
  const { value: _, ...rest } = proposal;
  state.proposals.set(proposalId, { ...rest, decision: { decision, by, at } });
  return proposal;
}

function evolve(state: ProfileState, event: ProfileEvent): ProfileState {
  if (!Object.hasOwn(folds, event.type)) throw new Error(`a profile has no event ${event.type}`);
  const fold = folds[event.type] as (state: ProfileState, data: ProfileEvent['data']) => void;
  fold(state, event.data);
  return state;
}

type Rule<Command> = (command: Command, state: ProfileState) => Outcome;

const rules: {
  [Type in ProfileCommand['type']]: Rule<Extract<ProfileCommand, { type: Type }>>;
} = {
  ProposePreference: propose,
  DecideProposal: decideProposal,
  SetPreference: set,
  WithdrawPreference: withdraw,
};

function decide(command: ProfileCommand, state: ProfileState): Outcome {
  const rule = rules[command.type] as Rule<ProfileCommand>;
  const outcome = rule(command, state);
  if (isRefusal(outcome) || outcome.length === 0 || state.customerId !== undefined) return outcome;
  const { customerId, at } = command;
  return [happened('ProfileOpened', { customerId, openedAt: at }), ...outcome];
}

function propose(command: ProposePreference, state: ProfileState): Outcome {
  const { proposalId, key, value, runId, quoteMessageId, proposedBy, at } = command;
  const known = state.proposals.get(proposalId);
  if (known?.digest === digestOf({ key, value, runId })) return [];
  if (known) return refuse('proposal-exists', 'The proposal exists, and proposes something else.');
  const unfit = refuseUnfit(key, value);
  if (unfit) return unfit;
  const pending = [...state.proposals.values()].filter(({ decision }) => !decision).length;
  if (pending >= MOST_PENDING)
    return refuse('too-many-proposals', `The customer has ${pending} proposals to decide.`, {
      limit: MOST_PENDING,
    });
  const from = { runId, quoteMessageId, proposedBy };
  return [happened('PreferenceProposed', { proposalId, key, value, ...from, proposedAt: at })];
}

function decideProposal(
  { proposalId, decision, decidedBy, at }: DecideProposal,
  state: ProfileState,
): Outcome {
  const proposal = state.proposals.get(proposalId);
  if (!proposal) return refuse('not-found', 'The profile has no such proposal.');
  const { key, decision: taken } = proposal;
  if (taken?.decision === decision) return [];
  if (taken) return refuse('already-decided', 'The proposal was decided.', { ...taken });
  return decision === 'approve'
    ? [happened('PreferenceApproved', { proposalId, key, approvedBy: decidedBy, approvedAt: at })]
    : [happened('ProposalRejected', { proposalId, rejectedBy: decidedBy, rejectedAt: at })];
}

function set({ key, value, setBy, at }: SetPreference, state: ProfileState): Outcome {
  const unfit = refuseUnfit(key, value);
  if (unfit) return unfit;
  const known = state.preferences.get(key);
  if (known && canonicalJson(known.value) === canonicalJson(value)) return [];
  return [happened('PreferenceSet', { key, value, setBy, setAt: at })];
}

function withdraw({ key, withdrawnBy, at }: WithdrawPreference, state: ProfileState): Outcome {
  if (!isPreferenceKey(key)) return refuseUnknown(key);
  if (state.withdrawn.has(key)) return [];
  if (!state.preferences.has(key)) return refuse('not-found', 'There is no such preference.');
  return [happened('PreferenceWithdrawn', { key, withdrawnBy, withdrawnAt: at })];
}

function refuseUnfit(key: string, value: Json): Refusal<ProfileRefusal> | undefined {
  if (!isPreferenceKey(key)) return refuseUnknown(key);
  const { error } = catalogue[key].safeParse(value);
  if (!error) return undefined;
  const message = error.issues[0]?.message ?? 'cannot be used';
  return refuse('invalid-preference', `The value of ${key} cannot be used: ${message}.`, {
    errors: [{ field: 'value', message }],
  });
}

function refuseUnknown(key: string): Refusal<ProfileRefusal> {
  return refuse('unknown-preference', `There is no preference ${key}.`, { known: Object.keys(catalogue) });
}

export const profile: Decider<ProfileState, ProfileCommand, ProfileEvent, ProfileRefusal> = {
  initialState: () => ({ preferences: new Map(), withdrawn: new Set(), proposals: new Map() }),
  evolve,
  decide,
};

interface Saved {
  customerId?: string;
  preferences: [string, Preference][];
  withdrawn: string[];
  proposals: [string, Proposal][];
}

export const profileStream = {
  category: 'profile',
  dataKind: 'preference' as const,
  decider: profile,
  events: profileEvents,
  foldVersion: 1,
  customerOf({ customerId }: ProfileState, [first]: readonly ProfileEvent[]): string {
    const owner = first?.type === 'ProfileOpened' ? first.data.customerId : customerId;
    if (owner === undefined) throw new Error('a profile that was not opened has no customer');
    return owner;
  },
  save({ preferences, withdrawn, proposals, ...rest }: ProfileState): Json {
    const saved: Saved = {
      ...rest,
      preferences: [...preferences],
      withdrawn: [...withdrawn],
      proposals: [...proposals],
    };
    return saved as unknown as Json;
  },
  load(json: Json): ProfileState {
    const { preferences, withdrawn, proposals, ...rest } = json as unknown as Saved;
    return {
      ...rest,
      preferences: new Map(preferences),
      withdrawn: new Set(withdrawn),
      proposals: new Map(proposals),
    };
  },
};
