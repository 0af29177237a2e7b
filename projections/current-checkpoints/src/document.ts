import { money, personal, plain } from '#libs/decider';
import { lossNotice } from '#libs/domain/losses';
import { z } from 'zod';

const text = plain(z.string());
const count = z.int().min(0);
const content = personal('run', z.json());
const note = personal('run', z.string());
const party = z.strictObject({ sub: text, actFor: z.array(text) });
const stepKind = z.enum(['tool', 'model', 'human', 'system']);

const stepMark = z.strictObject({ stepId: text, kind: stepKind, at: text, revision: text });

const signed = { delegatedBy: text.optional(), comment: note.optional() };
const changed = z.strictObject({ name: text, was: content, now: content.optional() });

const approval = z.strictObject({
  approvalId: text,
  draftId: text,
  draftVersion: count,
  digest: text,
  summary: note,
  basedOn: z.array(text),
  requestedBy: party,
  requires: z.strictObject({ signatures: count, authority: personal('run', money) }),
  requestedAt: text,
  expiresAt: text,
  /** As recorded. Expired or lapsed here: a newer version of the draft, or a newer approval, closed it. */
  state: z.enum([
    'pending',
    'granted',
    'denied',
    'withdrawn',
    'invalidated',
    'expired',
    'lapsed',
    'filing',
    'filed',
    'refused',
  ]),
  /** Whether it is the newest approval of its draft: an older one no longer says where the run stands. */
  newest: z.boolean(),
  /** Everybody who signed, in order. */
  decidedBy: z.array(party),
  /** The signatures before the one that decided. */
  endorsements: z.array(z.strictObject({ by: party, at: text, ...signed })).optional(),
  delegations: z.array(z.strictObject({ to: text, by: party, at: text, endsAt: text })).optional(),
  delegatedBy: signed.delegatedBy,
  decidedAt: text.optional(),
  comment: signed.comment,
  executeBy: text.optional(),
  withdrawal: z
    .strictObject({
      because: z.enum(['requested', 'run-ended']),
      by: party,
      reason: note.optional(),
      at: text,
    })
    .optional(),
  invalidation: z
    .strictObject({
      cause: z.discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('draft-changed'), draftVersion: count, digest: text }),
        z.strictObject({ kind: z.literal('rights-changed'), sub: text }),
        z.strictObject({ kind: z.literal('facts-changed'), facts: z.array(changed) }),
      ]),
      at: text,
    })
    .optional(),
  claimId: text.optional(),
  filingStartedAt: text.optional(),
  receiptNumber: text.optional(),
  filedAt: text.optional(),
  refusal: z.strictObject({ code: text, at: text }).optional(),
});

const fact = z.strictObject({
  name: text,
  value: content,
  source: z.strictObject({
    kind: z.enum(['claims', 'profile', 'policy', 'statement']),
    ref: note.optional(),
  }),
  recheck: z.enum(['on-resume', 'on-execution', 'both', 'never']),
  required: z.boolean(),
  maxAgeSeconds: count.optional(),
  observedAt: text,
  /** Of the event that the value is from. */
  revision: text,
  /** A recheck found another value, or that it is too old, and no worker has answered to that yet. */
  changedAt: text.optional(),
});

/**
 * Where one run stands. A completed step leaves only its count: a rule lets it complete once, so the steps a
 * fold has to know by name are those not completed. Sizes are thus independent of how many steps are done.
 */
export const checkpoint = z.strictObject({
  runId: text,
  originRunId: text,
  /** The run, and its revision, whose state this one began with. */
  forkedFrom: z.strictObject({ runId: text, revision: text }).optional(),
  customerId: text,
  /** The customer's own identity, where they started the run themselves; not shown. */
  customer: party.optional(),
  conversationId: text.optional(),
  workflow: z.strictObject({ name: text, version: text }),
  input: content.optional(),
  phase: text.optional(),
  steps: z.strictObject({
    completed: count,
    open: z.array(stepMark),
    failed: z.array(text),
    recent: z.array(stepMark.extend({ status: z.enum(['started', 'completed', 'failed']) })),
  }),
  drafts: z.array(
    z.strictObject({
      draftId: text,
      draftVersion: count,
      kind: z.literal('claim'),
      digest: text,
      notice: personal('run', lossNotice),
      savedAt: text,
    }),
  ),
  facts: z.array(fact),
  /** What the last recheck found. */
  recheck: z
    .strictObject({
      unchanged: z.array(text),
      changed: z.array(changed),
      unavailable: z.array(text),
      at: text,
    })
    .optional(),
  approvals: z.array(approval),
  /** The state itself, or where the payload store has it. */
  workerState: z
    .strictObject({
      state: content.optional(),
      payload: z.strictObject({ digest: text, bytes: count }).optional(),
      label: note.optional(),
      savedAt: text,
    })
    .optional(),
  lease: z.strictObject({ number: count, workerId: text, holder: text, expiresAt: text }).optional(),
  ended: z
    .strictObject({
      status: z.enum(['completed', 'failed', 'cancelled']),
      reason: note.optional(),
      output: content.optional(),
      at: text,
    })
    .optional(),
  startedAt: text,
  updatedAt: text,
});
export type Checkpoint = z.infer<typeof checkpoint>;
export type Fact = Checkpoint['facts'][number];
export type Approval = Checkpoint['approvals'][number];
