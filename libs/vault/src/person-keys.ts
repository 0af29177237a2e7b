import { type KeyObject, createHmac, createSecretKey, hkdfSync } from 'node:crypto';
import type { Json } from '#libs/canonical';
import type { DataKind } from '#libs/decider';
import { closeBox, openBox } from './box.js';

/**
 * What stands in place of a personal value: `key` is `<kind>/<customerId>/<key id>`, `box` is base64url of iv,
 * ciphertext, tag. Sealed is the value's JSON, filled up with spaces to a multiple of 32 bytes.
 */
export interface Sealed {
  readonly sealed: 'v1';
  readonly key: string;
  readonly box: string;
}

export function isSealed(value: unknown): value is Sealed {
  if (typeof value !== 'object' || value === null) return false;
  const { sealed, key, box } = value as Partial<Sealed>;
  return sealed === 'v1' && typeof key === 'string' && typeof box === 'string';
}

const PADDED_BYTES = 32;

/** A key's file is there and is not what was written: it is never made anew, and may be restored from a backup. */
export class DamagedKey extends Error {
  override readonly name = 'DamagedKey';
}

/**
 * A sealed value cannot be opened. `missing-key`: the key was erased (another may stand in its place) or never made
 * here. `damaged-key`: its file is damaged. `altered`: a byte or the place is not what was sealed. `foreign-key`: it was sealed for someone else.
 */
export class Unopenable extends Error {
  override readonly name = 'Unopenable';

  constructor(
    readonly code: 'missing-key' | 'damaged-key' | 'altered' | 'foreign-key',
    readonly place: string,
  ) {
    super(`cannot open the sealed value at ${place}: ${code}`);
  }
}

/**
 * The keys of one person of one tenant, one for each kind of data. Sealing and opening are synchronous: a key is
 * read on first use and then kept in memory; one that is not there is looked for again each time, since another
 * process may have made it. `place` names where a value stands (stream, event, field) and is authenticated with it.
 */
export class PersonKeys {
  private readonly keys = new Map<DataKind, PersonKey>();

  constructor(
    readonly customerId: string,
    private readonly read: (kind: DataKind) => KeyObject | undefined,
  ) {}

  /** @throws DamagedKey */
  has(kind: DataKind): boolean {
    return this.key(kind) !== undefined;
  }

  /** Why nothing of a kind can be opened or sealed, if so. */
  lacks(kind: DataKind): 'missing-key' | 'damaged-key' | undefined {
    try {
      return this.has(kind) ? undefined : 'missing-key';
    } catch (error) {
      if (error instanceof DamagedKey) return 'damaged-key';
      throw error;
    }
  }

  /** @throws Error if there is no key of that kind: ask for it with `person(…, { create: [kind] })`. */
  seal(kind: DataKind, value: Json, place: string): Sealed {
    const key = this.needed(kind);
    const box = closeBox(key.secret, padded(JSON.stringify(value)), place);
    return { sealed: 'v1', key: `${kind}/${this.customerId}/${key.id}`, box: box.toString('base64url') };
  }

  /** @throws Unopenable */
  open(sealed: Sealed, place: string): Json {
    const [kind, customerId, keyId] = splitKeyName(sealed.key);
    if (customerId !== this.customerId) throw new Unopenable('foreign-key', place);
    const lack = this.lacks(kind);
    if (lack) throw new Unopenable(lack, place);
    if (this.key(kind)?.id !== keyId) throw new Unopenable('missing-key', place);
    const content = this.openBytes(kind, Buffer.from(sealed.box, 'base64url'), place);
    return JSON.parse(content.toString('utf8')) as Json;
  }

  /** As `seal`, for bytes that are stored as bytes; they are not filled up. */
  sealBytes(kind: DataKind, content: Uint8Array, place: string): Buffer {
    return closeBox(this.needed(kind).secret, content, place);
  }

  /** @throws Unopenable */
  openBytes(kind: DataKind, box: Uint8Array, place: string): Buffer {
    const lack = this.lacks(kind);
    if (lack) throw new Unopenable(lack, place);
    const key = this.needed(kind);
    const content = openBox(key.secret, box, place);
    if (!content) throw new Unopenable('altered', place);
    return content;
  }

  /**
   * HMAC-SHA-256 in hex under a key derived from that of the kind (HKDF): once that is erased, nobody can tell what
   * it was of by trying. Texts of different purposes never compare equal.
   *
   * @throws Error if there is no key of that kind.
   */
  hmac(kind: DataKind, purpose: string, text: string): string {
    return createHmac('sha256', this.needed(kind).digests).update(`${purpose}\0${text}`).digest('hex');
  }

  private needed(kind: DataKind): PersonKey {
    const key = this.key(kind);
    if (!key) throw new Error(`no ${kind} key for ${this.customerId}`);
    return key;
  }

  private key(kind: DataKind): PersonKey | undefined {
    const known = this.keys.get(kind);
    if (known) return known;
    const secret = this.read(kind);
    if (!secret) return undefined;
    const key = { secret, digests: derived(secret, 'digests'), id: keyId(secret) };
    this.keys.set(kind, key);
    return key;
  }
}

interface PersonKey {
  readonly secret: KeyObject;
  /** For `hmac`. */
  readonly digests: KeyObject;
  /** Tells this key from one that replaced it, and nothing else. */
  readonly id: string;
}

function derived(secret: KeyObject, purpose: string): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync('sha256', secret, '', `waymark ${purpose}`, 32)));
}

/** A public name of a secret key: eight hex digits that tell it from others. */
export function keyId(secret: KeyObject): string {
  return createHmac('sha256', secret).update('waymark key id').digest('hex').slice(0, 8);
}

/** JSON may end in spaces, so what is filled up is read as it stands. */
function padded(json: string): Buffer {
  const bytes = Buffer.byteLength(json);
  const content = Buffer.alloc(Math.ceil(bytes / PADDED_BYTES) * PADDED_BYTES, ' ');
  content.write(json);
  return content;
}

/** What a sealed value's `key` names. */
export function splitKeyName(name: string): [kind: DataKind, customerId: string, keyId: string] {
  const [kind = '', customerId = '', id = ''] = name.split('/');
  return [kind as DataKind, customerId, id];
}
