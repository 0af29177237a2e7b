import { Callers } from './access/callers.js';
import { type UserWanted, Users, ensureUsers } from './access/users.js';
import { openFolder } from './folder.js';
import type { TlsOptions } from './rpc-server.js';
import { type Scavenged, Scavenger } from './scavenge.js';
import { StoreServer } from './server.js';
import { EventStore } from './store.js';

export interface EventStoreOptions {
  /** Made if absent; held by this process alone until closed. */
  folder: string;
  /** 127.0.0.1 by default. Beyond loopback both `tls` and users are needed. */
  host?: string;
  /** 0 takes a free one. */
  port: number;
  /** Speak TLS only. Then, and only then, there are users: without it the client does not show credentials. */
  tls?: TlsOptions | undefined;
  /** Users that there must be, made or changed before anybody is served; others stay as they are. */
  users?: readonly UserWanted[];
  /** What one append may hold: data, metadata and twice the type's length. 1 MiB by default. */
  maxAppendBytes?: number;
  /** Size at which a log file is closed and the next begun. 64 MiB by default. */
  segmentBytes?: number;
  /** Told in plain words: a tail that was cut at start, a failed write that could not be undone at once. */
  onNotice?: (notice: string) => void;
}

export interface RunningEventStore {
  readonly port: number;
  /** For `EventStoreDBClient.connectionString`. */
  readonly url: string;
  /** Frees the disk of what no reader can see any more, while the store is used: see `Scavenger.run`. */
  scavenge(): Promise<Scavenged>;
  /** Answers what is queued, ends open calls with UNAVAILABLE, closes the files and frees the folder; under 5 s. */
  close(): Promise<void>;
}

const MIB = 1024 * 1024;
const LOOPBACK = /^(127(\.\d{1,3}){3}|::1|localhost)$/;
const MAX_APPEND_LIMIT = 256 * MIB;

/** The store would listen beyond this machine without TLS, or without users. Nothing is served. */
export class Unprotected extends Error {
  override readonly name = 'Unprotected';
}

/**
 * Opens the folder and serves it. Rejects with `FolderInUse`, `ForeignFolder`, `PortTaken`, `Unprotected`,
 * `UsersUnchanged`, with `DamagedLog` when stored bytes are not what was written, and with a `RangeError` for an option
 * out of range.
 */
export async function startEventStore(options: EventStoreOptions): Promise<RunningEventStore> {
  const {
    host = '127.0.0.1',
    maxAppendBytes = MIB,
    segmentBytes = 64 * MIB,
    onNotice = () => undefined,
    tls,
  } = options;
  const exposed = !LOOPBACK.test(host);
  if (exposed && !tls) throw new Unprotected(`host ${host} is refused: beyond loopback TLS is needed`);
  inRange('maxAppendBytes', maxAppendBytes, 1, MAX_APPEND_LIMIT);
  inRange('segmentBytes', segmentBytes, 1024, 1024 * MIB);
  inRange('port', options.port, 0, 65_535);
  const folder = await openFolder(options.folder);
  let store: EventStore | undefined;
  try {
    await ensureUsers(folder.path, options.users ?? []);
    const users = new Users(folder.path, onNotice);
    if (exposed && users.isEmpty)
      throw new Unprotected(
        `host ${host} is refused: beyond loopback users are needed, and ${options.folder} holds none`,
      );
    store = new EventStore({ folder: folder.path, salt: folder.salt, segmentBytes, onNotice });
    const scavenger = new Scavenger(store, folder.salt);
    const callers = tls && new Callers(users, exposed || !users.isEmpty);
    const server = new StoreServer({ store, scavenger, maxAppendBytes, host, tls, callers, onNotice });
    const port = await server.listen(options.port);
    return {
      port,
      url: urlOf(host, port, tls !== undefined),
      scavenge: () => scavenger.run(),
      close: once(() => closeAll(server, scavenger, store, folder)),
    };
  } catch (error) {
    await closeAll(undefined, undefined, store, folder);
    throw error;
  }
}

async function closeAll(
  server: StoreServer | undefined,
  scavenger: Scavenger | undefined,
  store: EventStore | undefined,
  folder: { release(): Promise<void> },
): Promise<void> {
  try {
    await server?.stop();
    await scavenger?.stop();
    await store?.close();
  } finally {
    await folder.release();
  }
}

const urlOf = (host: string, port: number, secure: boolean): string =>
  `esdb://${host.includes(':') ? `[${host}]` : host}:${port}?tls=${secure}`;

/** Closing twice is closing once. */
function once(run: () => Promise<void>): () => Promise<void> {
  let result: Promise<void> | undefined;
  return () => (result ??= run());
}

function inRange(name: string, value: number, least: number, most: number): void {
  if (!Number.isInteger(value) || value < least || value > most)
    throw new RangeError(`${name} must be a whole number from ${least} to ${most}, not ${value}`);
}
