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
} from 'node:fs';
import { basename } from 'node:path';
import { isErrno, syncFolder } from './folder.js';
import { type StoredEvent, encodeFrame, framePosition, sealFrame } from './record.js';
import { recoverSegment } from './recovery.js';
import {
  DamagedLog,
  type Location,
  type LogOptions,
  LogUnwritable,
  SEGMENT_HEADER,
  SEGMENT_MAGIC,
  SEGMENT_SPAN,
  type Segment,
  segmentFile,
  segmentOf,
  writeAll,
} from './segments.js';

const FULL_DISK = ['ENOSPC', 'EDQUOT', 'EFBIG'];

/**
 * Append-only segment files. One writer at a time: `write` resolves after fdatasync, and only then do its bytes
 * become readable. A write that fails is cut off again, so that the log ends at its last durable frame.
 */
export class SegmentLog {
  private readonly segments: Segment[] = [];
  private failed: LogUnwritable | undefined;
  private uncut = false;
  /** Nothing was written since the last frame that said so. */
  private finished = true;

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
        position = recoverSegment({
          segment,
          number,
          last: number === count - 1,
          position,
          options,
          onRecord,
        });
      }
      if (count === 0) log.roll();
      return log;
    } catch (error) {
      log.close();
      throw error;
    }
  }

  /** Seals, writes and syncs frames; answers where the first byte lies. Never called while one is under way. */
  async write(frames: readonly Buffer[]): Promise<Location> {
    if (this.failed) throw this.failed;
    const bytes = this.seal(frames);
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
    this.finished = false;
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

  /**
   * Ends with a frame that says that all before it is durable, so that from here on a bad frame at the end of the log
   * is known for damage.
   */
  finish(nextPosition: number): void {
    const segment = this.segments.at(-1);
    if (!segment || this.failed || this.uncut || this.finished) return;
    const { bytes } = encodeFrame([], nextPosition, 0, this.options.salt);
    sealFrame(bytes, nextPosition, this.options.salt);
    writeAll(segment.descriptor, bytes, segment.durable);
    fdatasyncSync(segment.descriptor);
    segment.durable += bytes.length;
    this.finished = true;
  }

  close(): void {
    for (const segment of this.segments.splice(0)) closeSync(segment.descriptor);
  }

  private seal(frames: readonly Buffer[]): Buffer {
    const [first] = frames;
    const unsynced = first ? framePosition(first, 0) : 0;
    for (const frame of frames) sealFrame(frame, unsynced, this.options.salt);
    return first && frames.length === 1 ? first : Buffer.concat(frames);
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

const syncData = (descriptor: number): Promise<void> =>
  new Promise((resolve, reject) => fdatasync(descriptor, (error) => (error ? reject(error) : resolve())));
