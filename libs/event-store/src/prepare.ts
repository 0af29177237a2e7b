import { randomUUID } from 'node:crypto';
import { sha256 } from '#libs/canonical';
import type { DomainEvent } from '#libs/decider';
import { type Vault, holdsPersonal, sealFields } from '#libs/vault';
import {
  type Actor,
  type Envelope,
  type JsonObject,
  SCHEMA_VERSION,
  chainedText,
  streamParts,
} from './envelope.js';
import { AppendTooLarge } from './errors.js';
import type { Appended, Fold } from './fold.js';
import { type StreamKind, eventType } from './stream-kind.js';
import { withoutPayload } from './open-event.js';
import { streamKeys } from './stream-keys.js';

/** Who commands, when, and under which id. Times come from here and from nowhere else. */
export interface CommandContext {
  readonly actor: Actor;
  readonly commandId: string;
  /** A digest of the body, equal for a repeat. What is stored is made of it under the customer's key. */
  readonly bodyDigest: string;
  /** ISO 8601 in UTC with milliseconds. */
  readonly at: string;
  /** What the caller says the stream's revision is. */
  readonly expectedRevision?: bigint;
}

/**
 * New events as they will be stored after a fold: checked against their schemas, personal fields sealed under the
 * customer's keys (see `streamKeys`), in their envelopes, chained.
 *
 * Event ids are new each time an event is sealed, and so are its bytes. Were the ids the command's, a store would
 * answer a second sending at the same revision with the first one's success (protocol 2.3), and the bytes that stand
 * would not be those whose digest the next event names. That a command has one effect is its `commandId`'s business.
 *
 * @throws UnreadableEvent if a key is missing and something personal were written; Error for an event that its schema does not allow: a fault of the rules.
 */
export async function prepareEvents<State, Command, Event extends DomainEvent>(
  vault: Vault,
  kind: StreamKind<State, Command, Event>,
  fold: Fold<State>,
  events: readonly Event[],
  context: CommandContext,
): Promise<Appended[]> {
  const { stream } = fold;
  const parts = streamParts(stream);
  const types = events.map((event) => checkedType(kind, event));
  const { person, bodyDigest, missing } = await streamKeys(vault, kind, fold, events);
  if (missing && events.some(({ data }, at) => holdsPersonal(data as JsonObject, types[at]!.personal)))
    throw missing;
  const asStored = { ...context, bodyDigest: bodyDigest(context.bodyDigest) };
  let previousDigest = fold.digest;
  return events.map((opened, index) => {
    const eventId = randomUUID();
    const { personal } = types[index]!;
    const data = withoutPayload(opened.data as JsonObject);
    const stored = {
      stream,
      ...parts,
      revision: fold.revision + 1n + BigInt(index),
      eventId,
      type: opened.type,
      data: person ? sealFields(data, personal, person, `${stream}/${eventId}`) : data,
      metadata: envelope(parts.tenant, asStored, previousDigest),
    };
    const text = chainedText(stored);
    previousDigest = sha256(text);
    return {
      opened,
      stored,
      digest: previousDigest,
      bytes: Buffer.byteLength(text) + 2 * opened.type.length,
    };
  });
}

/**
 * Sees to it that an append is within the limit, as the store counts: data, metadata and twice the type's length of
 * all events (protocol 2.4).
 *
 * @throws AppendTooLarge
 */
export function checkSize(prepared: readonly Appended[], limit: number): void {
  const atMost = prepared.reduce((sum, { bytes }) => sum + bytes, 0);
  if (atMost <= limit) return;
  const sizes = prepared.map(({ stored: { type, data, metadata } }) => ({
    size: jsonBytes(data) + jsonBytes(metadata) + 2 * type.length,
    type,
    data,
  }));
  const size = sizes.reduce((sum, each) => sum + each.size, 0);
  if (size <= limit) return;
  const { type, data } = sizes.reduce((largest, each) => (each.size > largest.size ? each : largest));
  const fields = Object.entries(data).map(([name, value]) => ({ name, size: jsonBytes(value) }));
  const { name } = fields.reduce((most, each) => (each.size > most.size ? each : most), {
    name: '',
    size: -1,
  });
  throw new AppendTooLarge(limit, size, `${type}.${name}`);
}

function checkedType<State, Command, Event extends DomainEvent>(
  kind: StreamKind<State, Command, Event>,
  { type, data }: Event,
) {
  const found = eventType(kind.events, type);
  if (!found) throw new Error(`${kind.category} has no event ${type}`);
  const { error } = found.schema.safeParse(data);
  if (error) throw new Error(`${type} is not what its schema says`, { cause: error });
  return found;
}

function envelope(tenant: string, context: CommandContext, previousDigest: string): Envelope {
  const { actor, commandId, bodyDigest, at } = context;
  const { sub, roles, actFor, customerId } = actor;
  return {
    tenant,
    commandId,
    bodyDigest,
    actor: { sub, roles, actFor, ...(customerId !== undefined && { customerId }) },
    recordedAt: at,
    schemaVersion: SCHEMA_VERSION,
    previousDigest,
  };
}

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? '');
}
