import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { link, mkdir, readFile, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Vault } from '#libs/vault';
import { CannotStart, isSystemError, reasonOf } from './failures.js';

/** Where the parts of a running server are found; `running.json` in the data folder while it runs. */
export interface Running {
  pid: number;
  url: string;
  eventStoreUrl: string;
  mongoUrl: string;
  policiesUrl: string;
  /** The file with the passwords of the document store's users, where it has some. */
  mongoUsersFile?: string;
}

/** The passwords of the document store's users, in the data folder. */
export const STORE_USERS = 'document-store-users.json';

const MARKER = 'waymark.json';
const RUNNING = 'running.json';
const FORMAT = 1;
const RETRY_MS = 50;

/**
 * Makes the folder where there is none, marks an empty one as Waymark's, makes its keys, and notes in the mark which
 * they are: whoever finds the keys gone, or others, must not go on with new ones, which open nothing.
 *
 * @throws CannotStart for a folder that cannot be made or written to, that holds something else, the data of another
 * format, or not its own keys: nothing is touched then.
 */
export function openDataFolder(folder: string): Promise<void> {
  return naming(folder, async () => {
    await makeFolder(folder);
    const names = await readdir(folder);
    if (!names.includes(MARKER)) {
      const other = names.find((name) => !name.startsWith(MARKER) && name !== 'lost+found');
      if (other !== undefined)
        throw new CannotStart(
          `the data folder ${folder} holds something else (${other}): name an empty one in WAYMARK_DATA`,
        );
      await writeOnce(join(folder, MARKER), JSON.stringify({ format: FORMAT }) + '\n');
    }
    await checkMark(folder);
  });
}

/**
 * Makes sure that a folder is Waymark's already.
 *
 * @throws CannotStart where there is none, or as `openDataFolder`.
 */
export function needDataFolder(folder: string): Promise<void> {
  return naming(folder, async () => {
    const there = (await isThere(folder)) && (await readdir(folder)).includes(MARKER);
    if (!there)
      throw new CannotStart(`no data folder at ${folder}: start the server first, or set WAYMARK_DATA`);
    await checkMark(folder);
  });
}

/** What the engines may write before they answer anything, in bytes. */
const ROOM = 256 * 1024;

/**
 * Makes sure that the folder takes what engines write as they open: one that maps its files dies without a word where
 * they cannot grow.
 *
 * @throws CannotStart where there is no room, or nothing may be written.
 */
export function needRoom(folder: string): Promise<void> {
  return naming(folder, async () => {
    const probe = join(folder, `room.${randomUUID()}`);
    try {
      await writeFile(probe, Buffer.alloc(ROOM, 1), { flush: true });
    } finally {
      await rm(probe, { force: true });
    }
  });
}

/** What the operating system refuses becomes a line that names the folder and its setting. */
export async function naming<Result>(folder: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!isSystemError(error)) throw error;
    throw new CannotStart(
      `the data folder ${folder} cannot be used: ${reasonOf(error)}; mend that, or name another in WAYMARK_DATA`,
      { cause: error },
    );
  }
}

/**
 * Makes a folder and those above it, one by one: where a file system answers ENOENT for a folder whose parent is
 * there, as /proc does, Node's recursive mkdir never returns.
 */
async function makeFolder(folder: string): Promise<void> {
  if (await isThere(folder)) return;
  if (dirname(folder) !== folder) await makeFolder(dirname(folder));
  await mkdir(folder).catch((error: NodeJS.ErrnoException) => {
    // Another process made it, or it is a link that leads nowhere, which reading it will tell.
    if (error.code !== 'EEXIST') throw error;
  });
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

/** Whether the mark and the keys fit; keys are made where the mark knows none yet. */
async function checkMark(folder: string): Promise<void> {
  const marker = join(folder, MARKER);
  const { format, keys } = markOf(await readFile(marker, 'utf8'));
  if (format !== FORMAT)
    throw new CannotStart(
      `the data folder ${folder} has format ${JSON.stringify(format)}; this version of Waymark reads ${FORMAT}`,
    );
  const vault = await Vault.open({ folder: join(folder, 'keys'), id: keys }).catch((error: Error) => {
    throw new CannotStart(`the keys of the data folder ${folder} cannot be used: ${error.message}`);
  });
  if (keys === undefined) await replace(marker, JSON.stringify({ format, keys: vault.id }) + '\n');
}

/** The data folder's mark; what cannot be read stands as its format. */
function markOf(text: string): { format?: unknown; keys?: string } {
  try {
    return JSON.parse(text) as { format?: unknown; keys?: string };
  } catch (error) {
    if (error instanceof SyntaxError) return { format: text.slice(0, 40) };
    throw error;
  }
}

/** What one process at a time may have: to be the server on the folder, or to serve one store's files. */
export type Part = 'server' | 'event-store' | 'document-store' | 'policy-register';

/**
 * The sole right to a part of the data folder, until `release` or the end of this process, however it ends.
 *
 * Each claim is a file of its own, `locks/<part>.<n>`, that names its process; the highest number counts. A claim
 * whose process is gone is succeeded by linking the next number, which only one process can do; whoever then finds
 * a higher number than its own had read an old listing, and steps back. Numbers are therefore never reused: a
 * release leaves its file behind, emptied. A process is known by its id and the moment it began, since ids recur.
 *
 * @param patienceMs how long to wait for a claim that stands: its owner may be about to end.
 * @throws CannotStart naming the process that holds it.
 */
export function claim(folder: string, part: Part, patienceMs = 0): Promise<Claim> {
  return naming(folder, () => claimed(folder, part, patienceMs));
}

interface Claim {
  readonly release: () => Promise<void>;
}

async function claimed(folder: string, part: Part, patienceMs: number): Promise<Claim> {
  const locks = join(folder, 'locks');
  await makeFolder(locks);
  const until = Date.now() + patienceMs;
  for (;;) {
    const standing = await newest(locks, part);
    const owner = standing > 0 ? await ownerOf(join(locks, `${part}.${standing}`)) : undefined;
    if (owner !== undefined && isAlive(owner)) {
      if (Date.now() >= until)
        throw new CannotStart(`the data folder ${folder} is in use by process ${owner.pid}`);
      await pause(RETRY_MS);
      continue;
    }
    const mine = join(locks, `${part}.${standing + 1}`);
    if (!(await writeOnce(mine, JSON.stringify(self())))) continue;
    if ((await newest(locks, part)) !== standing + 1) {
      await rm(mine);
      continue;
    }
    if (standing > 0) await rm(join(locks, `${part}.${standing}`), { force: true });
    return { release: () => replace(mine, '{}') };
  }
}

async function newest(locks: string, part: string): Promise<number> {
  const numbers = (await readdir(locks))
    .filter((name) => name.startsWith(`${part}.`) && /^\d+$/.test(name.slice(part.length + 1)))
    .map((name) => Number(name.slice(part.length + 1)));
  return Math.max(0, ...numbers);
}

interface Owner {
  pid: number;
  began: string;
}

/** Nothing when the claim was released, or succeeded a moment ago. */
async function ownerOf(path: string): Promise<Owner | undefined> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '{}';
    throw error;
  });
  const owner = JSON.parse(text) as Partial<Owner>;
  return owner.pid === undefined ? undefined : { pid: owner.pid, began: owner.began ?? '' };
}

function self(): Owner {
  return { pid: process.pid, began: beginningOf(process.pid) };
}

function isAlive({ pid, began }: Owner): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
  return beginningOf(pid) === began;
}

/**
 * When a process began: its start in clock ticks and the boot it belongs to, where the system tells (Linux; empty
 * elsewhere). A process that has ended and waits to be reaped has no beginning.
 */
function beginningOf(pid: number): string {
  if (process.platform !== 'linux') return '';
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
    if (fields[0] === 'Z') return 'ended';
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}/${fields[19]}`;
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return 'ended';
    throw error;
  }
}

/** Writes a whole file under a name that nothing has yet; false if something has. */
async function writeOnce(path: string, text: string): Promise<boolean> {
  const draft = `${path}.${randomUUID()}`;
  try {
    await writeFile(draft, text, { flush: true });
    await link(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

async function replace(path: string, text: string): Promise<void> {
  const draft = `${path}.${randomUUID()}`;
  await writeFile(draft, text, { flush: true });
  await rename(draft, path);
}

/** Says where the parts of this server are, for tools on the same data folder. */
export function writeRunning(folder: string, running: Running): Promise<void> {
  return replace(join(folder, RUNNING), JSON.stringify(running) + '\n');
}

export function removeRunning(folder: string): Promise<void> {
  return rm(join(folder, RUNNING), { force: true });
}

/** Undefined when none was left there; it may be left by a server that was killed. */
export async function readRunning(folder: string): Promise<Running | undefined> {
  try {
    return JSON.parse(await readFile(join(folder, RUNNING), 'utf8')) as Running;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
