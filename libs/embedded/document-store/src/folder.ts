import {
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  linkSync,
  rmSync,
  writeFileSync,
  realpathSync,
} from 'node:fs';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';

/** The folder is open in another process, or a second time in this one. */
export class FolderInUse extends Error {}

/** The folder holds something that is not a document store of a version this one reads. */
export class ForeignFolder extends Error {}

const format = 'waymark-document-store';
const formatVersion = 3;
/** Folders of these versions are read too: what is written from now on has the newest. */
const readVersions: readonly unknown[] = [1, 2, formatVersion];
/** The file that makes a folder a document store. */
export const markerName = 'format.json';
const lockName = 'lock';
const openHere = new Set<string>();

/** Claims the folder and answers how to give it back. A lock left by a process that was killed does not count. */
export function claimFolder(folder: string): () => void {
  mkdirSync(folder, { recursive: true });
  const path = realpathSync(folder);
  if (openHere.has(path)) throw new FolderInUse(`${folder} is already open in this process`);
  checkMarker(path, folder);
  takeLock(join(path, lockName), folder);
  writeMarker(path);
  openHere.add(path);
  return () => {
    openHere.delete(path);
    rmSync(join(path, lockName), { force: true });
  };
}

/** @throws ForeignFolder unless the folder is empty or holds a store of a version this one reads. */
export function checkMarker(path: string, folder: string): void {
  const found = readdirSync(path).filter((name) => !name.startsWith(lockName));
  if (found.length === 0) return;
  let marker: { format?: unknown; version?: unknown };
  try {
    marker = JSON.parse(readFileSync(join(path, markerName), 'utf8')) as typeof marker;
  } catch {
    throw new ForeignFolder(`${folder} is not empty and has no readable ${markerName}: not a document store`);
  }
  if (marker.format !== format)
    throw new ForeignFolder(`${folder} holds '${String(marker.format)}', not '${format}'`);
  if (!readVersions.includes(marker.version))
    throw new ForeignFolder(
      `${folder} has format version ${String(marker.version)}, this store reads ${formatVersion}`,
    );
}

/** Whole or not at all, so that a crash leaves a marker that can be read. */
export function writeMarker(path: string): void {
  const fresh = join(path, `${lockName}.marker`);
  writeFileSync(fresh, `${JSON.stringify({ format, version: formatVersion })}\n`, { flush: true });
  renameSync(fresh, join(path, markerName));
}

function takeLock(lock: string, folder: string): void {
  const mine = JSON.stringify({ pid: process.pid, started: startOf(process.pid) });
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      writeFileSync(lock, mine, { flag: 'wx' });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const holder = readHolder(lock);
    if (holder !== undefined && isAlive(holder)) throw inUse(folder, holder);
    removeStale(lock, holder);
  }
  throw inUse(folder, readHolder(lock));
}

const inUse = (folder: string, holder: string | undefined): FolderInUse =>
  new FolderInUse(`${folder} is in use by process ${parse(holder)?.pid ?? 'unknown'}`);

function readHolder(lock: string): string | undefined {
  try {
    return readFileSync(lock, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Moves a stale lock away; should it have become a live one meanwhile, it is put back. */
function removeStale(lock: string, stale: string | undefined): void {
  const aside = `${lock}.${randomUUID()}`;
  try {
    renameSync(lock, aside);
    if (readHolder(aside) !== stale) linkSync(aside, lock);
  } catch (error) {
    if (!['ENOENT', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  } finally {
    rmSync(aside, { force: true });
  }
}

function parse(holder: string | undefined): { pid: number; started: string | null } | undefined {
  try {
    return JSON.parse(holder ?? '') as { pid: number; started: string | null };
  } catch {
    return undefined;
  }
}

/** Alive means: a process of that number that started when the holder did, since numbers come again. */
function isAlive(holder: string): boolean {
  const known = parse(holder);
  if (!known) return false;
  if (known.pid === process.pid) return false;
  try {
    process.kill(known.pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
  }
  const started = startOf(known.pid);
  return started === null || known.started === null || started === known.started;
}

/** When a process started, in the kernel's ticks; null where that cannot be read. One that waits to be reaped has ended. */
function startOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? 'ended' : (fields[19] ?? null);
  } catch {
    return null;
  }
}
