import { Engine } from './engine.js';
import { setName } from './commands/handshake.js';
import { claimFolder } from './folder.js';
import { listen, type TlsOptions } from './server.js';
import { credentialOf, type Role } from './storage/users.js';

export { FolderInUse, ForeignFolder } from './folder.js';
export { backupDocumentStore, inspectDocumentStore, type Inspected } from './inspect.js';
export { promisedPage } from './promised.js';
export { PortTaken } from './server.js';

/** Refused: beyond loopback both TLS and users are needed. */
export class Unprotected extends Error {}

export interface DocumentStoreOptions {
  /** Where the data lies; created when missing. One process at a time. */
  readonly folder: string;
  /** Beyond loopback both `tls` and users are needed. Default 127.0.0.1. */
  readonly host?: string;
  /** 0 takes a free port. */
  readonly port: number;
  /** Speak TLS only. */
  readonly tls?: TlsOptions;
  /** Users that there must be, made or changed before anybody is served; others stay as they are. */
  readonly users?: readonly UserWanted[];
  /** Told of what an operator should know: failed commits, defects in a command. */
  readonly onNotice?: (notice: string) => void;
}

/** A user as asked for; roles are `read`, `readWrite` and `dbAdmin` of a database, and `root` of `admin`. */
export interface UserWanted {
  readonly name: string;
  readonly password: string;
  /** The database the user logs in to. */
  readonly db: string;
  readonly roles: readonly Role[];
}

export interface RunningDocumentStore {
  readonly port: number;
  /** Connection string for the `mongodb` driver. */
  readonly url: string;
  /** Answers what is being worked on, aborts open transactions, closes the file; takes under 5 s. */
  close(): Promise<void>;
}

const loopback = new Set(['127.0.0.1', '::1', 'localhost']);
const drainMilliseconds = 4_000;

/**
 * Opens the folder and serves it over the MongoDB wire protocol. Whatever is acknowledged is on disk; a process
 * killed at any moment opens again with all of it and with nothing half done.
 * Throws `FolderInUse`, `ForeignFolder`, `PortTaken` or `Unprotected`, having changed nothing.
 */
export async function startDocumentStore(options: DocumentStoreOptions): Promise<RunningDocumentStore> {
  const { folder, host = '127.0.0.1', port, onNotice = () => undefined } = options;
  const exposed = !loopback.has(host);
  if (exposed && !options.tls)
    throw new Unprotected(`host '${host}' is refused: beyond loopback TLS is needed`);
  const release = claimFolder(folder);
  let engine: Engine | undefined;
  try {
    engine = await Engine.open(folder, onNotice);
    await ensureUsers(engine, options.users ?? []);
    if (exposed && engine.users.isEmpty)
      throw new Unprotected(
        `host '${host}' is refused: beyond loopback users are needed, and the folder holds none`,
      );
    engine.users.required = exposed;
    const listening = await listen(engine, host, port, onNotice, options.tls);
    const opened = engine;
    const at = host.includes(':') ? `[${host}]` : host;
    return {
      port: listening.port,
      url: `mongodb://${at}:${listening.port}/?replicaSet=${setName}&directConnection=true${options.tls ? '&tls=true' : ''}`,
      close: async () => {
        const drained = listening.close(drainMilliseconds);
        opened.sessions.abortAll();
        await drained;
        await opened.close();
        release();
      },
    };
  } catch (error) {
    await engine?.close();
    release();
    throw error;
  }
}

/** Makes the users that differ from what is wanted; all in one commit. */
async function ensureUsers(engine: Engine, wanted: readonly UserWanted[]): Promise<void> {
  const users = await Promise.all(
    wanted.map(async ({ name, password, db, roles }) => {
      const known = engine.users.get(db, name);
      const credential = await credentialOf(password, known?.credential.salt);
      const same =
        known?.credential.storedKey.equals(credential.storedKey) === true &&
        JSON.stringify(known.roles) === JSON.stringify(roles.map(({ role, db: of }) => ({ role, db: of })));
      return same ? [] : [{ name, db, roles, credential }];
    }),
  );
  const changed = users.flat();
  if (changed.length === 0) return;
  await engine.defineUsers((layer) => {
    changed.forEach((user) => engine.users.put(user, layer));
    return changed;
  });
}
