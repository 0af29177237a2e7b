import { fdatasyncSync, fsyncSync, ftruncateSync, readSync } from 'node:fs';
import { basename } from 'node:path';
import {
  FRAME_HEADER,
  FRAME_MAGIC,
  StoredEvent,
  frameLength,
  framePosition,
  frameRecords,
  frameUnsynced,
  isFrame,
} from './record.js';
import {
  DamagedLog,
  type Location,
  type LogOptions,
  SEGMENT_HEADER,
  SEGMENT_MAGIC,
  SEGMENT_SPAN,
  type Segment,
  writeAll,
} from './segments.js';

const SCAN_BYTES = 4 * 1024 * 1024;
/** A length field beyond this is damage, not a frame. */
const FRAME_LIMIT = 1024 * 1024 * 1024;

/** One segment to be walked at start. */
export interface SegmentRecovery {
  readonly segment: Segment;
  readonly number: number;
  /** Only the last segment may end in an unfinished frame. */
  readonly last: boolean;
  /** The position that its first record must have. */
  readonly position: number;
  readonly options: LogOptions;
  readonly onRecord: (event: StoredEvent, location: Location) => void;
}

/**
 * Checks a segment frame by frame, hands on each record, and answers the position that follows its last. Cuts an
 * unfinished tail; throws `DamagedLog` for anything else that is not what was written.
 */
export const recoverSegment = (recovery: SegmentRecovery): number => new Recovery(recovery).run();

/** Holds one chunk of the segment (or one frame, if larger) in memory. */
class Recovery {
  private chunk = Buffer.alloc(0);
  private chunkAt = 0;

  private position: number;
  private readonly segment: Segment;
  private readonly salt: number;

  constructor(private readonly recovery: SegmentRecovery) {
    this.position = recovery.position;
    this.segment = recovery.segment;
    this.salt = recovery.options.salt;
  }

  run(): number {
    let offset = this.headerIsGood() ? SEGMENT_HEADER : this.segment.durable;
    while (offset < this.segment.durable) {
      const length = this.frameAt(offset);
      if (length > 0) this.index(offset);
      else this.cutTail(offset);
      offset += length;
    }
    return this.position;
  }

  /** A crash while a segment is made leaves its header short; then nothing in it was ever acknowledged. */
  private headerIsGood(): boolean {
    const header = this.view(0, SEGMENT_HEADER);
    if (header?.equals(Buffer.from(SEGMENT_MAGIC))) return true;
    if (!this.recovery.last || this.nextFrame(0, () => true) !== undefined)
      throw new DamagedLog(basename(this.segment.file), 0, 'it does not begin like a segment');
    this.recovery.options.onNotice(
      `${basename(this.segment.file)} was being made at the last stop and is begun again`,
    );
    if (this.recovery.options.readOnly) return false;
    ftruncateSync(this.segment.descriptor, 0);
    writeAll(this.segment.descriptor, Buffer.from(SEGMENT_MAGIC), 0);
    fsyncSync(this.segment.descriptor);
    this.segment.durable = SEGMENT_HEADER;
    return false;
  }

  /** The length of the good frame at `offset`, or 0. */
  private frameAt(offset: number): number {
    const header = this.view(offset, FRAME_HEADER);
    if (header?.readUInt32LE(0) !== FRAME_MAGIC) return 0;
    const length = frameLength(header, 0);
    if (length > FRAME_LIMIT) return 0;
    const frame = this.view(offset, length);
    return frame && isFrame(frame, 0, this.salt) ? length : 0;
  }

  private index(offset: number): void {
    const at = offset - this.chunkAt;
    const count = frameRecords(this.chunk, at);
    const first = framePosition(this.chunk, at);
    if (first !== this.position)
      throw new DamagedLog(
        basename(this.segment.file),
        offset,
        `it holds position ${first} where position ${this.position} must follow`,
      );
    let recordAt = at + FRAME_HEADER;
    for (let i = 0; i < count; i++) {
      const event = new StoredEvent(this.chunk, recordAt, this.position++);
      this.recovery.onRecord(event, this.recovery.number * SEGMENT_SPAN + this.chunkAt + recordAt);
      recordAt += event.length;
    }
  }

  /** Good frames of the torn write itself may follow the bad one: pages reach the disk in any order. */
  private cutTail(offset: number): void {
    const file = basename(this.segment.file);
    const good = this.nextFrame(offset + 1, (unsynced) => unsynced > this.position);
    if (good !== undefined)
      throw new DamagedLog(
        file,
        offset,
        `a frame fails its checksum, and a good one follows at offset ${good}`,
      );
    if (!this.recovery.last)
      throw new DamagedLog(file, offset, 'its last frame fails its checksum, and another segment follows');
    const bytes = this.segment.durable - offset;
    if (!this.recovery.options.readOnly) {
      ftruncateSync(this.segment.descriptor, offset);
      fdatasyncSync(this.segment.descriptor);
    }
    this.segment.durable = offset;
    this.recovery.options.onNotice(
      `${file}: an append that was never acknowledged was cut off (${bytes} bytes at offset ${offset})`,
    );
  }

  private nextFrame(from: number, matches: (unsynced: number) => boolean): number | undefined {
    const magic = Buffer.alloc(4);
    magic.writeUInt32LE(FRAME_MAGIC, 0);
    for (let offset = from; offset + FRAME_HEADER <= this.segment.durable;) {
      const window = this.view(offset, Math.min(SCAN_BYTES, this.segment.durable - offset));
      const found = window?.indexOf(magic) ?? -1;
      if (window === undefined) return undefined;
      if (found < 0) offset += Math.max(1, window.length - magic.length + 1);
      else if (this.isGood(offset + found, matches)) return offset + found;
      else offset += found + 1;
    }
    return undefined;
  }

  private isGood(offset: number, matches: (unsynced: number) => boolean): boolean {
    return this.frameAt(offset) > 0 && matches(frameUnsynced(this.chunk, offset - this.chunkAt));
  }

  /** Bytes of the segment, or undefined where it ends before. Keeps `chunk` such that it holds what it answers. */
  private view(offset: number, length: number): Buffer | undefined {
    if (offset + length > this.segment.durable) return undefined;
    if (offset < this.chunkAt || offset + length > this.chunkAt + this.chunk.length) {
      const size = Math.min(Math.max(length, SCAN_BYTES), this.segment.durable - offset);
      this.chunk = Buffer.allocUnsafe(size);
      this.chunkAt = offset;
      const read = readSync(this.segment.descriptor, this.chunk, 0, size, offset);
      if (read < size)
        throw new DamagedLog(basename(this.segment.file), offset, 'the file cannot be read to its end');
    }
    return this.chunk.subarray(offset - this.chunkAt, offset - this.chunkAt + length);
  }
}
