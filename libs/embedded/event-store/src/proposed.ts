import type { ProposedEvent } from './record.js';
import { isSystemStream } from './system-streams.js';

/** The request is not one that can be carried out; nothing was written. `message` names the field. */
export class InvalidRequest extends Error {
  override readonly name = 'InvalidRequest';
  constructor(
    message: string,
    /** Metadata entries that are absent and must not be. */
    readonly missing: readonly string[] = [],
  ) {
    super(message);
  }
}

/** An event as a client sent it, on either append path. */
export interface RawEvent {
  readonly id: Buffer | undefined;
  readonly type: Buffer | undefined;
  readonly contentType: string | undefined;
  readonly metadata: Buffer;
  readonly data: Buffer;
}

/** The name of the whole log; no stream can have it. */
export const ALL_STREAM = '$all';

/** Whether nobody may write to the stream of that name or delete it, as the log itself says what it holds. */
export const refusesWrites = (stream: string): boolean => stream === ALL_STREAM || isSystemStream(stream);

/** Bytes of a stream name or an event type. */
export const NAME_LIMIT = 4096;
/** A larger event could be stored and never read: clients receive at most 17 MiB. */
const EVENT_LIMIT = 16 * 1024 * 1024;
const ID_LENGTH = 16;
const REQUIRED = ['type', 'content-type'];
const NIL = Buffer.alloc(ID_LENGTH);

/** Section 2.4. Throws `InvalidRequest`. */
export function proposed(raw: RawEvent): ProposedEvent {
  const { id, type, contentType, metadata, data } = raw;
  if (!type || contentType === undefined)
    throw new InvalidRequest(`Required metadata property is missing: ${REQUIRED.join(', ')}`, REQUIRED);
  if (type.length === 0) throw new InvalidRequest('event type must not be empty');
  if (type.length > NAME_LIMIT) throw new InvalidRequest(`event type is longer than ${NAME_LIMIT} bytes`);
  if (id?.length !== ID_LENGTH || id.equals(NIL))
    throw new InvalidRequest('event id must be a UUID other than zero');
  if (data.length + metadata.length > EVENT_LIMIT)
    throw new InvalidRequest(`event is larger than ${EVENT_LIMIT} bytes`);
  return { id, type, json: contentType === 'application/json', metadata, data };
}

/** Throws `InvalidRequest` for a name that no stream can have. */
export function streamName(bytes: Uint8Array): string {
  if (bytes.length === 0) throw new InvalidRequest('stream name must not be empty');
  if (bytes.length > NAME_LIMIT) throw new InvalidRequest(`stream name is longer than ${NAME_LIMIT} bytes`);
  const name = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8');
  if (name === '$$') throw new InvalidRequest('stream name must not be "$$"');
  return name;
}

/** What counts against the maximum append size: data, metadata and twice the type's length in characters. */
export const countedSize = (event: ProposedEvent): number =>
  event.data.length + event.metadata.length + 2 * event.type.toString('utf8').length;

/** The 16 bytes of a UUID in text, or undefined. */
export function uuidBytes(value: string): Buffer | undefined {
  const bytes = Buffer.from(value.replaceAll('-', ''), 'hex');
  return bytes.length === ID_LENGTH ? bytes : undefined;
}

/** The 16 bytes of a UUID given as two signed 64-bit halves. */
export function uuidFromHalves(most: bigint, least: bigint): Buffer {
  const bytes = Buffer.alloc(ID_LENGTH);
  bytes.writeBigInt64BE(BigInt.asIntN(64, most), 0);
  bytes.writeBigInt64BE(BigInt.asIntN(64, least), 8);
  return bytes;
}
