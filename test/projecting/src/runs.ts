import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { digestOf } from '#libs/canonical';
import {
  changed,
  digest,
  lease,
  people,
  registerDana,
  salted,
  seconds,
  standings,
  tenant,
} from '#libs/domain/examples';
import { type RunCommand, runStream } from '#libs/domain/runs';
import { type RegisterStaff, staffStream } from '#libs/domain/staff';
import { RefusedCommand } from '#libs/event-store';
import { OWNER } from './counter.js';
import type { TestStores } from './stores.js';

const actor = { sub: 'test', roles: ['assistant'], actFor: [] };

/** Sends one command to a run, as the API would; `undefined` when the rule says no. */
export async function send(
  { log }: TestStores,
  runId: string,
  command: RunCommand,
): Promise<{ position: bigint; revision: bigint } | undefined> {
  const context = { actor, commandId: randomUUID(), bodyDigest: 'test', at: command.at };
  const creates = command.type === 'StartRun' || command.type === 'ForkRun';
  try {
    const answer = () => undefined;
    return await log.handle(runStream, { tenant, id: runId, context, command, creates, answer });
  } catch (error) {
    if (error instanceof RefusedCommand) return undefined;
    throw error;
  }
}

export const startRun = (runId: string): RunCommand => ({
  type: 'StartRun',
  runId,
  workflow: { name: 'auto-claim-intake', version: '1' },
  customerId: OWNER,
  input: { channel: 'web' },
  customer: people.carol,
  at: seconds(0),
});

export function takeLease(at: string): RunCommand {
  const { secretDigest, holder } = lease;
  const taken = { workerId: 'intake-1', holder, secretDigest, leaseSeconds: 60, takeOver: false };
  return { type: 'TakeLease', ...taken, at };
}

/** What makes a run whose approval Dana granted at ten past nine, to be executed within a day. */
export function grantedCommands(runId: string): RunCommand[] {
  const draftId = 'collision';
  const asked = {
    summary: 'Rear-ended.',
    basedOn: [],
    requestedBy: people.assistant,
    expiresInSeconds: 3600,
  };
  const decided = { approvalId: `${runId}.1`, decision: 'grant' as const, digest, decidedBy: people.dana };
  const standing = standings.dana;
  return [
    startRun(runId),
    takeLease(seconds(1)),
    { type: 'SaveDraft', draftId, content: salted, lease, at: seconds(20) },
    { type: 'RequestApproval', draftId, draftVersion: 1, ...asked, lease, at: seconds(30) },
    { type: 'DecideApproval', ...decided, standing, at: seconds(600) },
  ];
}

/** Says who somebody is at work, past every policy. */
export async function register({ log }: Pick<TestStores, 'log'>, command: RegisterStaff): Promise<void> {
  const actor = { sub: command.registeredBy, roles: ['supervisor'], actFor: [] };
  const context = { actor, commandId: randomUUID(), bodyDigest: 'test', at: command.at };
  const call = { tenant, id: command.sub, context, command, creates: true, answer: () => undefined };
  await log.handle(staffStream, call);
}

/** Registers Dana and sends them; the position is that of the grant. */
export async function grantedRun(
  stores: TestStores,
  runId: string,
  customerId = OWNER,
): Promise<{ approvalId: string; position: bigint }> {
  await register(stores, registerDana);
  let position = 0n;
  for (const granted of grantedCommands(runId)) {
    const command = granted.type === 'StartRun' ? { ...granted, customerId } : granted;
    const handled = await send(stores, runId, command);
    if (!handled) throw new Error(`${command.type} is refused`);
    position = handled.position;
  }
  return { approvalId: `${runId}.1`, position };
}

export interface Move {
  readonly run: number;
  readonly kind: Exclude<RunCommand['type'], 'ForkRun'>;
  readonly pick: number;
  readonly waitSeconds: number;
}

const kinds = (...some: Move['kind'][]) => fc.constantFrom(...some);

/** Moves of somebody on one of three runs, many of which a rule refuses. */
export const moves: fc.Arbitrary<Move[]> = fc.array(
  fc.record({
    run: fc.nat(2),
    kind: fc.oneof(
      { weight: 20, arbitrary: kinds('RecordStep', 'SaveDraft', 'SaveWorkerState', 'EnterPhase') },
      { weight: 9, arbitrary: kinds('RecordFacts') },
      { weight: 60, arbitrary: kinds('RequestApproval', 'DecideApproval', 'StartFiling') },
      { weight: 15, arbitrary: kinds('NoteReceipt', 'RefuseFiling', 'WithdrawApproval', 'DelegateApproval') },
      { weight: 2, arbitrary: kinds('CompleteRun', 'FailRun', 'CancelRun') },
    ),
    pick: fc.nat(11),
    waitSeconds: fc.oneof({ weight: 9, arbitrary: fc.nat(9) }, { weight: 1, arbitrary: fc.nat(900) }),
  }),
  { minLength: 30, maxLength: 50 },
);

/** The command that a move is on a run, at a time. */
export function commandOf({ kind, pick }: Move, runId: string, at: string): RunCommand {
  const worker = { lease, at };
  const draftId = ['collision', 'glass'][pick % 2]!;
  const approvalId = `${runId}.${1 + (pick % 3)}`;
  const status = (['started', 'completed', 'failed'] as const)[pick % 3]!;
  switch (kind) {
    case 'RecordStep':
      return { type: kind, stepId: `step-${pick % 4}`, name: 'A step', kind: 'tool', status, ...worker };
    case 'EnterPhase':
      return { type: kind, phase: `phase-${pick % 2}`, ...worker };
    case 'SaveWorkerState':
      return { type: kind, state: { cursor: pick }, ...(pick % 2 && { label: `label-${pick}` }), ...worker };
    case 'RecordFacts': {
      const fact = { name: `fact-${pick % 2}`, value: pick % 3, source: { kind: 'statement' as const } };
      const facts = [{ ...fact, recheck: 'both' as const, required: true, maxAgeSeconds: 100 }];
      return { type: kind, facts, ...worker };
    }
    case 'SaveDraft':
      return { type: kind, draftId, content: pick < 8 ? salted : changed, ...worker };
    case 'RequestApproval': {
      const basedOn = pick % 4 === 0 ? ['fact-0'] : [];
      const asked = { summary: 's', basedOn, requestedBy: people.assistant, expiresInSeconds: 600 };
      const draftVersion = pick < 9 ? 1 : 2;
      const twoPersonLimit = { amount: pick % 3 ? '5000' : '1', currency: 'USD' };
      return {
        type: kind,
        draftId,
        draftVersion,
        ...asked,
        twoPersonLimit,
        executeWithinSeconds: 300,
        ...worker,
      };
    }
    case 'DecideApproval': {
      const decision = pick % 5 === 0 ? 'deny' : 'grant';
      const shown = pick < 9 ? digest : digestOf(changed);
      const by = pick % 4 === 1 ? 'sam' : 'dana';
      const signed = { decidedBy: people[by], standing: standings[by], comment: 'c' };
      return { type: kind, approvalId, decision, digest: shown, ...signed, at };
    }
    case 'DelegateApproval': {
      const to = pick % 2 ? 'dana' : 'alex';
      const lent = { delegatedBy: people.sam, standing: standings.sam, expiresInSeconds: 60 + pick };
      return { type: kind, approvalId, to, ...lent, at };
    }
    case 'WithdrawApproval':
      return { type: kind, approvalId, withdrawnBy: people.assistant, at };
    case 'StartFiling':
      return { type: kind, tenant, approvalId, standings: pick % 4 ? standings : {}, at };
    case 'NoteReceipt':
      return { type: kind, approvalId, receiptNumber: `R-${pick % 3}`, filedAt: at, at };
    case 'RefuseFiling':
      return { type: kind, approvalId, code: 'already-filed', at };
    case 'CompleteRun':
    case 'FailRun':
      return { type: kind, endedBy: people.assistant, reason: 'Done.', output: { pick }, ...worker };
    case 'CancelRun':
      return { type: kind, endedBy: people.dana, at };
    case 'StartRun':
      return startRun(runId);
    case 'TakeLease':
      return takeLease(at);
  }
}
