import { Engine } from './engine.js';
import { setName } from './commands/handshake.js';
import { claimFolder } from './folder.js';
import { listen } from './server.js';

export { FolderInUse, ForeignFolder } from './folder.js';
export { PortTaken } from './server.js';

export interface DocumentStoreOptions {
  /** Where the data lies; created when missing. One process at a time. */
  readonly folder: string;
  /** A loopback address: there is no authentication yet. Default 127.0.0.1. */
  readonly host?: string;
  /** 0 takes a free port. */
  readonly port: number;
  /** Told of what an operator should know: failed commits, defects in a command. */
  readonly onNotice?: (notice: string) => void;
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
 * Throws `FolderInUse`, `ForeignFolder` or `PortTaken`, having changed nothing.
 */
export async function startDocumentStore(options: DocumentStoreOptions): Promise<RunningDocumentStore> {
  const { folder, host = '127.0.0.1', port, onNotice = () => undefined } = options;
  if (!loopback.has(host))
    throw new Error(`host '${host}' is refused: the document store listens on loopback only`);
  const release = claimFolder(folder);
  let engine: Engine | undefined;
  try {
    engine = await Engine.open(folder, onNotice);
    const listening = await listen(engine, host, port, onNotice);
    const opened = engine;
    const at = host.includes(':') ? `[${host}]` : host;
    return {
      port: listening.port,
      url: `mongodb://${at}:${listening.port}/?replicaSet=${setName}&directConnection=true`,
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
