import { z } from 'zod';
import { money } from '#libs/decider';
import { staffRole } from '#libs/domain/staff';

export const staffBody = z.strictObject({
  roles: z.array(staffRole).max(5),
  authorityLimit: money.optional(),
  active: z.boolean(),
});
export type StaffBody = z.infer<typeof staffBody>;

const at = z.iso.datetime({ precision: 3 });
const entry = { sub: z.string(), ...staffBody.shape };

export const registered = z.object({ ...entry, revision: z.string(), position: z.string() });
export const staffPage = z.object({
  items: z.array(
    z.object({
      ...entry,
      registeredBy: z.string(),
      registeredAt: at,
      changedBy: z.string().optional(),
      changedAt: at.optional(),
      revision: z.string(),
    }),
  ),
  nextCursor: z.string().nullable(),
});
