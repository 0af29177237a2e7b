import { StoreError } from './errors.js';
import { encodePlain, type Plain, type PlainDocument } from './bson/encode.js';
import { BsonType, documentValue, type Value } from './bson/values.js';
import { checkDocument, MalformedBson, refuseTypes } from './bson/validate.js';
import { maximumMessage } from './commands/handshake.js';
import type { Reply } from './engine.js';

/** Message kinds of the MongoDB wire protocol: OP_MSG, and OP_QUERY / OP_REPLY for the first hello. */
const opMessage = 2013;
const opQuery = 2004;
const opReply = 1;

const checksumPresent = 1;
const moreToCome = 2;
const requiredBits = 0xffff;

export interface Message {
  readonly requestId: number;
  readonly legacy: boolean;
  /** The client waits for no answer. */
  readonly silent: boolean;
  readonly command: Value;
  /** Types of values in the command that are not kept. */
  readonly refused: ReadonlySet<number>;
}

/** Cuts the byte stream of a connection into messages. */
export class Framer {
  private chunks: Buffer[] = [];
  private length = 0;

  get buffered(): number {
    return this.length;
  }

  push(chunk: Buffer): void {
    this.chunks.push(chunk);
    this.length += chunk.length;
  }

  /** The next whole message, or undefined until more bytes come. Throws `MalformedBson` on an impossible length. */
  next(): Buffer | undefined {
    if (this.length < 16) return undefined;
    if ((this.chunks[0] as Buffer).length < 16) this.chunks = [Buffer.concat(this.chunks)];
    const size = (this.chunks[0] as Buffer).readInt32LE(0);
    if (size < 16 || size > maximumMessage) throw new MalformedBson(`message length ${size}`);
    if (this.length < size) return undefined;
    const all = this.chunks.length === 1 ? (this.chunks[0] as Buffer) : Buffer.concat(this.chunks);
    this.chunks = all.length > size ? [all.subarray(size)] : [];
    this.length -= size;
    return all.subarray(0, size);
  }
}

export function parseMessage(bytes: Buffer): Message {
  const requestId = bytes.readInt32LE(4);
  const kind = bytes.readInt32LE(12);
  const refused = new Set<number>();
  if (kind === opQuery) {
    const end = bytes.indexOf(0, 20);
    if (end < 0 || end + 9 > bytes.length) throw new MalformedBson('OP_QUERY');
    checkDocument(bytes, end + 9, bytes.length, refused);
    return {
      requestId,
      legacy: true,
      silent: false,
      command: documentValue(bytes.subarray(end + 9)),
      refused,
    };
  }
  if (kind !== opMessage || bytes.length < 26) throw new MalformedBson(`operation ${kind}`);
  const flags = bytes.readUInt32LE(16);
  if (flags & requiredBits & ~(checksumPresent | moreToCome)) throw new MalformedBson(`flags ${flags}`);
  const end = bytes.length - (flags & checksumPresent ? 4 : 0);
  if (flags & checksumPresent && crc32c(bytes.subarray(0, end)) !== bytes.readUInt32LE(end))
    throw new MalformedBson('checksum');
  const command = documentValue(assemble(bytes, end, refused));
  return { requestId, legacy: false, silent: (flags & moreToCome) !== 0, command, refused };
}

/** The body with every document sequence as one more array field, which is what it stands for. */
function assemble(bytes: Buffer, end: number, refused: Set<number>): Buffer {
  let body: Buffer | undefined;
  const sequences: Buffer[] = [];
  let at = 20;
  while (at < end) {
    const section = bytes[at++];
    if (section === 0) {
      const stop = checkDocument(bytes, at, end, refused);
      if (body) throw new MalformedBson('two bodies');
      body = bytes.subarray(at, stop);
      at = stop;
    } else if (section === 1) {
      if (at + 4 > end) throw new MalformedBson('sequence cut short');
      const stop = at + bytes.readInt32LE(at);
      if (stop <= at || stop > end) throw new MalformedBson('sequence length');
      sequences.push(...sequenceField(bytes, at + 4, stop, refused));
      at = stop;
    } else throw new MalformedBson(`section ${section}`);
  }
  if (!body) throw new MalformedBson('no body');
  if (sequences.length === 0) return body;
  const whole = Buffer.concat([body.subarray(0, body.length - 1), ...sequences, Buffer.alloc(1)]);
  whole.writeInt32LE(whole.length, 0);
  return whole;
}

function sequenceField(bytes: Buffer, at: number, stop: number, refused: Set<number>): Buffer[] {
  const nameEnd = bytes.indexOf(0, at);
  if (nameEnd < 0 || nameEnd >= stop) throw new MalformedBson('sequence name');
  const parts: Buffer[] = [];
  let size = 5;
  for (let position = nameEnd + 1, index = 0; position < stop; index++) {
    const next = checkDocument(bytes, position, stop, refused);
    const header = Buffer.from(`\x03${index}\0`, 'latin1');
    parts.push(header, bytes.subarray(position, next));
    size += header.length + next - position;
    position = next;
  }
  const length = Buffer.allocUnsafe(4);
  length.writeInt32LE(size);
  const name = Buffer.concat([Buffer.from([BsonType.array]), bytes.subarray(at, nameEnd + 1), length]);
  return [name, ...parts, Buffer.alloc(1)];
}

let crcTable: Uint32Array | undefined;

/** CRC-32C (Castagnoli), the checksum of OP_MSG. */
function crc32c(bytes: Buffer): number {
  crcTable ??= Uint32Array.from({ length: 256 }, (_, i) => {
    let value = i;
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1;
    return value;
  });
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ (crcTable[(crc ^ byte) & 0xff] as number);
  return (crc ^ 0xffffffff) >>> 0;
}

export function encodeReply({ requestId, legacy }: Message, reply: Reply): Buffer[] {
  const body = Buffer.isBuffer(reply) ? reply : encodePlain(reply);
  const header = Buffer.alloc(legacy ? 36 : 21);
  header.writeInt32LE(header.length + body.length, 0);
  header.writeInt32LE(requestId, 8);
  header.writeInt32LE(legacy ? opReply : opMessage, 12);
  if (legacy) {
    header.writeInt32LE(8, 16);
    header.writeInt32LE(1, 32);
  }
  return [header, body];
}

/** The answer to a command that failed; `inTransaction` decides which labels the driver is told. */
export function errorReply(error: unknown): PlainDocument {
  if (!(error instanceof StoreError))
    return { ok: 0, errmsg: String((error as Error)?.message ?? error), code: 1, codeName: 'InternalError' };
  const { code, codeName, message, labels } = error;
  const details = error.details as Record<string, Plain>;
  return {
    ok: 0,
    errmsg: message,
    code,
    codeName,
    ...details,
    ...(labels.length > 0 ? { errorLabels: labels } : {}),
  };
}

export const checkTypes = ({ refused }: Message): void => refuseTypes(refused);
