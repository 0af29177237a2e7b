import { InvalidRequest, type RawEvent, uuidBytes, uuidFromHalves } from './proposed.js';
import type { Expected } from './streams.js';

/** The options that the first chunk of an append carries. `deadline` in milliseconds since the epoch. */
export interface BatchOptions {
  readonly stream: Buffer;
  readonly expected: Expected;
  readonly deadline: number | undefined;
}

/** One chunk of one append: `BatchAppendReq`. Buffers are parts of the received message, not copies. */
export interface BatchChunk {
  readonly correlation: Buffer;
  readonly options: BatchOptions | undefined;
  readonly events: readonly RawEvent[];
  readonly final: boolean;
}

const EMPTY: Buffer = Buffer.alloc(0);

/** Reads one protocol-buffers message field by field. */
class Fields {
  private at: number;

  constructor(
    private readonly bytes: Buffer,
    from: number,
    private readonly end: number,
  ) {
    this.at = from;
  }

  /** The tag of the next field, 0 at the end. */
  next(): number {
    return this.at < this.end ? this.varint() : 0;
  }

  varint(): number {
    let byte = this.byte();
    let value = byte & 0x7f;
    for (let scale = 128; byte >= 0x80; scale *= 128) {
      byte = this.byte();
      value += (byte & 0x7f) * scale;
    }
    return value;
  }

  /** For values that may be above 2^53. */
  wideVarint(): bigint {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.byte();
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }

  message(): Fields {
    const [from, to] = this.span();
    return new Fields(this.bytes, from, to);
  }

  data(): Buffer {
    const [from, to] = this.span();
    return this.bytes.subarray(from, to);
  }

  latin1(): string {
    const [from, to] = this.span();
    return this.bytes.toString('latin1', from, to);
  }

  skip(tag: number): void {
    const type = tag & 7;
    if (type === 0) this.wideVarint();
    else if (type === 1) this.at += 8;
    else if (type === 2) this.span();
    else if (type === 5) this.at += 4;
    else throw new InvalidRequest(`the message has a field of unknown wire type ${type}`);
  }

  private byte(): number {
    if (this.at >= this.end) throw new InvalidRequest('the message ends inside a field');
    return this.bytes[this.at++]!;
  }

  private span(): [number, number] {
    const length = this.varint();
    const from = this.at;
    if (from + length > this.end) throw new InvalidRequest('the message ends inside a field');
    this.at = from + length;
    return [from, this.at];
  }
}

/** Throws `InvalidRequest` on bytes that are no such message. */
export function decodeBatchRequest(bytes: Buffer): BatchChunk {
  const fields = new Fields(bytes, 0, bytes.length);
  let correlation: Buffer | undefined;
  let options: BatchOptions | undefined;
  let final = false;
  const events: RawEvent[] = [];
  for (let tag = fields.next(); tag !== 0; tag = fields.next()) {
    if (tag === 0x0a) correlation = decodeUuid(fields.message());
    else if (tag === 0x12) options = decodeOptions(fields.message());
    else if (tag === 0x1a) events.push(decodeEvent(fields.message()));
    else if (tag === 0x20) final = fields.varint() !== 0;
    else fields.skip(tag);
  }
  if (!correlation) throw new InvalidRequest('correlation_id must be a UUID');
  return { correlation, options, events, final };
}

function decodeUuid(fields: Fields): Buffer | undefined {
  let id: Buffer | undefined;
  for (let tag = fields.next(); tag !== 0; tag = fields.next()) {
    if (tag === 0x12) id = uuidBytes(fields.latin1());
    else if (tag === 0x0a) id = decodeHalves(fields.message());
    else fields.skip(tag);
  }
  return id;
}

function decodeHalves(fields: Fields): Buffer {
  let most = 0n;
  let least = 0n;
  for (let tag = fields.next(); tag !== 0; tag = fields.next()) {
    if (tag === 0x08) most = fields.wideVarint();
    else if (tag === 0x10) least = fields.wideVarint();
    else fields.skip(tag);
  }
  return uuidFromHalves(most, least);
}

function decodeOptions(fields: Fields): BatchOptions {
  let stream = EMPTY;
  let expected: Expected = 0n;
  let deadline: number | undefined;
  for (let tag = fields.next(); tag !== 0; tag = fields.next()) {
    if (tag === 0x0a) stream = decodeStream(fields.message());
    else if (tag === 0x10) expected = fields.wideVarint();
    else if (tag === 0x32) deadline = decodeTimestamp(fields.message());
    else {
      if (tag === 0x1a) expected = 'no_stream';
      else if (tag === 0x22) expected = 'any';
      else if (tag === 0x2a) expected = 'stream_exists';
      fields.skip(tag);
    }
  }
  return { stream, expected, deadline };
}

function decodeStream(fields: Fields): Buffer {
  let name = EMPTY;
  for (let tag = fields.next(); tag !== 0; tag = fields.next()) {
    if (tag === 0x1a) name = fields.data();
    else fields.skip(tag);
  }
  return name;
}

function decodeTimestamp(fields: Fields): number {
  let seconds = 0;
  let nanos = 0;
  for (let tag = fields.next(); tag !== 0; tag = fields.next()) {
    if (tag === 0x08) seconds = fields.varint();
    else if (tag === 0x10) nanos = fields.varint();
    else fields.skip(tag);
  }
  return seconds * 1000 + nanos / 1e6;
}

function decodeEvent(fields: Fields): RawEvent {
  let id: Buffer | undefined;
  let type: Buffer | undefined;
  let contentType: string | undefined;
  let metadata = EMPTY;
  let data = EMPTY;
  for (let tag = fields.next(); tag !== 0; tag = fields.next()) {
    if (tag === 0x0a) id = decodeUuid(fields.message());
    else if (tag === 0x12) {
      const { key, value } = decodeEntry(fields.message());
      if (key === 'type') type = value;
      else if (key === 'content-type') contentType = value.toString('latin1');
    } else if (tag === 0x1a) metadata = fields.data();
    else if (tag === 0x22) data = fields.data();
    else fields.skip(tag);
  }
  return { id, type, contentType, metadata, data };
}

function decodeEntry(fields: Fields): { key: string; value: Buffer } {
  let key = '';
  let value = EMPTY;
  for (let tag = fields.next(); tag !== 0; tag = fields.next()) {
    if (tag === 0x0a) key = fields.latin1();
    else if (tag === 0x12) value = fields.data();
    else fields.skip(tag);
  }
  return { key, value };
}
