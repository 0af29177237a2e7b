import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Config, StoreUsers } from '#apps/settings';
import * as documents from '#libs/embedded/document-store';
import * as events from '#libs/embedded/event-store';
import { startPolicyRegister } from '#libs/embedded/policy-register';
import { claim, naming, needRoom, openDataFolder, type Part } from './data-folder.js';
import { CannotStart } from './failures.js';
import { checkPort } from './ports.js';
import type { Service } from './service.js';

export interface EngineUrls {
  eventStoreUrl?: string;
  mongoUrl?: string;
  policiesUrl?: string;
}

export interface EnginesWanted {
  eventStore: boolean;
  documentStore: boolean;
  policyRegister: boolean;
}

const LOOPBACK = '127.0.0.1';
/** Longer than a killed server's engines take to notice that it is gone. */
const PATIENCE_MS = 3_000;

/** Opens the embedded engines on their parts of the data folder, which nobody else may then open. */
export async function startEngines(config: Config, wanted: EnginesWanted): Promise<Service<EngineUrls>> {
  await openDataFolder(config.dataFolder);
  await needRoom(config.dataFolder);
  const engines: { close(): Promise<void> }[] = [];
  const close = async () => {
    await Promise.all(engines.map((engine) => engine.close()));
  };
  try {
    const ready: EngineUrls = {};
    if (wanted.eventStore) {
      const engine = await openEventStore(config);
      engines.push(engine);
      ready.eventStoreUrl = engine.url;
    }
    if (wanted.documentStore) {
      const engine = await openDocumentStore(config);
      engines.push(engine);
      ready.mongoUrl = engine.url;
    }
    if (wanted.policyRegister) {
      const engine = await openPolicyRegister(config);
      engines.push(engine);
      ready.policiesUrl = engine.url;
    }
    return { ready, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function openEventStore({ dataFolder, ...config }: Config) {
  const { eventStoreHost: host, eventStorePort: port, appendLimit: maxAppendBytes, eventStoreTls } = config;
  const { FolderInUse, ForeignFolder, PortTaken, Unprotected, UsersUnchanged } = events;
  const mendable = [FolderInUse, ForeignFolder, PortTaken, Unprotected, UsersUnchanged];
  return claimed(dataFolder, 'event-store', mendable, async (folder) => {
    await checkPort(host, port, 'WAYMARK_EVENTSTORE_PORT', 'WAYMARK_EVENTSTORE_HOST');
    const tls = await pems(eventStoreTls);
    return events.startEventStore({ folder, host, port, tls, maxAppendBytes, onNotice });
  });
}

function openDocumentStore({ dataFolder, ...config }: Config) {
  const { mongoHost: host, mongoPort: port, mongoTls, mongoUsersFile } = config;
  const { FolderInUse, ForeignFolder, PortTaken, Unprotected } = documents;
  const mendable = [FolderInUse, ForeignFolder, PortTaken, Unprotected];
  return claimed(dataFolder, 'document-store', mendable, async (folder) => {
    await checkPort(host, port, 'WAYMARK_MONGODB_PORT', 'WAYMARK_MONGODB_HOST');
    const users = mongoUsersFile === undefined ? [] : (await StoreUsers.ensure(mongoUsersFile)).all;
    const tls = await pems(mongoTls);
    return documents.startDocumentStore({ folder, host, port, onNotice, users, ...(tls ? { tls } : {}) });
  });
}

async function pems(files: Config['mongoTls']) {
  return files && { cert: await readFile(files.cert, 'utf8'), key: await readFile(files.key, 'utf8') };
}

function openPolicyRegister({ dataFolder, policiesPort: port }: Config) {
  return claimed(dataFolder, 'policy-register', [], async (folder) => {
    await checkPort(LOOPBACK, port, 'WAYMARK_POLICIES_PORT');
    return startPolicyRegister({ folder, port });
  });
}

interface Engine {
  url: string;
  close(): Promise<void>;
}

/** Claims an engine's part and opens it; what the person who starts it can mend, or must know, is one line. */
async function claimed(
  dataFolder: string,
  part: Exclude<Part, 'server'>,
  mendable: ErrorClass[],
  begin: (folder: string) => Promise<Engine>,
): Promise<Engine> {
  const { release } = await claim(dataFolder, part, PATIENCE_MS);
  try {
    const engine = await naming(dataFolder, () => opened(part, join(dataFolder, part), begin));
    const close = async () => {
      await engine.close();
      await release();
    };
    return { url: engine.url, close };
  } catch (error) {
    await release();
    if (error instanceof Error && mendable.some((kind) => error instanceof kind))
      throw new CannotStart(error.message, { cause: error });
    throw error;
  }
}

/** @throws CannotStart where what is stored is not what was written. */
async function opened(
  part: string,
  folder: string,
  begin: (folder: string) => Promise<Engine>,
): Promise<Engine> {
  try {
    return await begin(folder);
  } catch (error) {
    const damage = damageOf(error, folder);
    if (damage === undefined) throw error;
    const line = `the ${part.replace('-', ' ')} in ${folder} cannot be opened: ${damage}; restore the data folder from a backup`;
    throw new CannotStart(line, { cause: error });
  }
}

/** What is wrong with stored bytes: the event store's finding, a file that is gone, or LMDB's, whose errors bear numbers. */
function damageOf(error: unknown, folder: string): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, path = '', message } = error as { code?: unknown; path?: string; message: string };
  if (code === 'ENOENT' && path.startsWith(join(folder, '/'))) return `${path} is missing`;
  return error instanceof events.DamagedLog || typeof code === 'number' ? message : undefined;
}

type ErrorClass = abstract new (...args: never[]) => Error;

function onNotice(notice: string): void {
  console.error(`waymark: ${notice}`);
}
