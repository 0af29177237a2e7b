import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { isErrno, syncFolder } from './folder.js';
import { DamagedLog } from './segments.js';

/** How far the log reached when this was noted: at every new segment, and whenever the store was closed. */
export interface Extent {
  readonly segments: number;
  /** Of the last event then. */
  readonly position: number;
}

const FILE = 'extent.json';

/** A log that reaches less far has lost what was acknowledged: a file is missing, or was cut. */
export function readExtent(folder: string): Extent {
  let text: string;
  try {
    text = readFileSync(join(folder, FILE), 'utf8');
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return { segments: 0, position: 0 };
    throw error;
  }
  const match = /^{"segments":(\d{1,8}),"position":(\d{1,15})}\n$/.exec(text);
  if (!match) throw new DamagedLog(FILE, 0, 'it is not what was written');
  return { segments: Number(match[1]), position: Number(match[2]) };
}

/** Durable when it returns; a crash leaves the one before. */
export function writeExtent(folder: string, { segments, position }: Extent): void {
  const draft = join(folder, `${FILE}.new`);
  const descriptor = openSync(draft, 'w');
  try {
    writeSync(descriptor, `${JSON.stringify({ segments, position })}\n`);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(draft, join(folder, FILE));
  syncFolder(folder);
}
