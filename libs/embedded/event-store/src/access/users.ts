import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { USERS_FILE, isErrno, readMarker, syncFolder } from '../folder.js';

/** A user as asked for. `$admins` may do everything, `$ops` what looks after the store; other groups stand in `$acl`. */
export interface UserWanted {
  readonly name: string;
  readonly password: string;
  readonly groups?: readonly string[];
}

/** What is kept of a user: nobody can log in with it. */
export interface StoredUser {
  readonly groups: readonly string[];
  /** Of scrypt: hexadecimal, and its cost N; r is 8 and p is 1. */
  readonly salt: string;
  readonly hash: string;
  readonly cost: number;
}

/** The change cannot be made; nothing was written. `message` says why. */
export class UsersUnchanged extends Error {
  override readonly name = 'UsersUnchanged';
}

const DRAFT = `${USERS_FILE}.new`;
const FORMAT = 'waymark-event-store-users';
const COST = 16_384;
const HASH_BYTES = 32;
const MOST_USERS = 1000;
const PASSWORD_BYTES = 1024;
/** In `authorization` a colon ends the name, and lists of `$acl` use names beginning with `$` for groups. */
const NAME = /^[\p{L}\p{N}_.@+-][\p{L}\p{N}_.@+ -]{0,127}$/u;
const GROUP = /^\$?[\p{L}\p{N}_.@+-]{1,128}$/u;

type Known = ReadonlyMap<string, StoredUser>;

const derive = (password: string, salt: Buffer, cost: number): Promise<Buffer> =>
  new Promise((resolve, reject) =>
    scrypt(password, salt, HASH_BYTES, { N: cost }, (error, key) => (error ? reject(error) : resolve(key))),
  );

const hashed = async ({ password, groups = [] }: UserWanted): Promise<StoredUser> => {
  const salt = randomBytes(16);
  const hash = await derive(password, salt, COST);
  return { groups, salt: salt.toString('hex'), hash: hash.toString('hex'), cost: COST };
};

/** Takes as long for nobody as for somebody. */
export async function isPasswordOf(user: StoredUser | undefined, password: string): Promise<boolean> {
  const { salt, hash, cost } = user ?? NOBODY;
  const key = await derive(password, Buffer.from(salt, 'hex'), cost);
  return timingSafeEqual(key, Buffer.from(hash, 'hex')) && user !== undefined;
}

const NOBODY: StoredUser = {
  groups: [],
  salt: '00'.repeat(16),
  hash: '00'.repeat(HASH_BYTES),
  cost: COST,
};

/**
 * The users of one store, in `users.json` of its folder, which holds no password. A running store sees a change at the
 * next call.
 */
export class Users {
  private known: Known = new Map();
  private seen = '';

  constructor(
    private readonly folder: string,
    private readonly onNotice: (notice: string) => void,
  ) {
    this.known = readUsers(folder);
    this.seen = this.version();
  }

  get isEmpty(): boolean {
    return this.newest().size === 0;
  }

  get(name: string): StoredUser | undefined {
    return this.newest().get(name);
  }

  /** A file that cannot be read leaves what was known, and is told. */
  private newest(): Known {
    const version = this.version();
    if (version === this.seen) return this.known;
    this.seen = version;
    try {
      this.known = readUsers(this.folder);
    } catch (error) {
      this.onNotice(`the users stay as they were: ${String(error)}`);
    }
    return this.known;
  }

  private version(): string {
    const found = statSync(join(this.folder, USERS_FILE), { throwIfNoEntry: false });
    return found ? `${found.ino} ${found.mtimeMs} ${found.size}` : '';
  }
}

/** Users by name, with their groups. Throws `ForeignFolder`. */
export function listUsers(folder: string): { name: string; groups: readonly string[] }[] {
  readMarker(folder);
  return [...readUsers(folder)].map(([name, { groups }]) => ({ name, groups }));
}

/** Adds the users, or gives those that there are another password and other groups. Throws `UsersUnchanged`. */
export async function putUsers(folder: string, wanted: readonly UserWanted[]): Promise<void> {
  wanted.forEach(check);
  const stored = await Promise.all(wanted.map(async (user) => [user.name, await hashed(user)] as const));
  change(folder, (users) => {
    for (const [name, user] of stored) users.set(name, user);
    if (users.size > MOST_USERS) throw new UsersUnchanged(`a store has at most ${MOST_USERS} users`);
  });
}

/** What a store is started with: only what differs is written. Throws `UsersUnchanged`. */
export async function ensureUsers(folder: string, wanted: readonly UserWanted[]): Promise<void> {
  const known = readUsers(folder);
  const differs = await Promise.all(
    wanted.map(async (user) => {
      const old = known.get(user.name);
      const same = old && String(old.groups) === String(user.groups ?? []);
      return !same || !(await isPasswordOf(old, user.password));
    }),
  );
  const different = wanted.filter((_, i) => differs[i]);
  if (different.length > 0) await putUsers(folder, different);
}

/** Throws `UsersUnchanged` where there is none of that name. */
export function removeUser(folder: string, name: string): void {
  change(folder, (users) => {
    if (!users.delete(name)) throw new UsersUnchanged(`there is no user ${JSON.stringify(name)}`);
  });
}

function check({ name, password, groups = [] }: UserWanted): void {
  if (!NAME.test(name))
    throw new UsersUnchanged('the name of a user is 1 to 128 letters, digits, spaces and . _ @ + -');
  const bytes = Buffer.byteLength(password);
  if (bytes === 0 || bytes > PASSWORD_BYTES)
    throw new UsersUnchanged(`the password of a user is 1 to ${PASSWORD_BYTES} bytes long, not ${bytes}`);
  const wrong = groups.find((group) => !GROUP.test(group) || group === '$all');
  if (wrong !== undefined) throw new UsersUnchanged(`${JSON.stringify(wrong)} is no name of a group`);
}

interface UsersFile {
  readonly format: string;
  readonly users: Record<string, StoredUser>;
}

function readUsers(folder: string): Known {
  const path = join(folder, USERS_FILE);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return new Map();
    throw error;
  }
  try {
    const { format, users } = JSON.parse(text) as UsersFile;
    if (format === FORMAT) return new Map(Object.entries(users));
  } catch (error) {
    throw new UsersUnchanged(`${path} cannot be read: ${String(error)}`);
  }
  throw new UsersUnchanged(`${path} does not hold the users of an event store`);
}

/** One change at a time, by whichever process: the draft is the lock. Durable when it returns. */
function change(folder: string, make: (users: Map<string, StoredUser>) => void): void {
  mkdirSync(folder, { recursive: true });
  readMarker(folder);
  const draft = join(folder, DRAFT);
  const descriptor = openDraft(draft);
  try {
    const users = new Map(readUsers(folder));
    make(users);
    const file: UsersFile = { format: FORMAT, users: Object.fromEntries(users) };
    writeSync(descriptor, `${JSON.stringify(file, null, 2)}\n`);
    fsyncSync(descriptor);
    renameSync(draft, join(folder, USERS_FILE));
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  } finally {
    closeSync(descriptor);
  }
  syncFolder(folder);
}

function openDraft(draft: string): number {
  try {
    return openSync(draft, 'wx', 0o600);
  } catch (error) {
    if (!isErrno(error, 'EEXIST')) throw error;
    throw new UsersUnchanged(`another change is being made; if none is, remove ${draft}`);
  }
}
