import { createHmac, randomBytes } from 'node:crypto';
import { type Failure, unauthenticated, unavailable } from '../errors.js';
import { type StoredUser, type Users, isPasswordOf } from './users.js';

/** Who a call comes from. */
export interface Caller {
  readonly name: string;
  /** What stands for the caller in access lists, as of now: nothing for who is nobody, or is no user any more. */
  roles(): readonly string[];
}

const ADMINS = '$admins';
const OPS = '$ops';
/** Every user. */
export const EVERYBODY = '$all';

/** Who calls where nobody is asked, as in a server that is run insecurely. */
export const TRUSTED: Caller = { name: 'anonymous', roles: () => [ADMINS] };
const ANONYMOUS: Caller = { name: 'anonymous', roles: () => [] };

export const isUser = (caller: Caller): boolean => caller.roles().length > 0;
export const isAdmin = (caller: Caller): boolean => caller.roles().includes(ADMINS);
export const isOperator = (caller: Caller): boolean => isAdmin(caller) || caller.roles().includes(OPS);

/** Passwords that are being looked at or wait for it: one at a time, as hashing and syncing share threads. */
const MOST_WAITING = 64;
const MOST_REMEMBERED = 1000;

interface Verified {
  readonly user: StoredUser;
  readonly caller: Caller;
}

/**
 * Tells callers by the `authorization` of their calls (`Basic`, section 1.5). A password that was right once is
 * remembered, under a keyed digest, until its user is changed: hashing it takes some 50 ms.
 */
export class Callers {
  private readonly key = randomBytes(32);
  private readonly verified = new Map<string, Verified>();
  private last: Promise<unknown> = Promise.resolve();
  private waiting = 0;

  constructor(
    private readonly users: Users,
    /** Whether who shows no credentials is nobody also while there are no users. */
    private readonly required: boolean,
  ) {}

  /** At once where that is known. The failure is that of the call: credentials that are shown must be right. */
  callerOf(authorization: string | undefined): Caller | Promise<Caller | Failure> {
    if (!this.required && this.users.isEmpty) return TRUSTED;
    if (authorization === undefined) return ANONYMOUS;
    const digest = createHmac('sha256', this.key).update(authorization).digest('base64');
    const known = this.verified.get(digest);
    if (known && known.user === this.users.get(known.caller.name)) return known.caller;
    this.verified.delete(digest);
    return this.verify(authorization, digest);
  }

  private async verify(authorization: string, digest: string): Promise<Caller | Failure> {
    const { name, password } = basic(authorization);
    if (this.waiting >= MOST_WAITING) return unavailable('too many passwords are being verified: try again');
    this.waiting += 1;
    const turn = this.last.then(async () => {
      const user = this.users.get(name);
      return (await isPasswordOf(user, password)) ? user : undefined;
    });
    this.last = turn.catch(() => undefined);
    try {
      const user = await turn;
      if (!user) return unauthenticated();
      const caller = this.callerFor(name);
      this.remember(digest, { user, caller });
      return caller;
    } finally {
      this.waiting -= 1;
    }
  }

  private callerFor(name: string): Caller {
    const roles = (): readonly string[] => {
      const user = this.users.get(name);
      return user ? [EVERYBODY, name, ...user.groups] : [];
    };
    return { name, roles };
  }

  private remember(digest: string, verified: Verified): void {
    const [oldest] = this.verified.keys();
    if (this.verified.size >= MOST_REMEMBERED && oldest !== undefined) this.verified.delete(oldest);
    this.verified.set(digest, verified);
  }
}

/** What is no `Basic` authorization names nobody. */
function basic(authorization: string): { name: string; password: string } {
  const [, encoded = ''] = /^Basic ([A-Za-z0-9+/=]+)$/i.exec(authorization) ?? [];
  const text = Buffer.from(encoded, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  return colon < 0
    ? { name: '', password: '' }
    : { name: text.slice(0, colon), password: text.slice(colon + 1) };
}
