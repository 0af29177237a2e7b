import type { Json } from '#libs/canonical';
import type { Vault } from '#libs/vault';
import { type JsonObject, SCHEMA_VERSION, type StoredEvent } from './envelope.js';
import { UnknownStoredEvent, UnreadableEvent } from './errors.js';

/** Where events keep what is too large for them. */
export interface PayloadReader {
  open(tenant: string, payload: { digest: string; bytes: number }): Promise<Json>;
}

/**
 * What is stored of an event's data: where it names a `payload`, its `state` lies there, and is left out here.
 */
export function withoutPayload(data: JsonObject): JsonObject {
  if (data['payload'] === undefined) return data;
  const { state: _, ...stored } = data;
  return stored;
}

/**
 * A stored event with its personal fields opened.
 *
 * @throws UnknownStoredEvent for a schema version of later code; UnreadableEvent if it has no envelope (Waymark did
 * not write it) or a field does not open (its key was erased, or its bytes were changed); what the payload store throws.
 */
export async function openEvent(
  vault: Vault,
  event: StoredEvent,
  payloads?: PayloadReader,
): Promise<StoredEvent> {
  const { opened, unopenable } = await openWhatOpens(vault, event, payloads);
  if (unopenable) throw unopenable;
  return opened;
}

/**
 * As `openEvent`, with the fields that do not open left sealed where they stand; `unopenable` then says why, as the
 * error that a caller who needs them throws.
 *
 * @throws UnknownStoredEvent, UnreadableEvent for what is no event of this code.
 */
export async function openWhatOpens(
  vault: Vault,
  event: StoredEvent,
  payloads?: PayloadReader,
): Promise<{ opened: StoredEvent; unopenable?: UnreadableEvent }> {
  const { stream, revision, eventId, type, data, metadata } = event;
  if (typeof metadata.commandId !== 'string' || typeof metadata.recordedAt !== 'string')
    throw new UnreadableEvent(stream, revision, 'it has no envelope');
  if (metadata.schemaVersion !== SCHEMA_VERSION)
    throw new UnknownStoredEvent(stream, revision, `${type} of schema version ${metadata.schemaVersion}`);
  const { value, failures } = await vault.openSome(event.tenant, data, `${stream}/${eventId}`);
  const { payload } = value;
  const complete =
    payload !== undefined && payloads
      ? { ...value, state: await payloads.open(event.tenant, payload as { digest: string; bytes: number }) }
      : value;
  const opened = { ...event, data: complete };
  const [failure] = failures;
  return failure
    ? { opened, unopenable: new UnreadableEvent(stream, revision, failure.message) }
    : { opened };
}
