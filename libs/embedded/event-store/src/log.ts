import {
  closeSync,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readSync,
  readdirSync,
  writeSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { isErrno, syncFolder } from './folder.js';
import {
  FRAME_HEADER,
  FRAME_MAGIC,
  StoredEvent,
  frameLength,
  framePosition,
  frameRecords,
  isFrame,
} from './record.js';

/** Stored bytes are not what was written. Names the file and the offset; nothing of the record is served. */
export class DamagedLog extends Error {
  override readonly name = 'DamagedLog';
  constructor(
    readonly file: string,
    readonly offset: number,
    detail: string,
  ) {
    super(`${file} is damaged at offset ${offset}: ${detail}`);
  }
}

/** Nothing of the write is on disk. `lasting`: the disk failed a sync, so no write is tried before a restart. */
export class LogUnwritable extends Error {
  override readonly name = 'LogUnwritable';
  constructor(
    readonly lasting: boolean,
    options: { cause: unknown },
  ) {
    const reason = options.cause instanceof Error ? options.cause.message : String(options.cause);
    super(`the event store cannot write: ${reason}${lasting ? '; it must be restarted' : ''}`, options);
  }
}

export interface LogOptions {
  readonly folder: string;
  readonly salt: number;
  /** A segment that has reached this size is closed and the next one begun. */
  readonly segmentBytes: number;
  readonly onNotice: (notice: string) => void;
}

interface Segment {
  readonly file: string;
  readonly descriptor: number;
  /** Bytes known to be on disk; nothing beyond is ever read. */
  durable: number;
}

/** Where a byte lies: segment number × 2^32 + offset, a safe integer. */
export type Location = number;
const SEGMENT_SPAN = 2 ** 32;
export const segmentOf = (location: Location): number => Math.floor(location / SEGMENT_SPAN);

const SEGMENT_MAGIC = 'waymark-segment1';
const SEGMENT_HEADER = SEGMENT_MAGIC.length;
const SCAN_BYTES = 4 * 1024 * 1024;
/** A length field beyond this is damage, not a frame. */
const FRAME_LIMIT = 1024 * 1024 * 1024;
const FULL_DISK = ['ENOSPC', 'EDQUOT', 'EFBIG'];

const segmentFile = (folder: string, number: number): string =>
  join(folder, `segment-${String(number).padStart(8, '0')}.log`);

/**
 * Append-only segment files. One writer at a time: `write` resolves after fdatasync, and only then do its bytes
 * become readable. A write that fails is cut off again, so that the log ends at its last durable frame.
 */
export class SegmentLog {
  private readonly segments: Segment[] = [];
  private failed: LogUnwritable | undefined;
  private uncut = false;

  private constructor(private readonly options: LogOptions) {}

  /**
   * Scans every segment, checks every frame and hands each record to `onRecord` in log order. A tail that is no
   * frame is cut from the last segment and told; anything else that is wrong throws `DamagedLog`.
   */
  static open(options: LogOptions, onRecord: (event: StoredEvent, location: Location) => void): SegmentLog {
    const log = new SegmentLog(options);
    try {
      const count = readdirSync(options.folder).filter((name) => /^segment-\d{8}\.log$/.test(name)).length;
      let position = 1;
      for (let number = 0; number < count; number++) {
        const file = segmentFile(options.folder, number);
        const descriptor = openSync(file, 'r+');
        const segment: Segment = { file, descriptor, durable: fstatSync(descriptor).size };
        log.segments.push(segment);
        position = new Recovery(segment, number, number === count - 1, position, options, onRecord).run();
      }
      if (count === 0) log.roll();
      return log;
    } catch (error) {
      log.close();
      throw error;
    }
  }

  /** Writes whole frames and syncs them; answers where the first byte lies. Never called while one is under way. */
  async write(bytes: Buffer): Promise<Location> {
    if (this.failed) throw this.failed;
    let segment: Segment;
    try {
      segment = this.writable();
      if (this.uncut) this.cut(segment);
      writeAll(segment.descriptor, bytes, segment.durable);
    } catch (error) {
      throw this.unwritten(error);
    }
    try {
      await syncData(segment.descriptor);
    } catch (error) {
      throw this.unwritten(error, true);
    }
    const at = segment.durable;
    segment.durable += bytes.length;
    return (this.segments.length - 1) * SEGMENT_SPAN + at;
  }

  /** Reads bytes that `write` has made durable. */
  read(location: Location, length: number): Buffer {
    const segment = this.segmentAt(location);
    const bytes = Buffer.allocUnsafe(length);
    const read = readSync(segment.descriptor, bytes, 0, length, location % SEGMENT_SPAN);
    if (read < length)
      throw new DamagedLog(basename(segment.file), location % SEGMENT_SPAN, 'the file ends early');
    return bytes;
  }

  /** The location just after the last durable byte of the segment that holds `location`. */
  endOfSegment(location: Location): Location {
    return segmentOf(location) * SEGMENT_SPAN + this.segmentAt(location).durable;
  }

  damaged(location: Location, detail: string): DamagedLog {
    return new DamagedLog(basename(this.segmentAt(location).file), location % SEGMENT_SPAN, detail);
  }

  close(): void {
    for (const segment of this.segments.splice(0)) closeSync(segment.descriptor);
  }

  private segmentAt(location: Location): Segment {
    const segment = this.segments[segmentOf(location)];
    if (!segment) throw new RangeError(`no segment holds location ${location}`);
    return segment;
  }

  private writable(): Segment {
    const last = this.segments.at(-1);
    return last && last.durable < this.options.segmentBytes ? last : this.roll();
  }

  private roll(): Segment {
    const file = segmentFile(this.options.folder, this.segments.length);
    const descriptor = openSync(file, 'w+');
    try {
      writeAll(descriptor, Buffer.from(SEGMENT_MAGIC), 0);
      fsyncSync(descriptor);
      syncFolder(this.options.folder);
    } catch (error) {
      closeSync(descriptor);
      throw error;
    }
    const segment: Segment = { file, descriptor, durable: SEGMENT_HEADER };
    this.segments.push(segment);
    return segment;
  }

  private cut(segment: Segment): void {
    ftruncateSync(segment.descriptor, segment.durable);
    fdatasyncSync(segment.descriptor);
    this.uncut = false;
  }

  /**
   * After a failed sync the kernel may have dropped the pages it could not write, so what lies there is unknown:
   * unless the disk was only full, no further write is tried.
   */
  private unwritten(cause: unknown, inSync = false): LogUnwritable {
    const full = FULL_DISK.some((code) => isErrno(cause, code));
    const failure = new LogUnwritable(inSync && !full, { cause });
    if (failure.lasting) this.failed = failure;
    const last = this.segments.at(-1);
    this.uncut = true;
    try {
      if (last) this.cut(last);
    } catch (error) {
      this.options.onNotice(
        `a failed write is not cut off yet and will be before the next: ${String(error)}`,
      );
    }
    return failure;
  }
}

function writeAll(descriptor: number, bytes: Buffer, position: number): void {
  for (let written = 0; written < bytes.length;)
    written += writeSync(descriptor, bytes, written, bytes.length - written, position + written);
}

const syncData = (descriptor: number): Promise<void> =>
  new Promise((resolve, reject) => fdatasync(descriptor, (error) => (error ? reject(error) : resolve())));

/** Walks one segment at start. Holds one chunk of it (or one frame, if larger) in memory. */
class Recovery {
  private chunk = Buffer.alloc(0);
  private chunkAt = 0;

  constructor(
    private readonly segment: Segment,
    private readonly number: number,
    private readonly last: boolean,
    private position: number,
    private readonly options: LogOptions,
    private readonly onRecord: (event: StoredEvent, location: Location) => void,
  ) {}

  /** Answers the position that follows the segment's last record. */
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
    if (!this.last || this.nextFrame(0) !== undefined)
      throw new DamagedLog(basename(this.segment.file), 0, 'it does not begin like a segment');
    this.options.onNotice(
      `${basename(this.segment.file)} was being made at the last stop and is begun again`,
    );
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
    return frame && isFrame(frame, 0, this.options.salt) ? length : 0;
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
      this.onRecord(event, this.number * SEGMENT_SPAN + this.chunkAt + recordAt);
      recordAt += event.length;
    }
  }

  private cutTail(offset: number): void {
    const file = basename(this.segment.file);
    const good = this.nextFrame(offset + 1);
    if (good !== undefined)
      throw new DamagedLog(
        file,
        offset,
        `a frame fails its checksum, and a good one follows at offset ${good}`,
      );
    if (!this.last)
      throw new DamagedLog(file, offset, 'its last frame fails its checksum, and another segment follows');
    const bytes = this.segment.durable - offset;
    ftruncateSync(this.segment.descriptor, offset);
    fdatasyncSync(this.segment.descriptor);
    this.segment.durable = offset;
    this.options.onNotice(`${file}: an unfinished append was cut off (${bytes} bytes at offset ${offset})`);
  }

  private nextFrame(from: number): number | undefined {
    const magic = Buffer.alloc(4);
    magic.writeUInt32LE(FRAME_MAGIC, 0);
    for (let offset = from; offset + FRAME_HEADER <= this.segment.durable;) {
      const window = this.view(offset, Math.min(SCAN_BYTES, this.segment.durable - offset));
      const found = window?.indexOf(magic) ?? -1;
      if (window === undefined) return undefined;
      if (found < 0) offset += Math.max(1, window.length - magic.length + 1);
      else if (this.frameAt(offset + found) > 0) return offset + found;
      else offset += found + 1;
    }
    return undefined;
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
