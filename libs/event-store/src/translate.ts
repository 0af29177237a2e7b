import {
  CancelledError,
  DeadlineExceededError,
  MaxAppendSizeExceededError,
  NotLeaderError,
  type RecordedEvent,
  StreamDeletedError,
  TimeoutError,
  UnavailableError,
  UnknownError,
  WrongExpectedVersionError,
} from '@eventstore/db-client';
import { type Envelope, type JsonObject, type StoredEvent, streamParts } from './envelope.js';
import { StoreUnavailable, StreamNotFound } from './errors.js';

/** Someone appended since the revision that was read; nothing was written. */
export class LostRace extends Error {}

/** No answer that tells: what was sent may be written, or be written yet. */
export class UncertainAppend extends Error {}

/** The connection broke; the client makes a new one for the next call, so trying again at once is worth while. */
export class Interrupted extends StoreUnavailable {}

/** The store did not answer within its deadline and a grace. */
export class NoAnswer extends Error {}

/** What of an event is sent with an append. */
export type StoredEventBody = Pick<StoredEvent, 'eventId' | 'type' | 'data' | 'metadata'>;

const utf8 = new TextEncoder();

/** Metadata goes as the bytes that the client would make of it: made here, it does not go through base 64 and back. */
export function proposed({ eventId, type, data, metadata }: StoredEventBody) {
  const bytes = utf8.encode(JSON.stringify(metadata));
  return { id: eventId, contentType: 'application/json' as const, type, data, metadata: bytes };
}

/** The event as the client recorded it; the position is 0 from a server that tells none (older than 22.6). */
export function storedEvent(event: RecordedEvent & { position?: { commit: bigint } }): StoredEvent {
  const { streamId, revision, position, id, type, data, metadata } = event;
  return {
    stream: streamId,
    ...streamParts(streamId),
    revision,
    position: position?.commit ?? 0n,
    eventId: id,
    type,
    data: data as JsonObject,
    metadata: (metadata ?? {}) as unknown as Envelope,
  };
}

const UNAVAILABLE = [
  UnknownError,
  UnavailableError,
  CancelledError,
  NotLeaderError,
  TimeoutError,
  DeadlineExceededError,
  NoAnswer,
];

/** What an append's failure means for who appends. */
export function appendFailure(error: unknown, stream: string): Error {
  if (error instanceof WrongExpectedVersionError) return new LostRace();
  if (error instanceof StreamDeletedError) return new StreamNotFound(stream);
  if (error instanceof NotLeaderError) return new StoreUnavailable(error.message, { cause: error });
  if (error instanceof MaxAppendSizeExceededError)
    return new Error(`the event store takes less in one append than is configured: ${error.message}`, {
      cause: error,
    });
  if (UNAVAILABLE.some((each) => error instanceof each) || isRaw(error))
    return new UncertainAppend('the append was not answered', { cause: error });
  return error instanceof Error ? error : new Error(String(error));
}

/** What the failure of a read or a subscription means. */
export function readFailure(error: unknown, stream = '$all'): Error {
  if (error instanceof StreamDeletedError) return new StreamNotFound(stream);
  if (error instanceof NoAnswer)
    return new StoreUnavailable('the event store does not answer', { cause: error });
  if (UNAVAILABLE.some((each) => error instanceof each) || isRaw(error))
    return new Interrupted('the event store cannot be reached', { cause: error });
  return error instanceof Error ? error : new Error(String(error));
}

/** The client hands on the failure of its feature list as the raw gRPC error (protocol 1.2). */
function isRaw(error: unknown): boolean {
  return error instanceof Error && 'code' in error && 'details' in error;
}
