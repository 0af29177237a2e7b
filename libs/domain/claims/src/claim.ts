import { digestOf, sha256, type Json } from '#libs/canonical';
import { happened, refuse, type Decider, type Refusal } from '#libs/decider';
import { claimIdOf, type SaltedNotice } from '#libs/domain/losses';
import { claimEvents, type ClaimEvent, type Origin, type Party } from './events.js';
import { type HandleClaim, handleClaim } from './handling.js';

export const claimRefusals = [
  'already-filed',
  'claim-id-mismatch',
  'claim-state',
  'digest-mismatch',
  'four-eyes',
  'not-found',
  'over-authority',
] as const;
export type ClaimRefusal = (typeof claimRefusals)[number];

export interface FileClaim {
  type: 'FileClaim';
  tenant: string;
  claimId: string;
  customerId: string;
  /** The customer's own identity, where it is known. */
  customer?: Party | undefined;
  origin: Origin;
  content: SaltedNotice;
  /** The digest that the approval was granted for. */
  approvedDigest: string;
  /** Keyed, and the same for the claim each time: nobody without the key can name a receipt beforehand. */
  receiptSeed: string;
  at: string;
}
export type ClaimCommand = FileClaim | HandleClaim;

type DataOf<Type extends ClaimEvent['type']> = Extract<ClaimEvent, { type: Type }>['data'];

export const claimStatuses = [
  'filed',
  'acknowledged',
  'assessed',
  'settled',
  'rejected',
  'withdrawn',
  'reopened',
] as const;
export type ClaimStatus = (typeof claimStatuses)[number];

export interface ClaimState {
  filed?: DataOf<'ClaimFiled'>;
  /** Since it was filed; absent until then. */
  status?: ClaimStatus;
  /** A settlement that waits for a second person. */
  proposal?: DataOf<'SettlementProposed'>;
}

type Folds = {
  [Type in ClaimEvent['type']]: (state: ClaimState, data: DataOf<Type>) => void;
};

const folds: Folds = {
  ClaimFiled: (state, data) => void (state.filed = data),
  ClaimAcknowledged: (state) => become(state, 'acknowledged'),
  ClaimAssessed: (state) => become(state, 'assessed'),
  SettlementProposed: (state, data) => void (state.proposal = data),
  ClaimSettled: (state) => become(state, 'settled'),
  ClaimRejected: (state) => become(state, 'rejected'),
  ClaimWithdrawn: (state) => become(state, 'withdrawn'),
  ClaimReopened: (state) => become(state, 'reopened'),
};

/** What was proposed rested on the state before. */
function become(state: ClaimState, status: ClaimStatus): void {
  state.status = status;
  delete state.proposal;
}

function evolve(state: ClaimState, event: ClaimEvent): ClaimState {
  if (!Object.hasOwn(folds, event.type)) throw new Error(`a claim has no event ${event.type}`);
  const fold = folds[event.type] as (state: ClaimState, data: ClaimEvent['data']) => void;
  fold(state, event.data);
  return state;
}

function decide(command: ClaimCommand, state: ClaimState): ClaimEvent[] | Refusal<ClaimRefusal> {
  return command.type === 'FileClaim' ? file(command, state) : handleClaim(command, state);
}

function file(command: FileClaim, { filed }: ClaimState): ClaimEvent[] | Refusal<ClaimRefusal> {
  const { tenant, claimId, customerId, customer, origin, content, approvedDigest, receiptSeed, at } = command;
  if (filed?.origin.approvalId === origin.approvalId && filed.origin.digest === origin.digest) return [];
  if (filed)
    return refuse('already-filed', 'The claim was filed from another approval.', {
      claimId,
      receiptNumber: filed.receiptNumber,
      approvalId: filed.origin.approvalId,
    });
  if (claimId !== claimIdOf(tenant, origin.originRunId, origin.draftId))
    return refuse('claim-id-mismatch', 'The claim does not belong to this draft.', { claimId });
  if (origin.digest !== approvedDigest || digestOf(content) !== approvedDigest)
    return refuse('digest-mismatch', 'The content is not what was approved.', { digest: approvedDigest });
  const receiptNumber = receiptNumberOf(receiptSeed);
  const filedFor = { claimId, receiptNumber, customerId, customer };
  return [happened('ClaimFiled', { ...filedFor, origin, content, filedAt: at })];
}

/** Without I, L, O and U, so that a number can be read out over the telephone. */
const RECEIPT_LETTERS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** 80 bits of the seed in four readable groups: `R-7Q2M-0XKD-94TB-W3HE`. */
export function receiptNumberOf(receiptSeed: string): string {
  let bits = BigInt(`0x${sha256(`receipt ${receiptSeed}`).slice(0, 20)}`);
  const letters: string[] = [];
  for (; letters.length < 16; bits >>= 5n) letters.unshift(RECEIPT_LETTERS.charAt(Number(bits & 31n)));
  return ['R', ...[0, 4, 8, 12].map((from) => letters.slice(from, from + 4).join(''))].join('-');
}

export const claim: Decider<ClaimState, ClaimCommand, ClaimEvent, ClaimRefusal> = {
  initialState: () => ({}),
  evolve,
  decide,
};

export const claimStream = {
  category: 'claim',
  dataKind: 'claim' as const,
  decider: claim,
  events: claimEvents,
  foldVersion: 2,
  customerOf(state: ClaimState, newEvents: readonly ClaimEvent[]): string {
    const [first] = newEvents;
    const filed = state.filed ?? (first?.type === 'ClaimFiled' ? first.data : undefined);
    if (!filed) throw new Error('a claim that was not filed has no customer');
    return filed.customerId;
  },
  save: (state: ClaimState): Json => ({ ...state }),
  load: (json: Json): ClaimState => ({ ...(json as ClaimState) }),
};
