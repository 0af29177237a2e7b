import type { StoredEvent } from './record.js';

/**
 * Protocol buffers by hand for what is sent once per event or append (`ReadResp`, the success of `BatchAppendResp`;
 * `batch-request.ts` reads the request): several times faster than the generated classes, which serve everything
 * else and are what the spec compares with. Numbers here are safe integers.
 */

const text = (value: string): Buffer => Buffer.from(value, 'latin1');
const HEX = text('0123456789abcdef');
const UUID_LENGTH = 36;
/** `UUID{string}` inside its field: field 2, 36 characters. */
const UUID_FIELD = 2 + UUID_LENGTH;
const CREATED_LENGTH = 17;

const entry = (key: string): Buffer =>
  Buffer.concat([Buffer.of(0x0a, key.length), text(key), Buffer.of(0x12)]);
const TYPE_ENTRY = entry('type');
const CREATED_ENTRY = entry('created');
const contentType = (value: string): Buffer => {
  const body = Buffer.concat([entry('content-type'), Buffer.of(value.length), text(value)]);
  return Buffer.concat([Buffer.of(0x32, body.length), body]);
};
const JSON_CONTENT = contentType('application/json');
const BINARY_CONTENT = contentType('application/octet-stream');

function varintLength(value: number): number {
  let length = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) length += 1;
  return length;
}

function putVarint(target: Buffer, at: number, value: number): number {
  let rest = value;
  while (rest >= 128) {
    target[at++] = (rest % 128) | 128;
    rest = Math.floor(rest / 128);
  }
  target[at++] = rest;
  return at;
}

/** 2^63 − 1, the revision of a tombstone. */
const TOMBSTONE_VARINT = Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);

function putUuid(target: Buffer, at: number, source: Buffer, sourceAt: number): number {
  target[at++] = 0x0a;
  target[at++] = UUID_FIELD;
  target[at++] = 0x12;
  target[at++] = UUID_LENGTH;
  for (let i = 0; i < 16; i++) {
    const byte = source[sourceAt + i]!;
    target[at++] = HEX[byte >> 4]!;
    target[at++] = HEX[byte & 15]!;
    if (i === 3 || i === 5 || i === 7 || i === 9) target[at++] = 0x2d;
  }
  return at;
}

const delimited = (length: number): number => 1 + varintLength(length) + length;

function putBytes(target: Buffer, at: number, tag: number, source: Buffer, from: number, to: number): number {
  target[at++] = tag;
  at = putVarint(target, at, to - from);
  return at + source.copy(target, at, from, to);
}

function recordedLength(event: StoredEvent): number {
  const typeLength = event.metadataAt - event.typeAt;
  const metadataLength = event.dataAt - event.metadataAt;
  return (
    2 +
    UUID_FIELD +
    delimited(delimited(event.typeAt - event.streamAt)) +
    1 +
    (event.tombstone ? TOMBSTONE_VARINT.length : varintLength(event.revision)) +
    2 * (1 + varintLength(event.position)) +
    delimited(TYPE_ENTRY.length + varintLength(typeLength) + typeLength) +
    delimited(CREATED_ENTRY.length + 1 + CREATED_LENGTH) +
    (event.json ? JSON_CONTENT : BINARY_CONTENT).length +
    (metadataLength > 0 ? delimited(metadataLength) : 0) +
    delimited(event.end - event.dataAt)
  );
}

function putRecorded(target: Buffer, at: number, event: StoredEvent): number {
  const { bytes, streamAt, typeAt, metadataAt, dataAt, end } = event;
  at = putUuid(target, at, bytes, event.idAt);
  target[at++] = 0x12;
  at = putVarint(target, at, delimited(typeAt - streamAt));
  at = putBytes(target, at, 0x1a, bytes, streamAt, typeAt);
  target[at++] = 0x18;
  at = event.tombstone ? at + TOMBSTONE_VARINT.copy(target, at) : putVarint(target, at, event.revision);
  target[at++] = 0x20;
  at = putVarint(target, at, event.position);
  target[at++] = 0x28;
  at = putVarint(target, at, event.position);
  const typeLength = metadataAt - typeAt;
  target[at++] = 0x32;
  at = putVarint(target, at, TYPE_ENTRY.length + varintLength(typeLength) + typeLength);
  at += TYPE_ENTRY.copy(target, at);
  at = putVarint(target, at, typeLength);
  at += bytes.copy(target, at, typeAt, metadataAt);
  target[at++] = 0x32;
  at = putVarint(target, at, CREATED_ENTRY.length + 1 + CREATED_LENGTH);
  at += CREATED_ENTRY.copy(target, at);
  target[at++] = CREATED_LENGTH;
  at += target.write(`${String(event.created).padStart(13, '0')}0000`, at, 'latin1');
  at += (event.json ? JSON_CONTENT : BINARY_CONTENT).copy(target, at);
  if (dataAt > metadataAt) at = putBytes(target, at, 0x3a, bytes, metadataAt, dataAt);
  return putBytes(target, at, 0x42, bytes, dataAt, end);
}

/**
 * `ReadResp.event`. Where a link was followed, `event` is its target (undefined when that is gone) and `link` the
 * link itself; otherwise `event` is what was read. With `retries` it is the `ReadResp.event` of persistent subscriptions,
 * which is the same but for that count.
 */
export function encodeReadEvent(
  event: StoredEvent | undefined,
  link?: StoredEvent,
  retries?: number,
): Buffer {
  const eventLength = event ? recordedLength(event) : 0;
  const linkLength = link ? recordedLength(link) : 0;
  const position = (link ?? event)?.position ?? 0;
  const inner =
    (event ? delimited(eventLength) : 0) +
    (link ? delimited(linkLength) : 0) +
    1 +
    varintLength(position) +
    (retries === undefined ? 0 : 1 + varintLength(retries));
  const target = Buffer.allocUnsafe(delimited(inner));
  target[0] = 0x0a;
  let at = putVarint(target, 1, inner);
  if (event) {
    target[at++] = 0x0a;
    at = putRecorded(target, putVarint(target, at, eventLength), event);
  }
  if (link) {
    target[at++] = 0x12;
    at = putRecorded(target, putVarint(target, at, linkLength), link);
  }
  target[at++] = 0x18;
  at = putVarint(target, at, position);
  if (retries !== undefined) {
    target[at++] = 0x28;
    at = putVarint(target, at, retries);
  }
  if (at !== target.length) throw new Error(`an event took ${at} bytes where ${target.length} were measured`);
  return target;
}

/** `ReadResp.checkpoint`. */
export function encodeCheckpoint(position: number): Buffer {
  const inner = 2 * (1 + varintLength(position));
  const target = Buffer.allocUnsafe(2 + inner);
  target.set([0x1a, inner, 0x08]);
  const at = putVarint(target, 3, position);
  target[at] = 0x10;
  putVarint(target, at + 1, position);
  return target;
}

/** `ReadResp.caught_up`. */
export const CAUGHT_UP = Buffer.of(0x42, 0);

/** The success of one append, `BatchAppendResp`; `correlation` is the 16 bytes of the id it answers. */
export function encodeBatchSuccess(
  correlation: Buffer,
  stream: Buffer,
  revision: number,
  position: number,
): Buffer {
  const positionLength = 2 * (1 + varintLength(position));
  const success = 1 + varintLength(revision) + 2 + positionLength;
  const target = Buffer.allocUnsafe(
    2 + UUID_FIELD + delimited(success) + delimited(delimited(stream.length)),
  );
  let at = putUuid(target, 0, correlation, 0);
  target[at++] = 0x1a;
  at = putVarint(target, at, success);
  target[at++] = 0x08;
  at = putVarint(target, at, revision);
  target[at++] = 0x1a;
  target[at++] = positionLength;
  target[at++] = 0x08;
  at = putVarint(target, at, position);
  target[at++] = 0x10;
  at = putVarint(target, at, position);
  target[at++] = 0x22;
  at = putVarint(target, at, delimited(stream.length));
  putBytes(target, at, 0x1a, stream, 0, stream.length);
  return target;
}

/** The canonical lower-case text of 16 bytes. */
export function uuidText(bytes: Buffer): string {
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
