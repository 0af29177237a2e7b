import { z } from 'zod';
import { id, text } from '../runs/runs.schemas.js';

export const claimQuery = {
  status: z.literal('filed').optional(),
  customerId: id.optional(),
  policyNumber: text(64).optional(),
};

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
