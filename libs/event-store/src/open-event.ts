import { Unopenable, type Vault } from '#libs/vault';
import { SCHEMA_VERSION, type StoredEvent } from './envelope.js';
import { UnknownStoredEvent, UnreadableEvent } from './errors.js';

/**
 * A stored event with its personal fields opened.
 *
 * @throws UnknownStoredEvent for a schema version of later code; UnreadableEvent if it has no envelope (Waymark did
 * not write it) or a field does not open (its key was erased, or its bytes were changed).
 */
export async function openEvent(vault: Vault, event: StoredEvent): Promise<StoredEvent> {
  const { stream, revision, eventId, type, data, metadata } = event;
  if (typeof metadata.commandId !== 'string' || typeof metadata.recordedAt !== 'string')
    throw new UnreadableEvent(stream, revision, 'it has no envelope');
  if (metadata.schemaVersion !== SCHEMA_VERSION)
    throw new UnknownStoredEvent(stream, revision, `${type} of schema version ${metadata.schemaVersion}`);
  try {
    return { ...event, data: await vault.openAll(event.tenant, data, `${stream}/${eventId}`) };
  } catch (error) {
    if (error instanceof Unopenable) throw new UnreadableEvent(stream, revision, error.message);
    throw error;
  }
}
