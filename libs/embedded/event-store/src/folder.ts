import { randomBytes, randomUUID } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { type Server, connect, createServer } from 'node:net';
import { join } from 'node:path';

/** Another living process holds the folder. Nothing was touched. */
export class FolderInUse extends Error {
  override readonly name = 'FolderInUse';
}

/** The folder holds something that is not an event store of this format. Nothing was touched. */
export class ForeignFolder extends Error {
  override readonly name = 'ForeignFolder';
}

const FORMAT = 'waymark-event-store';
const VERSION = 1;
/** The file that makes a folder an event store. */
export const MARKER = 'format.json';
/** Users may be made before the store is. */
export const USERS_FILE = 'users.json';
const LOCK = 'lock';
/** Unix socket paths end at about 104 bytes; longer ones go through the folder's descriptor. */
const SOCKET_PATH_LIMIT = 100;

/** `salt` seeds the checksums, so that bytes a client chose can never pass for a frame of this store. */
export interface Marker {
  readonly salt: number;
}

/** A folder that this process alone may write, from `openFolder` until `release`. */
export interface OwnedFolder extends Marker {
  readonly path: string;
  release(): Promise<void>;
}

/**
 * Takes the folder for this process, making it if absent. The lock is a listening unix socket in the folder: the
 * kernel closes it with the process, so a lock left by `kill -9` refuses connections, is recognised and replaced.
 */
export async function openFolder(path: string): Promise<OwnedFolder> {
  mkdirSync(path, { recursive: true });
  readMarker(path);
  const release = await takeLock(path);
  try {
    const marker = readMarker(path) ?? writeMarker(path);
    return { path, salt: marker.salt, release };
  } catch (error) {
    await release();
    throw error;
  }
}

/** Makes directory entries durable: without it a new file may be missing after a power cut. */
export function syncFolder(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Undefined for an empty folder; throws `ForeignFolder` for one of something else. */
export function readMarker(path: string): Marker | undefined {
  if (!existsSync(join(path, MARKER))) {
    const own = [LOCK, MARKER, USERS_FILE];
    const others = readdirSync(path).filter((name) => !own.some((each) => name.startsWith(each)));
    if (others.length === 0) return undefined;
    throw new ForeignFolder(`${path} is not empty and holds no event store (it has no ${MARKER})`);
  }
  const marker = parseMarker(readFileSync(join(path, MARKER), 'utf8'));
  if (marker?.format !== FORMAT || !Number.isInteger(marker.version) || !Number.isInteger(marker.salt))
    throw new ForeignFolder(`${path} holds something else than an event store (see its ${MARKER})`);
  if (marker.version !== VERSION)
    throw new ForeignFolder(
      `${path} holds an event store of format ${marker.version}; this program knows format ${VERSION}`,
    );
  return { salt: marker.salt };
}

interface MarkerFile {
  format: string;
  version: number;
  salt: number;
}

function parseMarker(text: string): MarkerFile | undefined {
  try {
    return JSON.parse(text) as MarkerFile;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function writeMarker(path: string): Marker {
  const salt = randomBytes(4).readUInt32LE(0);
  const draft = join(path, `${MARKER}.new`);
  const descriptor = openSync(draft, 'w');
  try {
    writeSync(descriptor, `${JSON.stringify({ format: FORMAT, version: VERSION, salt })}\n`);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(draft, join(path, MARKER));
  syncFolder(path);
  return { salt };
}

async function takeLock(path: string): Promise<() => Promise<void>> {
  const descriptor = openSync(path, 'r');
  const socketPath = (name: string): string => {
    const direct = join(path, name);
    if (direct.length <= SOCKET_PATH_LIMIT) return direct;
    if (!existsSync('/proc/self/fd'))
      throw new Error(`${path} is too long a path for the lock of an event store`);
    return `/proc/self/fd/${descriptor}/${name}`;
  };
  try {
    const draft = `${LOCK}.${randomUUID().slice(0, 8)}`;
    const server = await listen(socketPath(draft));
    try {
      await linkLock(path, draft, socketPath);
    } catch (error) {
      await closeServer(server);
      throw error;
    } finally {
      rmSync(join(path, draft), { force: true });
    }
    return async () => {
      rmSync(join(path, LOCK), { force: true });
      await closeServer(server);
    };
  } finally {
    closeSync(descriptor);
  }
}

/** Linking is atomic, so of several that try one wins; a dead lock is first moved aside, and only if it is dead. */
async function linkLock(path: string, draft: string, socketPath: (name: string) => string): Promise<void> {
  for (;;) {
    try {
      linkSync(join(path, draft), join(path, LOCK));
      return;
    } catch (error) {
      if (!isErrno(error, 'EEXIST')) throw error;
    }
    if (await answers(socketPath(LOCK)))
      throw new FolderInUse(`${path} is in use by another running event store`);
    const aside = `${LOCK}.dead.${randomUUID().slice(0, 8)}`;
    try {
      renameSync(join(path, LOCK), join(path, aside));
    } catch (error) {
      if (isErrno(error, 'ENOENT')) continue;
      throw error;
    }
    if (await answers(socketPath(aside))) renameSync(join(path, aside), join(path, LOCK));
    else rmSync(join(path, aside), { force: true });
  }
}

function listen(path: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', reject);
    server.listen(path, () => {
      server.unref();
      resolve(server);
    });
  });
}

const closeServer = (server: Server): Promise<void> =>
  new Promise((resolve, reject) => server.close((error) => (error ? reject(error) : resolve())));

/** Whether a living process listens on the socket; a file that is no socket counts as nobody. */
function answers(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', (error) => {
      if (['ECONNREFUSED', 'ENOENT', 'ENOTSOCK'].some((code) => isErrno(error, code))) resolve(false);
      else reject(error);
    });
  });
}

/** Whether `error` is the system error `code`. */
export function isErrno(error: unknown, code: string): boolean {
  return typeof error === 'object' && error !== null && 'code' in error && error.code === code;
}
