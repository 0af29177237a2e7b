import { crc32 } from 'node:zlib';

/** The revision that the protocol gives a tombstone (2^63 − 1); stored as a flag, never as a number. */
export const TOMBSTONE_REVISION = '9223372036854775807';

/** An event as its writer proposes it; the id has 16 bytes. */
export interface ProposedEvent {
  readonly id: Buffer;
  readonly type: Buffer;
  readonly json: boolean;
  readonly metadata: Buffer;
  readonly data: Buffer;
}

/** What an append hands to the log: an event with its stream and the revision decided for it. */
export interface NewEvent extends ProposedEvent {
  readonly stream: Buffer;
  readonly revision: number;
  readonly tombstone?: boolean;
  /** Its data and metadata were removed. */
  readonly gone?: boolean;
  /** Milliseconds since the epoch, where it is not the time of the frame. */
  readonly created?: number;
}

/**
 * Frame, little endian: magic u32, crc u32, then what the crc covers: payload length u32, record count u32,
 * position of the first record u48, position from which on nothing was durable when the frame was written u48,
 * records. One append is one frame, so it is whole or absent. A frame without records only says what is durable.
 */
export const FRAME_HEADER = 28;
export const FRAME_MAGIC = 0x4d4b_57f3;
const FRAME_CHECKED_FROM = 8;

/**
 * Record, little endian: length u32, crc u32, then what the crc covers: flags u8 (1 JSON, 2 tombstone, 4 removed),
 * stream name length u16, type length u16, metadata length u32, revision u48, created (ms) u48, id 16 bytes,
 * stream name, type, metadata, data.
 */
const RECORD_HEADER = 45;
const RECORD_CHECKED_FROM = 8;
const JSON_FLAG = 1;
const TOMBSTONE_FLAG = 2;
const GONE_FLAG = 4;

const recordLength = (event: NewEvent): number =>
  RECORD_HEADER + event.stream.length + event.type.length + event.metadata.length + event.data.length;

function writeRecord(target: Buffer, at: number, event: NewEvent, created: number, salt: number): number {
  const length = recordLength(event);
  target.writeUInt32LE(length, at);
  target[at + 8] =
    (event.json ? JSON_FLAG : 0) | (event.tombstone ? TOMBSTONE_FLAG : 0) | (event.gone ? GONE_FLAG : 0);
  target.writeUInt16LE(event.stream.length, at + 9);
  target.writeUInt16LE(event.type.length, at + 11);
  target.writeUInt32LE(event.metadata.length, at + 13);
  target.writeUIntLE(event.revision, at + 17, 6);
  target.writeUIntLE(event.created ?? created, at + 23, 6);
  target.set(event.id, at + 29);
  let offset = at + RECORD_HEADER;
  for (const part of [event.stream, event.type, event.metadata, event.data]) {
    target.set(part, offset);
    offset += part.length;
  }
  target.writeUInt32LE(crc32(target.subarray(at + RECORD_CHECKED_FROM, offset), salt), at + 4);
  return offset;
}

/** One append as it will lie on disk. `offsets[i]` is where record `i` begins inside `bytes`. */
export interface Frame {
  readonly bytes: Buffer;
  readonly offsets: readonly number[];
}

/**
 * `created` is in milliseconds since the epoch; `salt` seeds every checksum (see the marker in `folder.ts`). The frame
 * becomes valid by `sealFrame`.
 */
export function encodeFrame(
  events: readonly NewEvent[],
  firstPosition: number,
  created: number,
  salt: number,
): Frame {
  let length = FRAME_HEADER;
  for (const event of events) length += recordLength(event);
  const bytes = Buffer.allocUnsafe(length);
  const offsets: number[] = [];
  let offset = FRAME_HEADER;
  for (const event of events) {
    offsets.push(offset);
    offset = writeRecord(bytes, offset, event, created, salt);
  }
  bytes.writeUInt32LE(FRAME_MAGIC, 0);
  bytes.writeUInt32LE(length - FRAME_HEADER, 8);
  bytes.writeUInt32LE(events.length, 12);
  bytes.writeUIntLE(firstPosition, 16, 6);
  return { bytes, offsets };
}

/**
 * The last step before writing. `unsynced` is the position of the first record of the same write: if an earlier frame
 * is later found bad, this tells whether it had been synced (damage) or was torn together with this one (a crash).
 */
export function sealFrame(bytes: Buffer, unsynced: number, salt: number): void {
  bytes.writeUIntLE(unsynced, 22, 6);
  bytes.writeUInt32LE(crc32(bytes.subarray(FRAME_CHECKED_FROM), salt), 4);
}

/** Whole length of the frame that claims to begin at `at`; only its checksum says whether it is one. */
export const frameLength = (bytes: Buffer, at: number): number => FRAME_HEADER + bytes.readUInt32LE(at + 8);
export const frameRecords = (bytes: Buffer, at: number): number => bytes.readUInt32LE(at + 12);
export const framePosition = (bytes: Buffer, at: number): number => bytes.readUIntLE(at + 16, 6);
export const frameUnsynced = (bytes: Buffer, at: number): number => bytes.readUIntLE(at + 22, 6);

/** Needs the whole frame in `bytes`. */
export function isFrame(bytes: Buffer, at: number, salt: number): boolean {
  const end = at + frameLength(bytes, at);
  return (
    bytes.readUInt32LE(at) === FRAME_MAGIC &&
    crc32(bytes.subarray(at + FRAME_CHECKED_FROM, end), salt) === bytes.readUInt32LE(at + 4)
  );
}

/** A stored event, read in place: no field is copied before it is asked for. */
export class StoredEvent {
  constructor(
    readonly bytes: Buffer,
    readonly at: number,
    readonly position: number,
  ) {}

  get length(): number {
    return this.bytes.readUInt32LE(this.at);
  }
  /** Meaningless on a tombstone, whose revision is `TOMBSTONE_REVISION`. */
  get revision(): number {
    return this.bytes.readUIntLE(this.at + 17, 6);
  }
  /** Milliseconds since the epoch. */
  get created(): number {
    return this.bytes.readUIntLE(this.at + 23, 6);
  }
  get json(): boolean {
    return (this.flags & JSON_FLAG) !== 0;
  }
  get tombstone(): boolean {
    return (this.flags & TOMBSTONE_FLAG) !== 0;
  }
  /** Scavenged: only its place is left, and no reader is shown it. */
  get gone(): boolean {
    return (this.flags & GONE_FLAG) !== 0;
  }
  /** Where the 16 bytes of the id begin in `bytes`. */
  get idAt(): number {
    return this.at + 29;
  }
  /** The id as a map key: 16 characters, one a byte. */
  get idKey(): string {
    return this.bytes.toString('latin1', this.idAt, this.idAt + 16);
  }
  get streamAt(): number {
    return this.at + RECORD_HEADER;
  }
  get typeAt(): number {
    return this.streamAt + this.bytes.readUInt16LE(this.at + 9);
  }
  get metadataAt(): number {
    return this.typeAt + this.bytes.readUInt16LE(this.at + 11);
  }
  get dataAt(): number {
    return this.metadataAt + this.bytes.readUInt32LE(this.at + 13);
  }
  get end(): number {
    return this.at + this.length;
  }
  get stream(): string {
    return this.bytes.toString('utf8', this.streamAt, this.typeAt);
  }
  get type(): string {
    return this.bytes.toString('utf8', this.typeAt, this.metadataAt);
  }
  get data(): Buffer {
    return this.bytes.subarray(this.dataAt, this.end);
  }

  /** Whether the bytes are what was written; `limit` is where the buffer stops being this record's neighbourhood. */
  isIntact(salt: number, limit: number): boolean {
    if (this.at + RECORD_HEADER > limit) return false;
    const end = this.end;
    if (end > limit || end < this.at + RECORD_HEADER) return false;
    return (
      crc32(this.bytes.subarray(this.at + RECORD_CHECKED_FROM, end), salt) ===
      this.bytes.readUInt32LE(this.at + 4)
    );
  }

  private get flags(): number {
    return this.bytes[this.at + 8] ?? 0;
  }
}
