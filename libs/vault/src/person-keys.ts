import type { KeyObject } from 'node:crypto';
import type { Json } from '#libs/canonical';
import type { DataKind } from '#libs/decider';
import { closeBox, openBox } from './box.js';

/** What stands in place of a personal value: `key` is `<kind>/<customerId>`, `box` is base64url of iv, ciphertext, tag. */
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

/**
 * A sealed value cannot be opened. `missing-key`: the key was erased or never made here. `altered`: a byte or the
 * place is not what was sealed. `foreign-key`: it was sealed for someone else.
 */
export class Unopenable extends Error {
  override readonly name = 'Unopenable';

  constructor(
    readonly code: 'missing-key' | 'altered' | 'foreign-key',
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
  private readonly keys = new Map<DataKind, KeyObject>();

  constructor(
    readonly customerId: string,
    private readonly read: (kind: DataKind) => KeyObject | undefined,
  ) {}

  has(kind: DataKind): boolean {
    return this.key(kind) !== undefined;
  }

  /** @throws Error if there is no key of that kind: ask for it with `person(…, { create: [kind] })`. */
  seal(kind: DataKind, value: Json, place: string): Sealed {
    const box = this.sealBytes(kind, Buffer.from(JSON.stringify(value), 'utf8'), place);
    return { sealed: 'v1', key: `${kind}/${this.customerId}`, box: box.toString('base64url') };
  }

  /** @throws Unopenable */
  open(sealed: Sealed, place: string): Json {
    const [kind, customerId] = splitKeyName(sealed.key);
    if (customerId !== this.customerId) throw new Unopenable('foreign-key', place);
    const content = this.openBytes(kind, Buffer.from(sealed.box, 'base64url'), place);
    return JSON.parse(content.toString('utf8')) as Json;
  }

  /** As `seal`, for bytes that are stored as bytes. */
  sealBytes(kind: DataKind, content: Uint8Array, place: string): Buffer {
    const key = this.key(kind);
    if (!key) throw new Error(`no ${kind} key for ${this.customerId}`);
    return closeBox(key, content, place);
  }

  /** @throws Unopenable */
  openBytes(kind: DataKind, box: Uint8Array, place: string): Buffer {
    const key = this.key(kind);
    if (!key) throw new Unopenable('missing-key', place);
    const content = openBox(key, box, place);
    if (!content) throw new Unopenable('altered', place);
    return content;
  }

  private key(kind: DataKind): KeyObject | undefined {
    const known = this.keys.get(kind) ?? this.read(kind);
    if (known) this.keys.set(kind, known);
    return known;
  }
}

/** The kind and the customer that a sealed value's `key` names. */
export function splitKeyName(name: string): [kind: DataKind, customerId: string] {
  const slash = name.indexOf('/');
  return [name.slice(0, slash) as DataKind, name.slice(slash + 1)];
}
