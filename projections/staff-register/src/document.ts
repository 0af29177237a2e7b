import { money, plain } from '#libs/decider';
import { staffRole } from '#libs/domain/staff';
import { z } from 'zod';

const text = plain(z.string());

/** Who one person is at work in the register. */
export const staffEntry = z.strictObject({
  sub: text,
  roles: z.array(staffRole),
  authorityLimit: money.optional(),
  active: z.boolean(),
  registeredBy: text,
  registeredAt: text,
  changedBy: text.optional(),
  changedAt: text.optional(),
});
export type StaffEntry = z.infer<typeof staffEntry>;
