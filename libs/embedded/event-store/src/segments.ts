import { readdirSync, writeSync } from 'node:fs';
import { basename, join } from 'node:path';

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
  /** Looks only: what would be cut is told and left. */
  readonly readOnly?: boolean;
}

export interface Segment {
  readonly file: string;
  readonly descriptor: number;
  /** Bytes known to be on disk; nothing beyond is ever read. */
  durable: number;
}

/** Where a byte lies: segment number × 2^32 + offset, a safe integer. */
export type Location = number;
export const SEGMENT_SPAN = 2 ** 32;
export const segmentOf = (location: Location): number => Math.floor(location / SEGMENT_SPAN);

export const SEGMENT_MAGIC = 'waymark-segment1';
export const SEGMENT_HEADER = SEGMENT_MAGIC.length;

export const segmentFile = (folder: string, number: number): string =>
  join(folder, `segment-${String(number).padStart(8, '0')}.log`);

/** The segments of the log in order, of which there must be `least`. Throws `DamagedLog` where one is missing. */
export function segmentFiles(folder: string, least: number): string[] {
  const names = readdirSync(folder)
    .filter((name) => /^segment-\d{8}\.log$/.test(name))
    .sort();
  const wanted = Math.max(least, names.length);
  return Array.from({ length: wanted }, (_, number) => {
    const file = segmentFile(folder, number);
    if (names[number] !== basename(file)) throw new DamagedLog(basename(file), 0, 'the file is missing');
    return file;
  });
}

/** Writes all of `bytes` at `position`, or throws; what a failed write left is for the caller to cut off. */
export function writeAll(descriptor: number, bytes: Buffer, position: number): void {
  for (let written = 0; written < bytes.length;)
    written += writeSync(descriptor, bytes, written, bytes.length - written, position + written);
}
