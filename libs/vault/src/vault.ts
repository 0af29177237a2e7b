import {
  type JsonWebKey,
  type KeyObject,
  createHmac,
  createSecretKey,
  generateKeyPairSync,
  randomBytes,
} from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { LRUCache } from 'lru-cache';
import { v5 } from 'uuid';
import { type Json, sha256 } from '#libs/canonical';
import type { DataKind } from '#libs/decider';
import { closeBox, openBox } from './box.js';
import { type PersonalField, openEach, openFields, sealedFor } from './fields.js';
import { makeFolder, readIfThere, sweepTemporaries, writeOnce } from './files.js';
import { DamagedKey, PersonKeys, type Sealed, Unopenable, keyId, splitKeyName } from './person-keys.js';

const KEY_BYTES = 32;
const CACHED_PEOPLE = 20_000;
const TEMPORARY = 'tmp';
const MASTER = /^waymark-master-key-v1 ([A-Za-z0-9_-]{43}) ([0-9a-f]{16})\n$/;
const WRAPPED = /^waymark-key-v1 ([A-Za-z0-9_-]+)\n$/;

/** Keyed digests of one tenant: equal for equal texts, told to nobody without the key. */
export interface TenantKeys {
  /** HMAC-SHA-256 in hex; texts of different purposes never compare equal. */
  hmac(purpose: string, text: string): string;
  /**
   * A UUID (version 5) that follows from parts, in a namespace that follows from the key: whoever does not have it
   * cannot find the parts by trying. Those of different purposes never compare equal.
   */
  id(purpose: string, ...parts: string[]): string;
}

/** The key pair that signs the tokens of an installation without an identity provider of its own. */
export interface SigningKeys {
  readonly kid: string;
  readonly alg: 'EdDSA';
  readonly publicJwk: JsonWebKey;
  readonly privateJwk: JsonWebKey;
}

/**
 * The keys of an installation: files in one folder, each wrapped (AES-256-GCM) by the master key, whose own name
 * is authenticated with it, so that files cannot be swapped. `master.key` is the secret to guard and to back up:
 * without it nothing sealed can be read again.
 *
 * Several processes may use one folder: files are made once and never changed, and whoever comes second takes what
 * stands. A key is durable before it is first used. Erasing a person's data of a kind is removing that one file.
 */
export class Vault {
  private readonly tenants = new Map<string, TenantKeys>();
  private readonly people = new LRUCache<string, PersonKeys>({ max: CACHED_PEOPLE });

  private constructor(
    private readonly folder: string,
    private readonly master: KeyObject,
  ) {}

  /**
   * Opens a folder of keys, making it with a new master key on first use. Removes what processes that were killed
   * left half made.
   *
   * @param id of the master key that must be there: then none is made.
   * @throws Error naming the file if the master key is missing beside existing keys, damaged, or not the one of `id`.
   */
  static async open({ folder, id }: { folder: string; id?: string | undefined }): Promise<Vault> {
    const path = join(folder, 'master.key');
    const temporary = join(folder, TEMPORARY);
    let text = readIfThere(path);
    if (text === undefined) {
      if (id !== undefined) throw new Error(`${path} is missing: restore the folder of keys from its backup`);
      await makeFolder(folder);
      const others = (await readdir(folder)).filter((name) => name !== 'master.key' && name !== TEMPORARY);
      if (others.length > 0)
        throw new Error(`${path} is missing, but ${folder} holds keys that only it can open: restore it`);
      text = await writeOnce(path, masterText(randomBytes(KEY_BYTES)), temporary);
    }
    const vault = new Vault(folder, masterOf(text, path));
    if (id !== undefined && vault.id !== id)
      throw new Error(`${path} is another one than these data were sealed with: restore it from its backup`);
    await sweepTemporaries(temporary);
    return vault;
  }

  /** The public name of the master key. */
  get id(): string {
    return keyId(this.master);
  }

  /** The keyed digests of a tenant; the key is made on first use and kept for ever. */
  async tenant(tenant: string): Promise<TenantKeys> {
    const known = this.tenants.get(tenant);
    if (known) return known;
    const key = await this.keyOf(`tenants/${safe(tenant)}.key`, () => randomBytes(KEY_BYTES));
    const hmac = (purpose: string, text: string) =>
      createHmac('sha256', key).update(`${purpose}\0${text}`).digest('hex');
    const namespace = createHmac('sha256', key).update('waymark ids').digest().subarray(0, 16);
    const id = (...parts: string[]) => v5(Buffer.from(JSON.stringify(parts)), namespace);
    const keys: TenantKeys = { hmac, id };
    this.tenants.set(tenant, keys);
    return keys;
  }

  /** The keys of a person (of a UUID, whatever its letters' case); those of the kinds in `create` are made, durably, where missing. */
  async person(
    tenant: string,
    customerId: string,
    { create = [] }: { create?: readonly DataKind[] } = {},
  ): Promise<PersonKeys> {
    const keys = this.keysOf(tenant, customerId);
    for (const kind of create)
      if (!keys.has(kind))
        await this.keyOf(personFile(tenant, customerId, kind), () => randomBytes(KEY_BYTES));
    return keys;
  }

  /**
   * A copy of an object with its sealed personal fields opened, whoever they are sealed for.
   *
   * @throws Unopenable naming the field.
   */
  async openFields(
    tenant: string,
    value: { [key: string]: Json },
    fields: readonly PersonalField[],
    place: string,
  ): Promise<{ [key: string]: Json }> {
    const customerId = sealedFor(value, fields);
    if (customerId === undefined) return value;
    return openFields(value, fields, await this.person(tenant, customerId), place);
  }

  /**
   * A copy of an object with every sealed value in it opened, wherever it stands; for whoever has the stored form
   * and not its schema. What was inside a sealed value is data, and is not opened again.
   *
   * @throws Unopenable naming the field.
   */
  async openAll(
    tenant: string,
    value: { [key: string]: Json },
    place: string,
  ): Promise<{ [key: string]: Json }> {
    return openEach(value, place, (sealed, at) => this.openOne(tenant, sealed, at)) as {
      [key: string]: Json;
    };
  }

  /** As `openAll`, with what cannot be opened left sealed where it stands; `failures` says why, in order. */
  async openSome(
    tenant: string,
    value: { [key: string]: Json },
    place: string,
  ): Promise<{ value: { [key: string]: Json }; failures: Unopenable[] }> {
    const failures: Unopenable[] = [];
    const opened = openEach(value, place, (sealed, at) => {
      try {
        return this.openOne(tenant, sealed, at);
      } catch (error) {
        if (!(error instanceof Unopenable)) throw error;
        failures.push(error);
        return { ...sealed };
      }
    });
    return { value: opened as { [key: string]: Json }, failures };
  }

  /** The key pair for the installation's own tokens (Ed25519), made on first use. */
  async signingKeys(): Promise<SigningKeys> {
    const stored = await this.keyOf('signing.key', () => {
      const { privateKey } = generateKeyPairSync('ed25519');
      return Buffer.from(JSON.stringify(privateKey.export({ format: 'jwk' })), 'utf8');
    });
    const privateJwk = JSON.parse(stored.export().toString('utf8')) as JsonWebKey;
    const { kty, crv, x } = privateJwk;
    const kid = sha256(JSON.stringify({ crv, kty, x })).slice(0, 16);
    return { kid, alg: 'EdDSA', publicJwk: { kty, crv, x }, privateJwk };
  }

  private openOne(tenant: string, sealed: Sealed, place: string): Json {
    return this.keysOf(tenant, splitKeyName(sealed.key)[1]).open(sealed, place);
  }

  private keysOf(tenant: string, customerId: string): PersonKeys {
    const id = `${tenant}/${customerId}`;
    const known = this.people.get(id);
    if (known) return known;
    const keys = new PersonKeys(customerId, (kind) => this.readKey(personFile(tenant, customerId, kind)));
    this.people.set(id, keys);
    return keys;
  }

  /** `name` is the file's path in the folder, with `/` on every platform: it is authenticated with the key. */
  private async keyOf(name: string, make: () => Buffer): Promise<KeyObject> {
    const known = this.readKey(name);
    if (known) return known;
    const path = join(this.folder, name);
    return this.unwrap(name, await writeOnce(path, this.wrap(name, make()), join(this.folder, TEMPORARY)));
  }

  private readKey(name: string): KeyObject | undefined {
    const text = readIfThere(join(this.folder, name));
    return text === undefined ? undefined : this.unwrap(name, text);
  }

  private wrap(name: string, key: Buffer): string {
    return `waymark-key-v1 ${closeBox(this.master, key, name).toString('base64url')}\n`;
  }

  private unwrap(name: string, text: string): KeyObject {
    const box = WRAPPED.exec(text)?.[1];
    const key = box && openBox(this.master, Buffer.from(box, 'base64url'), name);
    if (!key)
      throw new DamagedKey(
        `${join(this.folder, name)} is damaged, or was made with another master.key: restore it`,
      );
    return createSecretKey(key);
  }
}

function masterText(key: Buffer): string {
  return `waymark-master-key-v1 ${key.toString('base64url')} ${sha256(key).slice(0, 16)}\n`;
}

function masterOf(text: string, path: string): KeyObject {
  const [, encoded = '', check] = MASTER.exec(text) ?? [];
  const key = Buffer.from(encoded, 'base64url');
  if (key.length !== KEY_BYTES || sha256(key).slice(0, 16) !== check)
    throw new Error(`${path} is not a Waymark master key, or is damaged: restore it from its backup`);
  return createSecretKey(key);
}

function personFile(tenant: string, customerId: string, kind: DataKind): string {
  return `people/${safe(tenant)}/${safe(customerId.toLowerCase())}.${kind}.key`;
}

/** A part of a file name: what could leave the folder, or collide on a file system without case, is refused. */
function safe(part: string): string {
  if (!/^[a-z0-9][a-z0-9-]{0,63}$/.test(part))
    throw new Error(`not a name for keys: ${JSON.stringify(part)}`);
  return part;
}
