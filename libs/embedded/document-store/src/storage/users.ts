import { createHash, createHmac, pbkdf2, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { encodePlain, type PlainDocument } from '../bson/encode.js';
import * as options from '../bson/options.js';
import { documentValue, fieldsOf, type Value } from '../bson/values.js';
import { notSupported, StoreError } from '../errors.js';
import type { Layer, Table } from './layers.js';
import type { Storage } from './storage.js';

/** A role as MongoDB grants it: `read`, `readWrite` or `dbAdmin` of one database, or `root` of `admin`. */
export interface Role {
  readonly role: string;
  readonly db: string;
}

/** What SCRAM keeps of a password (RFC 5802, section 3): nobody can log in with it. */
export interface Credential {
  readonly iterations: number;
  readonly salt: Buffer;
  readonly storedKey: Buffer;
  readonly serverKey: Buffer;
}

export interface User {
  readonly db: string;
  readonly name: string;
  readonly roles: readonly Role[];
  readonly credential: Credential;
}

const iterations = 15_000;
const derive = promisify(pbkdf2);

/** Makes the credential of SCRAM-SHA-256 (RFC 7677). Passwords are printable ASCII, for which SASLprep does nothing. */
export async function credentialOf(password: string, salt: Buffer = randomBytes(28)): Promise<Credential> {
  if (!/^[\x20-\x7e]+$/.test(password))
    throw notSupported('a password with other than printable ASCII characters');
  const salted = await derive(password, salt, iterations, 32, 'sha256');
  const clientKey = createHmac('sha256', salted).update('Client Key').digest();
  return {
    iterations,
    salt,
    storedKey: createHash('sha256').update(clientKey).digest(),
    serverKey: createHmac('sha256', salted).update('Server Key').digest(),
  };
}

/** The roles a user may be given; any other is refused by name. */
export function checkRole({ role, db }: Role): void {
  const known = ['read', 'readWrite', 'dbAdmin'].includes(role) || (role === 'root' && db === 'admin');
  if (!known) throw notSupported(`the role '${role}' of '${db}'`);
}

const keyOf = (db: string, name: string): Buffer => Buffer.from(`${db}.${name}`);

const everyUser = { from: Buffer.alloc(0), to: Buffer.alloc(8, 0xff) };
const maximumUsers = 1_000;

/**
 * Users by database and name. Who may do what is answered from memory, which holds what is on disk and nothing else. A
 * change is judged against the newest state, reaches the file in the layer it was given, and counts from `settle` on:
 * one whose commit failed never counts.
 */
export class Users {
  private readonly table: Table;
  private readonly known = new Map<string, User>();
  /** The last user may not be dropped: without any, everybody would be let in. */
  required = false;

  constructor(private readonly storage: Storage) {
    this.table = storage.table('users');
  }

  /** Reads them all: one that is damaged keeps the store from opening, since without users everybody is let in. */
  load(): void {
    for (const { value } of this.storage.latest.read(this.table, everyUser, maximumUsers + 1).entries) {
      const user = decode(documentValue(value));
      this.known.set(`${user.db}.${user.name}`, user);
    }
  }

  /** While there are none, nobody is asked who they are. */
  get isEmpty(): boolean {
    return this.known.size === 0;
  }

  get(db: string, name: string): User | undefined {
    return this.known.get(`${db}.${name}`);
  }

  /** The user by the newest state, which may not be on disk yet: what a change in its turn is made from. */
  newest(db: string, name: string): User | undefined {
    const stored = this.storage.latest.get(this.table, keyOf(db, name));
    return stored && decode(documentValue(stored));
  }

  of(db: string): User[] {
    return [...this.known.values()].filter((user) => user.db === db);
  }

  put(user: User, layer: Layer): void {
    const key = keyOf(user.db, user.name);
    if (!layer.over(this.storage.latest).get(this.table, key) && this.count(layer) >= maximumUsers)
      throw new StoreError(2, `more than ${maximumUsers} users`);
    user.roles.forEach(checkRole);
    layer.set(this.table, key, encodePlain(encode(user)));
  }

  remove(user: User, layer: Layer): void {
    layer.set(this.table, keyOf(user.db, user.name), undefined);
    if (this.required && this.count(layer) === 0)
      throw new StoreError(20, 'the last user of a store that listens beyond loopback cannot be dropped');
  }

  /** Takes the user as it is on disk; to be called once the commit of a change is. */
  settle({ db, name }: User): void {
    const snapshot = this.storage.snapshot();
    const stored = snapshot.get(this.table, keyOf(db, name));
    snapshot.release();
    if (stored) this.known.set(`${db}.${name}`, decode(documentValue(stored)));
    else this.known.delete(`${db}.${name}`);
  }

  /** Users by the newest state with the changes of the layer. */
  private count(layer: Layer): number {
    const view = layer.over(this.storage.latest);
    let count = 0;
    let after: Buffer | undefined;
    do {
      const piece = view.read(this.table, { ...everyUser, ...(after ? { after } : {}) }, maximumUsers);
      count += piece.entries.length;
      after = piece.next;
    } while (after);
    return count;
  }
}

function encode({ db, name, roles, credential }: User): PlainDocument {
  const hex = (bytes: Buffer): string => bytes.toString('hex');
  const { salt, storedKey, serverKey } = credential;
  return {
    db,
    name,
    roles: roles.map(({ role, db: of }) => ({ role, db: of })),
    iterations: credential.iterations,
    salt: hex(salt),
    storedKey: hex(storedKey),
    serverKey: hex(serverKey),
  };
}

function decode(stored: Value): User {
  const text = (document: Value, name: string): string => options.text(document, name) ?? '';
  const bytes = (name: string): Buffer => Buffer.from(text(stored, name), 'hex');
  return {
    db: text(stored, 'db'),
    name: text(stored, 'name'),
    roles: fieldsOf(options.array(stored, 'roles') as Value).map((role) => ({
      role: text(role, 'role'),
      db: text(role, 'db'),
    })),
    credential: {
      iterations: options.whole(stored, 'iterations') ?? 0,
      salt: bytes('salt'),
      storedKey: bytes('storedKey'),
      serverKey: bytes('serverKey'),
    },
  };
}
