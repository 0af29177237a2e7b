import type { Json } from '#libs/canonical';
import type { Vault } from '#libs/vault';
import { type JsonObject, SCHEMA_VERSION, type StoredEvent } from './envelope.js';
import { PayloadMissing, UnknownStoredEvent, UnreadableEvent } from './errors.js';

/** Where events keep what is too large for them. */
export interface PayloadReader {
  /** @throws PayloadMissing where no repetition would find it. */
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
 * not write it) or a field does not open (its key was erased, or its bytes were changed) or its
 * payload is missing; what the payload store throws when it does not answer.
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
 * As `openEvent`, with the fields that do not open left sealed where they stand, and `state` left out where its
 * payload is missing; `unopenable` then says why, as the error that a caller who needs them throws.
 *
 * @throws UnknownStoredEvent, UnreadableEvent for what is no event of this code; what the payload store throws when it
 * does not answer.
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
  const { data: complete, missing } = await withPayload(event.tenant, value, payloads);
  const opened = { ...event, data: complete };
  const failure = failures[0] ?? missing;
  return failure
    ? { opened, unopenable: new UnreadableEvent(stream, revision, failure.message) }
    : { opened };
}

async function withPayload(
  tenant: string,
  data: JsonObject,
  payloads: PayloadReader | undefined,
): Promise<{ data: JsonObject; missing?: PayloadMissing }> {
  const { payload } = data;
  if (payload === undefined || !payloads) return { data };
  try {
    return {
      data: { ...data, state: await payloads.open(tenant, payload as { digest: string; bytes: number }) },
    };
  } catch (error) {
    if (error instanceof PayloadMissing) return { data, missing: error };
    throw error;
  }
}
