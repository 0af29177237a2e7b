import type { DomainEvent } from '#libs/decider';
import type { PersonKeys, Vault } from '#libs/vault';
import { streamParts } from './envelope.js';
import { UnreadableEvent } from './errors.js';
import type { Fold } from './fold.js';
import { type StreamKind, kindsOfData } from './stream-kind.js';

/** The keys under which a stream is written. */
export interface StreamKeys {
  /** Of the customer; none for a stream about nobody. */
  readonly person: PersonKeys | undefined;
  /**
   * What is stored of a command's body, from the digest that the command carries: an HMAC under the customer's key
   * of the stream's own kind of data. Whoever has erased that key cannot find the body by trying, and equal bodies
   * differ from stream to stream. A stream about nobody uses its tenant's key, and so does one whose key is gone.
   */
  readonly bodyDigest: (carried: string) => string;
  /** That a key which the stream was given is gone or damaged: nothing personal can be written to it. */
  readonly missing?: UnreadableEvent;
}

const BODY = 'stored-body';

/**
 * The keys of a stream, known by its fold or, when it is being created, by its first events. Its creation makes all
 * that it will ever need, durably; one that is missing later was erased or lost, and is never made anew.
 * Then it has no `person`, and says so in `missing`.
 */
export async function streamKeys<State, Command, Event extends DomainEvent>(
  vault: Vault,
  kind: StreamKind<State, Command, Event>,
  { stream, revision, state }: Fold<State>,
  newEvents: readonly Event[] = [],
): Promise<StreamKeys> {
  const { tenant } = streamParts(stream);
  const { dataKind } = kind;
  const needed = kindsOfData(kind);
  if (dataKind === undefined) return ofTenant(vault, tenant, stream);
  const create = revision < 0n ? needed : [];
  const person = await vault.person(tenant, kind.customerOf(state, newEvents), { create });
  for (const each of needed) {
    const lack = person.lacks(each);
    if (lack === undefined) continue;
    const state = lack === 'missing-key' ? 'missing' : 'damaged';
    const missing = new UnreadableEvent(stream, revision, `the ${each} key of its customer is ${state}`);
    return { ...(await ofTenant(vault, tenant, stream)), missing };
  }
  return { person, bodyDigest: (carried) => person.hmac(dataKind, BODY, `${stream}\0${carried}`) };
}

async function ofTenant(vault: Vault, tenant: string, stream: string): Promise<StreamKeys> {
  const keys = await vault.tenant(tenant);
  return { person: undefined, bodyDigest: (carried) => keys.hmac(BODY, `${stream}\0${carried}`) };
}
