import { z } from 'zod';
import { subject } from '../routes.js';
import { id, text } from '../runs/runs.schemas.js';

export const decisionBody = z.strictObject({
  decision: z.enum(['grant', 'deny']),
  digest: z.string().regex(/^[0-9a-f]{64}$/, '64 lower-case hex digits'),
  comment: text(2000, 0).optional(),
});
export type DecisionBody = z.infer<typeof decisionBody>;

export const withdrawBody = z.strictObject({ reason: text(2000) });
export type WithdrawBody = z.infer<typeof withdrawBody>;

export const delegateBody = z.strictObject({
  to: z.strictObject({ sub: subject }),
  expiresInSeconds: z.int().min(60).max(2_592_000).optional(),
});
export type DelegateBody = z.infer<typeof delegateBody>;

export const approvalQuery = {
  status: z.enum(['pending', 'granted', 'lapsed']).default('pending'),
  role: z.enum(['adjuster', 'supervisor']).optional(),
  runId: id.optional(),
};

const at = z.iso.datetime({ precision: 3 });
const appended = { revision: z.string(), position: z.string() };

export const decided = z.object({
  approvalId: z.string(),
  status: z.enum(['endorsed', 'granted', 'denied']),
  remaining: z.int(),
  ...appended,
});
export const delegated = z.object({
  approvalId: z.string(),
  to: z.object({ sub: z.string() }),
  endsAt: at,
  ...appended,
});
export const withdrawn = z.object({ approvalId: z.string(), status: z.literal('withdrawn'), ...appended });
const shown = {
  approvalId: z.string(),
  runId: id,
  customerId: id,
  draftId: z.string(),
  draftVersion: z.int(),
  digest: z.string(),
  status: z.string(),
  summary: z.string(),
  expiresAt: at,
};
export const approvalView = z.looseObject({
  ...shown,
  draft: z.looseObject({}).optional(),
  facts: z.array(z.unknown()),
  decisions: z.array(
    z.looseObject({ decision: z.string(), by: z.string(), at, delegatedBy: z.string().optional() }),
  ),
});
export const approvalPage = z.object({
  items: z.array(z.looseObject(shown)),
  nextCursor: z.string().nullable(),
  serverTime: at,
});
