import { derivedId } from '#libs/canonical';
import { money } from '#libs/decider';
import { z } from 'zod';

const text = (max: number) => z.string().min(1).max(max);
const count = z.int().min(0).max(1000);

/**
 * A reported loss, as a draft holds it and as a filed claim carries it. Amounts are decimal strings; what is
 * unknown is absent, never a placeholder.
 */
export const lossNotice = z.strictObject({
  policyNumber: text(64),
  lossDate: z.iso.date(),
  reportedDate: z.iso.date().optional(),
  lossType: z.enum(['auto-collision', 'auto-theft', 'vehicle-fire', 'glass', 'property', 'injury', 'other']),
  lossLocation: z
    .strictObject({ line: text(200).optional(), city: text(100).optional(), region: text(100).optional() })
    .optional(),
  description: text(8000),
  estimatedAmount: money,
  vehicles: z
    .array(
      z.strictObject({
        make: text(100),
        model: text(100),
        year: z.int().min(1885).max(2200),
        vin: text(17).optional(),
      }),
    )
    .max(20)
    .optional(),
  injuries: count.optional(),
  witnesses: count.optional(),
  policeReport: z.strictObject({ available: z.boolean(), number: text(64).optional() }).optional(),
  contacts: z
    .array(
      z.strictObject({
        name: text(200),
        role: text(100).optional(),
        phone: text(40).optional(),
        email: z.email().max(254).optional(),
      }),
    )
    .max(20)
    .optional(),
});
export type LossNotice = z.infer<typeof lossNotice>;

/** A notice with the random salt that keeps its digest from being guessed; sealed as one. */
export const saltedNotice = z.strictObject({
  salt: z.string().regex(/^[0-9a-f]{32,64}$/),
  notice: lossNotice,
});
export type SaltedNotice = z.infer<typeof saltedNotice>;

/** One draft of one origin run can become one claim, whichever fork or repeat files it. */
export function claimIdOf(tenant: string, originRunId: string, draftId: string): string {
  return derivedId('claim', tenant, originRunId, draftId);
}
