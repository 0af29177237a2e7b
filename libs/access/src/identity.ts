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

/** Who a token names: all that stands in a `sub` can stand in a stream's name, and in every log and header. */
const subject = z
  .string()
  .regex(/^[A-Za-z0-9._@:|+-]{1,128}$/, 'must be 1 to 128 of A-Z, a-z, 0-9 and . _ @ : | + -');

/** For how many others one bearer can act: all of them stand in every event that the bearer causes. */
export const MOST_ACTED_FOR = 20;

/** The payload of a token that names a bearer. Roles that Waymark does not know are left out: they grant nothing. */
export const tokenPayload = z.object({
  sub: subject,
  tenant: z.string().regex(/^[a-z0-9]{1,32}$/),
  roles: z
    .array(z.string())
    .max(50)
    .transform((given) => roles.filter((role) => given.includes(role))),
  customer_id: z.uuid().toLowerCase().optional(),
  act_for: z.array(subject).max(MOST_ACTED_FOR, `must have at most ${MOST_ACTED_FOR} entries`).default([]),
  exp: z.number(),
});
