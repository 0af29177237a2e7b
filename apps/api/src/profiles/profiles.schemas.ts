import { catalogue } from '#libs/domain/profiles';
import { z } from 'zod';
import { pathParameters } from '../routes.js';
import { id } from '../runs/runs.schemas.js';

const key = pathParameters['key'] as z.ZodString;
const value = z
  .string()
  .max(2000)
  .meta({ description: `What it may be follows from the key: ${Object.keys(catalogue).join(', ')}.` });
const messageId = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/, 'up to 128 of letters, digits and ._:-');

export const proposalBody = z.strictObject({ key, value, runId: id, quoteMessageId: messageId.optional() });
export type ProposalBody = z.infer<typeof proposalBody>;

export const proposalDecision = z.strictObject({ decision: z.enum(['approve', 'reject']) });
export type ProposalDecision = z.infer<typeof proposalDecision>;

export const preferenceBody = z.strictObject({ value });
export type PreferenceBody = z.infer<typeof preferenceBody>;

/** The run of the customer that an assistant holds the lease of; without it, any such run is looked for. */
export const profileQuery = { runId: id.optional() };

const at = z.iso.datetime({ precision: 3 });
const appended = { revision: z.string(), position: z.string() };

export const proposed = z.object({
  proposalId: id,
  status: z.enum(['pending', 'approved', 'rejected']),
  ...appended,
});
export const preferenceSet = z.object({ key, value, approvedAt: at, ...appended });
export const preferenceWithdrawn = z.object({ key, withdrawn: z.literal(true), ...appended });
export const profileView = z.object({
  customerId: id,
  preferences: z.array(
    z.object({
      key,
      value,
      approvedAt: at,
      approvedBy: z.string(),
      source: z.looseObject({ kind: z.enum(['customer', 'proposal']) }),
    }),
  ),
  proposals: z
    .array(z.looseObject({ proposalId: id, key, value, proposedBy: z.string(), proposedAt: at }))
    .optional(),
});
