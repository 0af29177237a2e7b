// These shapes are stored: fields may be added, nothing is changed or removed, and no stored event is rewritten.
import { type EventOf, money, personal, plain } from '#libs/decider';
import { saltedNotice } from '#libs/domain/losses';
import { z } from 'zod';

const id = plain(z.uuid());
const at = plain(z.iso.datetime({ precision: 3 }));
const digest = plain(z.string().regex(/^[0-9a-f]{64}$/));
const subject = plain(z.string().min(1).max(200));
/** No free text: what a person could write about another one is sealed. */
const identifier = plain(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/));
const label = personal('run', z.string().min(1).max(200));
const draftId = plain(z.string().regex(/^[a-z0-9-]{1,64}$/));
const draftVersion = z.int().min(1);
const approvalId = plain(z.string().max(64));
const reason = personal('run', z.string().max(2000)).optional();
const content = personal('run', z.json());

/** Who acted: the token's subject, and whom they act for. Opaque identifiers, not names. */
const party = z.strictObject({ sub: subject, actFor: z.array(subject) });
export type Party = z.infer<typeof party>;

/** A message of the run's conversation. Its digest is salted, and tells nothing once the message is gone. */
const cited = z.strictObject({ messageId: id, digest });
export type Cited = z.infer<typeof cited>;

const step = {
  stepId: identifier,
  name: label,
  kind: z.enum(['tool', 'model', 'human', 'system']),
  input: content.optional(),
  /** The messages that it rests on; their texts are never copied. */
  cites: z.array(cited).optional(),
};

const signed = {
  decidedBy: party,
  /** On whose authority, where not on their own. */
  delegatedBy: subject.optional(),
  comment: reason,
};
const name = identifier;
/** What a recheck found: `now` is absent where the fact is too old to be relied on, and nothing else is known. */
const factChanged = z.strictObject({ name, was: content, now: content.optional() });

const ended = { reason, output: content.optional() };

export const runEvents = {
  RunStarted: z
    .strictObject({
      runId: id,
      originRunId: id,
      workflow: z.strictObject({ name: identifier, version: identifier }),
      customerId: id,
      conversationId: id.optional(),
      input: content.optional(),
      /** The customer's own identity, where they started the run themselves. */
      customer: party.optional(),
      startedAt: at,
    })
    .describe('A run began for a customer. A run that is no fork is its own origin.'),
  RunForked: z
    .strictObject({
      runId: id,
      originRunId: id,
      forkedFrom: z.strictObject({ runId: id, revision: plain(z.string().regex(/^\d{1,18}$/)) }),
      customerId: id,
      /** Absent in the stored event where the payload store has it. */
      state: content.optional(),
      payload: z.strictObject({ digest, bytes: z.int() }).optional(),
      /** Every payload that it or its state cites. */
      cites: z.array(digest),
      /** The approvals that are pending again, in the clear: their filing ends also where the state does not open. */
      pending: z.array(z.strictObject({ approvalId, draftId, draftVersion, digest })).optional(),
      forkedAt: at,
    })
    .describe(
      'A run began with the state that another one of the same customer had at a revision; open approvals are pending again.',
    ),
  LeaseTaken: z
    .strictObject({
      number: z.int().min(1),
      workerId: identifier,
      holder: subject,
      secretDigest: digest,
      leaseSeconds: z.int(),
      takenOver: z.boolean(),
      takenAt: at,
      expiresAt: at,
    })
    .describe('A worker took the right to write; only the newest number holds, and it only grows.'),
  PhaseEntered: z
    .strictObject({ phase: identifier, enteredAt: at })
    .describe('The run entered a named part of its workflow.'),
  StepStarted: z
    .strictObject({ ...step, startedAt: at })
    .describe('A unit of work was begun, or begun again after it failed.'),
  StepCompleted: z
    .strictObject({ ...step, output: content.optional(), completedAt: at })
    .describe('A unit of work is done; it is never recorded again.'),
  StepFailed: z
    .strictObject({ ...step, error: content.optional(), failedAt: at })
    .describe('A try of a unit of work failed; it may be tried again.'),
  DraftSaved: z
    .strictObject({
      draftId,
      draftVersion,
      kind: z.literal('claim'),
      content: personal('run', saltedNotice),
      digest,
      savedAt: at,
    })
    .describe('A version of a draft was written. The digest is over salt and notice.'),
  FactsRecorded: z
    .strictObject({
      facts: z.array(
        z.strictObject({
          name,
          value: content,
          source: z.strictObject({
            kind: z.enum(['claims', 'profile', 'policy', 'statement']),
            ref: personal('run', z.string().min(1).max(200)).optional(),
          }),
          recheck: z.enum(['on-resume', 'on-execution', 'both', 'never']),
          required: z.boolean(),
          maxAgeSeconds: z.int().min(1).optional(),
        }),
      ),
      observedAt: at,
    })
    .describe('The worker noted what the run rests on. A fact of the same name replaces the one before.'),
  FactsRechecked: z
    .strictObject({
      on: z.discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('resume'), lease: z.int().min(1) }),
        z.strictObject({ kind: z.literal('execution'), approvalId }),
      ]),
      unchanged: z.array(name),
      changed: z.array(factChanged),
      unavailable: z.array(name),
      recheckedAt: at,
    })
    .describe(
      'Facts were looked up again, before a lease was taken or an approval executed; what changed is known anew.',
    ),
  ApprovalRequested: z
    .strictObject({
      approvalId,
      draftId,
      draftVersion,
      digest,
      summary: personal('run', z.string().max(4000)),
      basedOn: z.array(identifier),
      requestedBy: party,
      requires: z.strictObject({
        signatures: z.union([z.literal(1), z.literal(2)]),
        authority: personal('run', money),
      }),
      executeWithinSeconds: z.int().min(1),
      requestedAt: at,
      expiresAt: at,
    })
    .describe('Somebody asked for a decision about one version of a draft.'),
  ApprovalDelegated: z
    .strictObject({ approvalId, to: subject, delegatedBy: party, delegatedAt: at, endsAt: at })
    .describe(
      'A supervisor let somebody else decide this approval on their authority, until an end of its own.',
    ),
  ApprovalEndorsed: z
    .strictObject({ approvalId, digest, ...signed, endorsedAt: at })
    .describe('One signature of the two that it needs was given.'),
  ApprovalGranted: z
    .strictObject({ approvalId, digest, ...signed, grantedAt: at, executeBy: at })
    .describe('The approval was granted, to be executed before a deadline.'),
  ApprovalDenied: z
    .strictObject({ approvalId, digest, ...signed, deniedAt: at })
    .describe('The approval was denied.'),
  ApprovalWithdrawn: z
    .strictObject({
      approvalId,
      because: z.enum(['requested', 'run-ended']),
      withdrawnBy: party,
      reason,
      withdrawnAt: at,
    })
    .describe('The requester took the request back, or the run ended before it was executed.'),
  ApprovalInvalidated: z
    .strictObject({
      approvalId,
      cause: z.discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('draft-changed'), draftVersion, digest }),
        z.strictObject({ kind: z.literal('rights-changed'), sub: subject }),
        z.strictObject({ kind: z.literal('facts-changed'), facts: z.array(factChanged) }),
      ]),
      invalidatedAt: at,
    })
    .describe('What the approval was asked for, or the right of a signer, changed before it was executed.'),
  WorkerStateSaved: z
    .strictObject({
      content: z.discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('whole'), state: content }),
        z.strictObject({ kind: z.literal('patch'), patch: content }),
        z.strictObject({ kind: z.literal('difference'), operations: content }),
        // Both are of the sealed bytes: a digest of the opened ones could be guessed from.
        z.strictObject({ kind: z.literal('payload'), digest, bytes: z.int() }),
      ]),
      label: label.optional(),
      savedAt: at,
    })
    .describe(
      'The worker saved a state of its own: the whole, a merge patch, its difference from the one before (a JSON Patch), or a reference to the payload store, by digest and size of its sealed bytes.',
    ),
  FilingStarted: z
    .strictObject({ approvalId, draftId, draftVersion, digest, claimId: id, startedAt: at })
    .describe('From here on the claim is being filed, however late, until a receipt or a refusal is noted.'),
  ReceiptNoted: z
    .strictObject({
      approvalId,
      draftId,
      claimId: id,
      receiptNumber: identifier,
      filedAt: at,
      notedAt: at,
    })
    .describe('The claims side filed the claim and gave this receipt.'),
  FilingRefused: z
    .strictObject({ approvalId, draftId, code: identifier, refusedAt: at })
    .describe('The claims side refused, or the draft could not be opened.'),
  RunCompleted: z.strictObject({ ...ended, completedAt: at }).describe('The worker finished the run.'),
  RunFailed: z.strictObject({ ...ended, failedAt: at }).describe('The worker gave the run up.'),
  RunCancelled: z.strictObject({ ...ended, cancelledAt: at }).describe('A person ended the run.'),
};

export type RunEvent = EventOf<typeof runEvents>;
