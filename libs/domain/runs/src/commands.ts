import type { Json } from '#libs/canonical';
import type { Money, Refusal } from '#libs/decider';
import type { SaltedNotice } from '#libs/domain/losses';
import type { Standing } from '#libs/domain/staff';
import type { Cited, Party, RunEvent } from './events.js';
import type { Run } from './state.js';

export const runRefusals = [
  'already-decided',
  'already-filed',
  'approval-expired',
  'approval-invalidated',
  'approval-lapsed',
  'approval-not-granted',
  'approval-open',
  'approval-unknown',
  'approval-withdrawn',
  'digest-mismatch',
  'draft-outdated',
  'draft-unknown',
  'fact-outdated',
  'fact-unknown',
  'facts-moved',
  'facts-unavailable',
  'filing-in-progress',
  'filing-not-started',
  'filing-refused',
  'four-eyes',
  'lease-held',
  'lease-required',
  'message-unknown',
  'messages-unread',
  'not-found',
  'not-permitted',
  'over-authority',
  'payload-away',
  'payload-required',
  'run-ended',
  'run-exists',
  'stale-lease',
  'state-too-large',
  'step-already-completed',
  'too-many-approvals',
  'too-many-facts',
] as const;
export type RunRefusal = (typeof runRefusals)[number];
export type Outcome = RunEvent[] | Refusal<RunRefusal>;

type FactsRecorded = Extract<RunEvent, { type: 'FactsRecorded' }>['data'];

/** What a source said of a fact as it stood in a version; without `found` the source could not be asked. */
export interface FactReading {
  name: string;
  version: number;
  found?: { [name: string]: Json } | undefined;
}

/** What a worker shows to write: the lease's number, the digest of its secret part, and the caller's subject. */
export interface LeaseShown {
  number: number;
  secretDigest: string;
  holder: string;
}

interface Timed {
  at: string;
}

interface ByWorker extends Timed {
  lease: LeaseShown | undefined;
}

export interface StartRun extends Timed {
  type: 'StartRun';
  runId: string;
  workflow: { name: string; version: string };
  customerId: string;
  conversationId?: string;
  input?: Json;
  /** The customer's own identity, where they start the run themselves. */
  customer?: Party;
}

export interface ForkRun extends ByWorker {
  type: 'ForkRun';
  /** Of the fork. */
  runId: string;
  forkedFrom: { runId: string; revision: string };
  /** The other run at that revision, and when that was. */
  source: Run;
  openAt: string;
  /** The newest lease of the other run now. */
  heldLease: Run['lease'];
  /** How the other run has ended by now, whatever it was at that revision. */
  endedNow: Run['ended'];
  /** Who needs no lease, and may fork a run that has ended since. */
  bySupervisor: boolean;
  /** The most bytes of the state that an event may carry. */
  inlineBytes?: number;
  payload?: SaveWorkerState['payload'];
}

export interface TakeLease extends Timed {
  type: 'TakeLease';
  workerId: string;
  holder: string;
  secretDigest: string;
  leaseSeconds: number;
  takeOver: boolean;
  /** The record of heartbeats; it counts only for the newest lease. */
  seen?: { number: number; expiresAt: string; closed: boolean };
  /** Of the facts that are due when a run is resumed. */
  readings?: readonly FactReading[];
}

export interface EnterPhase extends ByWorker {
  type: 'EnterPhase';
  phase: string;
}

export interface RecordStep extends ByWorker {
  type: 'RecordStep';
  stepId: string;
  name: string;
  kind: 'tool' | 'model' | 'human' | 'system';
  status: 'started' | 'completed' | 'failed';
  input?: Json;
  output?: Json;
  error?: Json;
  cites?: Cited[];
  /** Of those what the run's conversation holds now. */
  messages?: readonly Cited[];
}

export interface SaveWorkerState extends ByWorker {
  type: 'SaveWorkerState';
  state: Json;
  /** `state` is a merge patch (RFC 7396) of what is saved. */
  patch?: boolean;
  label?: string;
  /** The most bytes that the whole state may take in canonical form. */
  limitBytes?: number;
  /** The most bytes of it that an event may carry; a larger one goes to the payload store. */
  inlineBytes?: number;
  /** What the payload store holds of the state saved last. */
  opened?: { digest: string; state: Json };
  /** Where the payload store has the state that is to be saved; `of` is that state's digest. */
  payload?: { digest: string; bytes: number; of: string };
}

export interface RecordFacts extends ByWorker {
  type: 'RecordFacts';
  facts: FactsRecorded['facts'];
}

export interface SaveDraft extends ByWorker {
  type: 'SaveDraft';
  draftId: string;
  content: SaltedNotice;
}

export interface RequestApproval extends ByWorker {
  type: 'RequestApproval';
  draftId: string;
  draftVersion: number;
  summary: string;
  basedOn: string[];
  requestedBy: Party;
  expiresInSeconds: number;
  /** From the grant; one day unless said otherwise. */
  executeWithinSeconds?: number;
  /** Above it two different people must sign; nobody must without it. */
  twoPersonLimit?: Money;
}

/** `customerId`, where the caller's token says they are a customer. */
export type Decider = Party & { customerId?: string };

export interface DecideApproval extends Timed {
  type: 'DecideApproval';
  approvalId: string;
  decision: 'grant' | 'deny';
  digest: string;
  decidedBy: Decider;
  /** By token and register, as of now. */
  standing: Standing;
  comment?: string;
}

export interface DelegateApproval extends Timed {
  type: 'DelegateApproval';
  approvalId: string;
  to: string;
  delegatedBy: Decider;
  standing: Standing;
  /** Until the approval expires unless said otherwise. */
  expiresInSeconds?: number | undefined;
}

export interface WithdrawApproval extends Timed {
  type: 'WithdrawApproval';
  approvalId: string;
  withdrawnBy: Party;
  reason?: string;
}

export interface StartFiling extends Timed {
  type: 'StartFiling';
  tenant: string;
  approvalId: string;
  /** What the register says now of those on whose rights the grant rests; who is missing may not decide any more. */
  standings: Readonly<Record<string, Standing>>;
  /** Of the facts that are due when the approval is executed. */
  readings?: readonly FactReading[];
}

export interface NoteReceipt extends Timed {
  type: 'NoteReceipt';
  approvalId: string;
  receiptNumber: string;
  filedAt: string;
}

export interface RefuseFiling extends Timed {
  type: 'RefuseFiling';
  approvalId: string;
  code: string;
}

interface Ending {
  endedBy: Party;
  reason?: string;
  output?: Json;
}

export interface CompleteRun extends ByWorker, Ending {
  type: 'CompleteRun';
}

export interface FailRun extends ByWorker, Ending {
  type: 'FailRun';
}

export interface CancelRun extends Timed, Ending {
  type: 'CancelRun';
}

export type WorkerCommand =
  | EnterPhase
  | RecordStep
  | RecordFacts
  | SaveWorkerState
  | SaveDraft
  | RequestApproval
  | CompleteRun
  | FailRun;

export type RunCommand =
  | StartRun
  | ForkRun
  | TakeLease
  | WorkerCommand
  | DecideApproval
  | DelegateApproval
  | WithdrawApproval
  | StartFiling
  | NoteReceipt
  | RefuseFiling
  | CancelRun;
