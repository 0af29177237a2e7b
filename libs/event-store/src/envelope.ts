import { type Json, canonicalJson, sha256 } from '#libs/canonical';

/** A JSON object. */
export type JsonObject = { [key: string]: Json };

/** Who acts: the token's subject and roles, the customer they are, and whom they act for. */
export interface Actor {
  readonly sub: string;
  readonly roles: readonly string[];
  readonly customerId?: string;
  readonly actFor: readonly string[];
}

/** What every stored event carries beside its data. Final: fields may be added, none changes. */
export interface Envelope {
  readonly tenant: string;
  readonly commandId: string;
  /**
   * A digest of the command's body, under the customer's key of the stream's kind of data: tells a repeat from
   * another command under the same id, and nothing once that key is erased. Equal bodies differ by stream.
   */
  readonly bodyDigest: string;
  readonly actor: Actor;
  /** The command's time, ISO 8601 in UTC with milliseconds. */
  readonly recordedAt: string;
  readonly schemaVersion: number;
  /** `eventDigest` of the event before it in the stream; `GENESIS` for the first. */
  readonly previousDigest: string;
}

/** An event as it is stored: personal fields sealed. An event that Waymark did not write may lack envelope fields. */
export interface StoredEvent {
  readonly stream: string;
  readonly category: string;
  readonly tenant: string;
  /** The id of the stream, after category and tenant. */
  readonly id: string;
  readonly revision: bigint;
  /** Of the log; the same in an append's answer, a read and a subscription. */
  readonly position: bigint;
  readonly eventId: string;
  readonly type: string;
  readonly data: JsonObject;
  readonly metadata: Envelope;
}

export const GENESIS = '0'.repeat(64);
export const SCHEMA_VERSION = 1;

/** `<category>-<tenant>.<id>`. @throws Error if a part could be taken for another. */
export function streamName(category: string, tenant: string, id: string): string {
  if (!/^[a-z]+$/.test(category)) throw new Error(`not a category: ${JSON.stringify(category)}`);
  if (!/^[a-z0-9]{1,32}$/.test(tenant)) throw new Error(`not a tenant: ${JSON.stringify(tenant)}`);
  if (!/^[A-Za-z0-9._@:|+-]{1,128}$/.test(id)) throw new Error(`not a stream id: ${JSON.stringify(id)}`);
  return `${category}-${tenant}.${id}`;
}

/** The parts of a stream's name; empty where it has none (a stream that Waymark did not write). */
export function streamParts(stream: string): Pick<StoredEvent, 'category' | 'tenant' | 'id'> {
  const [, category = '', tenant = '', id = ''] = /^([a-z]+)-([a-z0-9]{1,32})\.(.+)$/s.exec(stream) ?? [];
  return { category, tenant, id };
}

type Chained = Pick<StoredEvent, 'stream' | 'revision' | 'eventId' | 'type' | 'data' | 'metadata'>;

/** The text that an event's digest is over (RFC 8785): what is stored, and neither position nor server time. */
export function chainedText({ stream, revision, eventId, type, data, metadata }: Chained): string {
  return canonicalJson({ stream, revision: String(revision), id: eventId, type, data, metadata });
}

/** SHA-256, in hex, of what is stored of an event, with the digest of the event before it. */
export function eventDigest(event: Chained): string {
  return sha256(chainedText(event));
}

/** What a look along a chain found. `head` is the digest of the last event. */
export type ChainVerdict =
  | { readonly verdict: 'intact'; readonly events: number; readonly head: string }
  | { readonly verdict: 'altered'; readonly events: number; readonly firstBad: bigint };

/**
 * Follows the chain of one stream from its first event: every event has the next revision and names the digest of
 * the one before. A change of the last event, or its absence, shows only against a head known from elsewhere.
 * `firstBad` is the revision of the first event that does not follow from those before it.
 */
export async function verifyChain(
  events: Iterable<StoredEvent> | AsyncIterable<StoredEvent>,
  knownHead?: string,
): Promise<ChainVerdict> {
  let head = GENESIS;
  let count = 0;
  let stream: string | undefined;
  for await (const event of events) {
    const follows =
      event.revision === BigInt(count) &&
      event.stream === (stream ??= event.stream) &&
      event.metadata.previousDigest === head;
    if (!follows) return { verdict: 'altered', events: count, firstBad: BigInt(count) };
    head = eventDigest(event);
    count++;
  }
  if (knownHead !== undefined && knownHead !== head)
    return { verdict: 'altered', events: count, firstBad: BigInt(Math.max(count - 1, 0)) };
  return { verdict: 'intact', events: count, head };
}
