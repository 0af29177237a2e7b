import { personal, plain } from '#libs/decider';
import { lossNotice } from '#libs/domain/losses';
import { z } from 'zod';

const text = plain(z.string());

/** The authoritative record of a filed claim. No field of it can hold a draft. */
export const claimRecord = z.strictObject({
  claimId: text,
  customerId: text,
  status: z.enum(['filed']),
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
  updatedAt: text,
});
export type ClaimRecord = z.infer<typeof claimRecord>;
