// These shapes are stored: fields may be added, nothing is changed or removed, and no stored event is rewritten.
import { type EventOf, money, personal, plain } from '#libs/decider';
import { saltedNotice } from '#libs/domain/losses';
import { z } from 'zod';

const id = plain(z.uuid());
const at = plain(z.iso.datetime({ precision: 3 }));
const digest = plain(z.string().regex(/^[0-9a-f]{64}$/));
const name = plain(z.string().min(1).max(200));
const draftId = plain(z.string().regex(/^[a-z0-9-]{1,64}$/));
const draftVersion = z.int().min(1);
const approvalId = plain(z.string().max(64));
const reason = personal('run', z.string().max(2000)).optional();
const content = personal('run', z.json());

/** Who acted: the token's subject, and whom they act for. Opaque identifiers, not names. */
const party = z.strictObject({ sub: name, actFor: z.array(name) });
export type Party = z.infer<typeof party>;

const step = {
  stepId: plain(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/)),
  name,
  kind: z.enum(['tool', 'model', 'human', 'system']),
  input: content.optional(),
};

const ended = { reason, output: content.optional() };

export const runEvents = {
  RunStarted: z.strictObject({
    runId: id,
    originRunId: id,
    workflow: z.strictObject({ name, version: name }),
    customerId: id,
    conversationId: id.optional(),
    input: content.optional(),
    /** The customer's own identity, where they started the run themselves. */
    customer: party.optional(),
    startedAt: at,
  }),
  LeaseTaken: z.strictObject({
    number: z.int().min(1),
    workerId: name,
    holder: name,
    secretDigest: digest,
    leaseSeconds: z.int(),
    takenOver: z.boolean(),
    takenAt: at,
    expiresAt: at,
  }),
  PhaseEntered: z.strictObject({ phase: name, enteredAt: at }),
  StepStarted: z.strictObject({ ...step, startedAt: at }),
  StepCompleted: z.strictObject({ ...step, output: content.optional(), completedAt: at }),
  StepFailed: z.strictObject({ ...step, error: content.optional(), failedAt: at }),
  DraftSaved: z.strictObject({
    draftId,
    draftVersion,
    kind: z.literal('claim'),
    content: personal('run', saltedNotice),
    digest,
    savedAt: at,
  }),
  ApprovalRequested: z.strictObject({
    approvalId,
    draftId,
    draftVersion,
    digest,
    summary: personal('run', z.string().max(4000)),
    basedOn: z.array(name),
    requestedBy: party,
    requires: z.strictObject({ signatures: z.union([z.literal(1), z.literal(2)]), authority: money }),
    executeWithinSeconds: z.int().min(1),
    requestedAt: at,
    expiresAt: at,
  }),
  ApprovalGranted: z.strictObject({
    approvalId,
    digest,
    decidedBy: party,
    comment: reason,
    grantedAt: at,
    executeBy: at,
  }),
  ApprovalDenied: z.strictObject({ approvalId, digest, decidedBy: party, comment: reason, deniedAt: at }),
  ApprovalWithdrawn: z.strictObject({
    approvalId,
    because: z.enum(['requested', 'run-ended']),
    withdrawnBy: party,
    reason,
    withdrawnAt: at,
  }),
  ApprovalInvalidated: z.strictObject({
    approvalId,
    cause: z.discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('draft-changed'), draftVersion, digest }),
    ]),
    invalidatedAt: at,
  }),
  WorkerStateSaved: z.strictObject({
    content: z.discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('whole'), state: content }),
      z.strictObject({ kind: z.literal('patch'), patch: content }),
      z.strictObject({ kind: z.literal('payload'), digest, bytes: z.int() }),
    ]),
    label: plain(z.string().min(1).max(200)).optional(),
    savedAt: at,
  }),
  FilingStarted: z.strictObject({ approvalId, draftId, draftVersion, digest, claimId: id, startedAt: at }),
  ReceiptNoted: z.strictObject({
    approvalId,
    draftId,
    claimId: id,
    receiptNumber: name,
    filedAt: at,
    notedAt: at,
  }),
  FilingRefused: z.strictObject({ approvalId, draftId, code: name, detail: name.optional(), refusedAt: at }),
  RunCompleted: z.strictObject({ ...ended, completedAt: at }),
  RunFailed: z.strictObject({ ...ended, failedAt: at }),
  RunCancelled: z.strictObject({ ...ended, cancelledAt: at }),
};

export type RunEvent = EventOf<typeof runEvents>;
