import { personal, plain } from '#libs/decider';
import { z } from 'zod';

const text = plain(z.string());
const value = personal('preference', z.json());
const proposed = {
  proposalId: text,
  runId: text,
  quoteMessageId: text.optional(),
  proposedBy: text,
};

/** The approved preferences of one customer, and beside them what waits for the customer's decision. */
export const preferenceProfile = z.strictObject({
  customerId: text,
  preferences: z.array(
    z.strictObject({
      key: text,
      value,
      approvedAt: text,
      approvedBy: text,
      source: z.union([
        z.strictObject({ kind: z.literal('customer') }),
        z.strictObject({ kind: z.literal('proposal'), ...proposed }),
      ]),
    }),
  ),
  proposals: z.array(z.strictObject({ ...proposed, key: text, value, proposedAt: text })),
  updatedAt: text,
});
export type PreferenceProfile = z.infer<typeof preferenceProfile>;
