import { z } from 'zod';
import { money } from '#libs/decider';
import { claimStatuses } from '#libs/domain/claims';
import { id, text } from '../runs/runs.schemas.js';

export const claimQuery = {
  status: z.enum(claimStatuses).optional(),
  customerId: id.optional(),
  policyNumber: text(64).optional(),
};

export const acknowledgeBody = z.strictObject({ note: text(4000).optional() });
export type AcknowledgeBody = z.infer<typeof acknowledgeBody>;
export const assessBody = z.strictObject({ amount: money.optional(), findings: text(4000).optional() });
export type AssessBody = z.infer<typeof assessBody>;
export const settleBody = z.strictObject({ amount: money, payee: text(200) });
export type SettleBody = z.infer<typeof settleBody>;
export const reasonBody = z.strictObject({ reason: text(4000) });
export type ReasonBody = z.infer<typeof reasonBody>;

const appended = { revision: z.string(), position: z.string() };
export const handled = z.object({ claimId: id, status: z.enum(claimStatuses), ...appended });
export const settled = handled.extend({ remaining: z.int() });

const at = z.iso.datetime({ precision: 3 });

export const receiptView = z.object({
  receiptNumber: z.string(),
  claimId: id,
  filedAt: at,
  policyNumber: z.string(),
});
export const claimView = z.looseObject({
  claimId: id,
  customerId: id,
  status: z.string(),
  notice: z.looseObject({}),
  receipt: receiptView,
  updatedAt: at,
  revision: z.string(),
});
export const provenanceView = z.looseObject({
  claimId: id,
  runId: id,
  approvalId: z.string(),
  digest: z.string(),
  facts: z.array(z.string()),
  decidedBy: z.array(z.string()),
  revisions: z.object({ run: z.string(), claim: z.string() }),
  draft: z.object({ digest: z.string().optional(), matches: z.boolean() }),
});
