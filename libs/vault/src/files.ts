import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { link, mkdir, open, readFile, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';

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
 */
export async function writeOnce(path: string, text: string): Promise<string> {
  const folder = dirname(path);
  await makeFolder(folder);
  const temporary = `${path}.${process.pid}.${randomBytes(6).toString('hex')}.tmp`;
  const file = await open(temporary, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  let standing = text;
  try {
    await link(temporary, path);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    standing = await readFile(path, 'utf8');
  } finally {
    await unlink(temporary);
  }
  await syncFolder(folder);
  return standing;
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
