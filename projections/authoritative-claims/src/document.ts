import { money, personal, plain } from '#libs/decider';
import { claimStatuses } from '#libs/domain/claims';
import { lossNotice } from '#libs/domain/losses';
import { z } from 'zod';

const text = plain(z.string());
const note = personal('claim', z.string());
const amount = personal('claim', money);
const party = z.strictObject({ sub: text, actFor: z.array(text) });
const closing = z.strictObject({ reason: note, by: party, at: text });

/** The authoritative record of a filed claim. No field of it can hold a draft. */
export const claimRecord = z.strictObject({
  claimId: text,
  customerId: text,
  status: z.enum(claimStatuses),
  receipt: z.strictObject({ receiptNumber: text, filedAt: text }),
  notice: personal('claim', lossNotice),
  provenance: z.strictObject({
    runId: text,
    originRunId: text,
    draftId: text,
    draftVersion: z.int(),
    approvalId: text,
    digest: text,
    facts: z.array(text),
    decidedBy: z.array(text),
    runRevision: text,
    claimRevision: text,
  }),
  acknowledgement: z.strictObject({ note: note.optional(), by: party, at: text }).optional(),
  assessment: z
    .strictObject({ amount: amount.optional(), findings: note.optional(), by: party, at: text })
    .optional(),
  /** A settlement that waits for a second person. */
  proposal: z.strictObject({ amount, payee: note, by: party, at: text }).optional(),
  settlements: z.array(z.strictObject({ amount, payee: note, by: z.array(party), at: text })).optional(),
  rejection: closing.optional(),
  withdrawal: closing.optional(),
  reopening: closing.optional(),
  updatedAt: text,
});
export type ClaimRecord = z.infer<typeof claimRecord>;
