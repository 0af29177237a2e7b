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
  renameSync,
  rmSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { readExtent, writeExtent } from './extent.js';
import { isErrno, syncFolder } from './folder.js';
import { type StoredEvent, encodeFrame, framePosition, frameRecords, sealFrame } from './record.js';
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
  segmentFiles,
  segmentOf,
  writeAll,
} from './segments.js';

const DRAFT = '.new';
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
  /** That follows the last durable event. */
  private nextPosition = 1;

  private constructor(private readonly options: LogOptions) {}

  /**
   * Scans every segment, checks every frame and hands each record to `onRecord` in log order. A tail that was never
   * acknowledged is cut from the last segment and told; anything else that is wrong, a missing file too, throws
   * `DamagedLog`.
   */
  static open(options: LogOptions, onRecord: (event: StoredEvent, location: Location) => void): SegmentLog {
    const log = new SegmentLog(options);
    try {
      for (const name of readdirSync(options.folder))
        if (name.endsWith(DRAFT) && !options.readOnly) rmSync(join(options.folder, name));
      const extent = readExtent(options.folder);
      const files = segmentFiles(options.folder, extent.segments);
      files.forEach((file, number) => {
        const descriptor = openSync(file, options.readOnly ? 'r' : 'r+');
        const segment: Segment = { file, descriptor, durable: fstatSync(descriptor).size };
        log.segments.push(segment);
        log.nextPosition = recoverSegment({
          segment,
          number,
          last: number === files.length - 1,
          position: log.nextPosition,
          options,
          onRecord,
        });
      });
      if (files.length === 0 && !options.readOnly) log.roll();
      log.checkReach(extent.position);
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
      this.cutPending();
      segment = this.writable();
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
    const last = frames[frames.length - 1]!;
    this.nextPosition = framePosition(last, 0) + frameRecords(last, 0);
    this.mark(segment);
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

  /** The number of the segment that is being written to. */
  get lastSegment(): number {
    return this.segments.length - 1;
  }

  sizeOf(number: number): number {
    return this.segments[number]!.durable;
  }

  /** Where a segment is written anew; left over from a crash, it is removed at the next start. */
  draftOf(number: number): string {
    return `${this.segments[number]!.file}${DRAFT}`;
  }

  /**
   * Begins a new segment unless the last one is empty. Called when no write is under way. Throws `LogUnwritable` after
   * a lasting failure, and what the disk refuses.
   */
  rollOver(): void {
    if (this.failed) throw this.failed;
    this.cutPending();
    if (this.segments.at(-1)!.durable > SEGMENT_HEADER) this.roll();
  }

  /** Puts a synced draft in the place of an earlier segment; `syncNames` makes that durable. */
  replace(number: number, draft: string, size: number): void {
    const segment = this.segments[number]!;
    const descriptor = openSync(draft, 'r+');
    try {
      renameSync(draft, segment.file);
    } catch (error) {
      closeSync(descriptor);
      throw error;
    }
    this.segments[number] = { file: segment.file, descriptor, durable: size };
    closeSync(segment.descriptor);
  }

  /** Until then a power cut may bring back what was replaced, whole. */
  syncNames(): void {
    syncFolder(this.options.folder);
  }

  damaged(location: Location, detail: string): DamagedLog {
    return new DamagedLog(basename(this.segmentAt(location).file), location % SEGMENT_SPAN, detail);
  }

  /** Notes durably how far the log reaches, so that whatever is missing from it later is known for damage. */
  finish(): void {
    const segment = this.segments.at(-1);
    if (!segment || this.failed || this.uncut || this.finished) return;
    const bytes = this.saysDurable();
    writeAll(segment.descriptor, bytes, segment.durable);
    fdatasyncSync(segment.descriptor);
    segment.durable += bytes.length;
    this.noteExtent();
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

  /** A frame without records: all before it is on disk. */
  private saysDurable(): Buffer {
    const { bytes } = encodeFrame([], this.nextPosition, 0, this.options.salt);
    sealFrame(bytes, this.nextPosition, this.options.salt);
    return bytes;
  }

  /**
   * Written after a sync and before its answers, not synced itself, and overwritten by the next write: it outlives the
   * process, so that a bad last frame is known for damage if it had been acknowledged, and for torn if it had not.
   */
  private mark(segment: Segment): void {
    try {
      writeAll(segment.descriptor, this.saysDurable(), segment.durable);
    } catch (error) {
      this.options.onNotice(`the end of the log could not be marked: ${String(error)}`);
    }
  }

  private noteExtent(): void {
    writeExtent(this.options.folder, { segments: this.segments.length, position: this.nextPosition - 1 });
  }

  private checkReach(position: number): void {
    if (this.nextPosition > position) return;
    const { file, durable } = this.segments.at(-1)!;
    throw new DamagedLog(
      basename(file),
      durable,
      `the log ends with the event at position ${this.nextPosition - 1}, and had ${position} before`,
    );
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
    try {
      this.noteExtent();
    } catch (error) {
      this.segments.pop();
      closeSync(descriptor);
      throw error;
    }
    return segment;
  }

  /** Before a segment is followed by another: a torn tail is looked for in the last one only. */
  private cutPending(): void {
    const last = this.segments.at(-1);
    if (this.uncut && last) this.cut(last);
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
