import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { link, mkdir, open, readFile, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** The text of a small file, read at once; `undefined` if there is none. */
export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Makes a file (0600) that is written once and never changed, and gives the text that stands: this one, or that
 * of whoever was first. Whole or absent at every moment: temporary file, fsync, link to its name, fsync of the
 * folder. When this returns, the text survives a crash, also if another process wrote it.
 *
 * @param temporary the folder of temporary files, on the same file system: see `sweepTemporaries`.
 */
export async function writeOnce(path: string, text: string, temporary: string): Promise<string> {
  const folder = dirname(path);
  await makeFolder(folder);
  await makeFolder(temporary);
  while (!(await linkOnce(path, text, temporary))) continue;
  await syncFolder(folder);
  return readFile(path, 'utf8');
}

/** False if the temporary file was swept away before it had its name: to a process in another container this one looks ended. */
async function linkOnce(path: string, text: string, temporary: string): Promise<boolean> {
  const made = join(temporary, `${process.pid}.${randomBytes(6).toString('hex')}`);
  const file = await open(made, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  try {
    await link(made, path);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    if (codeOf(error) !== 'EEXIST') throw error;
  } finally {
    await rm(made, { force: true });
  }
  return true;
}

const STALE_MS = 60_000;

/** Removes the temporary files of processes that were killed: those of no living process, or a minute old. */
export async function sweepTemporaries(temporary: string): Promise<void> {
  const names = await readdir(temporary).catch(absent);
  for (const name of names ?? []) {
    const path = join(temporary, name);
    const since = (await stat(path).catch(absent))?.mtimeMs ?? Infinity;
    if (!isAlive(Number(name.split('.')[0])) || Date.now() - since > STALE_MS)
      await rm(path, { force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
}

function absent(error: unknown): undefined {
  if (codeOf(error) !== 'ENOENT') throw error;
}

/** Makes a folder (0700) with those above it; what was made survives a crash. */
export async function makeFolder(folder: string): Promise<void> {
  const topmost = await mkdir(folder, { recursive: true, mode: 0o700 });
  if (topmost === undefined) return;
  for (let made = folder; made.length >= topmost.length; made = dirname(made))
    await syncFolder(dirname(made));
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function codeOf(error: unknown): unknown {
  return (error as NodeJS.ErrnoException).code;
}
