import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { BadSetting } from './config.js';

/** Every database of the document store, by the name of its one owner. A room with a new database adds it here. */
export const databases = [
  'authoritative-claims',
  'conversations',
  'current-checkpoints',
  'leases',
  'payloads',
  'preference-profiles',
  'reactions',
  'snapshots',
  'staff-register',
] as const;

type Access = 'writer' | 'reader';

export interface StoreUser {
  readonly name: string;
  readonly password: string;
  /** The database that the user logs in to, and the only one it may use. */
  readonly db: string;
  readonly roles: readonly { readonly role: string; readonly db: string }[];
}

/** The users of the document store: a writer and a reader for each database, and their passwords. */
export class StoreUsers {
  private constructor(private readonly passwords: Readonly<Record<string, string>>) {}

  /** @throws BadSetting for a file that cannot be read. */
  static read(path: string): StoreUsers {
    try {
      return new StoreUsers(JSON.parse(readFileSync(path, 'utf8')) as Record<string, string>);
    } catch (error) {
      throw new BadSetting(
        `WAYMARK_MONGODB_USERS is ${JSON.stringify(path)}; it cannot be read: ${String(error)}`,
      );
    }
  }

  /** Makes the file, readable by its owner alone, or adds the users it lacks; passwords that are there stay. */
  static async ensure(path: string): Promise<StoreUsers> {
    const before = passwordsIn(path);
    const names = databases.flatMap((db) => [`${db}-writer`, `${db}-reader`]);
    const fresh = names.filter((name) => before[name] === undefined);
    if (fresh.length === 0) return new StoreUsers(before);
    const passwords = {
      ...before,
      ...Object.fromEntries(fresh.map((name) => [name, randomBytes(24).toString('base64url')])),
    };
    const file = await open(`${path}.new`, 'w', 0o600);
    await file.writeFile(`${JSON.stringify(passwords, null, 2)}\n`);
    await file.sync();
    await file.close();
    await rename(`${path}.new`, path);
    return new StoreUsers(passwords);
  }

  /** @throws Error for a database that nobody owns. */
  credentials(db: string, access: Access): { username: string; password: string } {
    const username = `${db}-${access}`;
    const password = this.passwords[username];
    if (password === undefined)
      throw new Error(`the document store has no user ${username}: see databases in settings`);
    return { username, password };
  }

  get all(): StoreUser[] {
    return databases.flatMap((db) =>
      (['writer', 'reader'] as const).map((access) => {
        const { username: name, password } = this.credentials(db, access);
        const roles = access === 'writer' ? ['readWrite', 'dbAdmin'] : ['read'];
        return { name, password, db, roles: roles.map((role) => ({ role, db })) };
      }),
    );
  }
}

function passwordsIn(path: string): Record<string, string> {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Record<string, string>;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw error;
  }
}
