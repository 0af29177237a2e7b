// These shapes are stored: fields may be added, nothing is changed or removed, and no stored event is rewritten.
import { type EventOf, money, plain } from '#libs/decider';
import { z } from 'zod';

const subject = plain(z.string().min(1).max(200));

/** The roles that somebody can be registered in; the register binds adjusters and supervisors. */
export const staffRole = z.enum(['adjuster', 'supervisor', 'auditor', 'privacy-officer', 'operator']);

const entry = {
  sub: subject,
  roles: z.array(staffRole),
  authorityLimit: money.optional(),
  active: z.boolean(),
};
const at = plain(z.iso.datetime({ precision: 3 }));

export const staffEvents = {
  StaffRegistered: z
    .strictObject({ ...entry, registeredBy: subject, registeredAt: at })
    .describe('A supervisor said who somebody is at work: their roles, and up to which amount they decide.'),
  StaffChanged: z
    .strictObject({ ...entry, changedBy: subject, changedAt: at })
    .describe('A supervisor said it anew; the whole of it replaces what was said before.'),
};

export type StaffEvent = EventOf<typeof staffEvents>;
