import type { Role } from '#libs/access';

/** Whom a token is made for. */
export interface Caller {
  readonly sub: string;
  readonly role: Role;
  readonly tenant?: string;
  readonly customerId?: string;
  readonly actFor?: string[];
}
