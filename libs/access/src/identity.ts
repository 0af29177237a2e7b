import { z } from 'zod';

export const roles = [
  'customer',
  'assistant',
  'adjuster',
  'supervisor',
  'auditor',
  'privacy-officer',
  'operator',
] as const;
export type Role = (typeof roles)[number];

/** Who is calling: what a verified token says of its bearer. */
export interface Identity {
  readonly sub: string;
  readonly tenant: string;
  readonly roles: readonly Role[];
  readonly customerId?: string;
  /** The subjects on whose behalf this one acts. */
  readonly actFor: readonly string[];
  /** When the token ends, in milliseconds since the epoch. */
  readonly expiresAt: number;
}

const subject = z.string().min(1).max(200);

/** The payload of a token that names a bearer. Roles that Waymark does not know are left out: they grant nothing. */
export const tokenPayload = z.object({
  sub: subject,
  tenant: z.string().regex(/^[a-z0-9]{1,32}$/),
  roles: z
    .array(z.string())
    .max(50)
    .transform((given) => roles.filter((role) => given.includes(role))),
  customer_id: z.uuid().toLowerCase().optional(),
  act_for: z.array(subject).max(100).default([]),
  exp: z.number(),
});
