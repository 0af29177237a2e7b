import { appendFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { CsvError } from 'csv-parse';
import { Config } from '#apps/settings';
import { Vault } from '#libs/vault';
import { ApiClient, causeOf, nobodyAt, serverAddress } from '../api-client.js';
import { readRunning, type Running } from '../data-folder.js';
import { CannotStart, isSystemError, reasonOf } from '../failures.js';
import { launchServer } from '../launch.js';
import { stoppedBySignal } from '../service.js';
import { tokenIssuer } from '../token.js';
import { checkBooks, compareReadModels } from './books.js';
import { type Acknowledged, type Cast, journey, type Outcome, TENANT } from './journey.js';
import { type Keyed, type LossRow, readLosses, type UnreadableRow, withIds } from './rows.js';

const AT_ONCE = 8;
/** How long a server may be away, as when it is killed and started again. */
const PATIENCE_MS = 60_000;
/** The exit status after a Ctrl-C, as shells give it. */
const INTERRUPTED = 130;

/**
 * Runs every row of a file of losses through a server and checks the books: the server at `WAYMARK_URL`, with the
 * keys in its data folder, or one of its own on a temporary folder, which goes with it. Run again on the same data
 * after being broken off, it goes over the same runs and comes to the same books.
 *
 * @param journal a file to which every acknowledged command is added, one JSON object a line.
 * @returns the exit status: 0 only when every row that can be read came to its end and the books balance.
 * @throws CannotStart for a file without a row that can be used, before anything is started.
 */
export async function losses(file: string, journal: string | undefined, main: string): Promise<number> {
  const began = performance.now();
  const path = resolve(process.env.INIT_CWD ?? '.', file);
  const read = await readTable(path);
  const stopped = process.env.WAYMARK_URL ? undefined : stoppedBySignal();
  const server = await serverToUse(main);
  const work = runAndCheck(read, server, journal, began);
  // Left behind when a signal comes first: what it then fails with says nothing.
  work.catch(() => undefined);
  try {
    const status = await Promise.race([work, ...(stopped ? [stopped] : [])]);
    if (status !== undefined) return status;
  } finally {
    await server.close();
  }
  // Its calls would go on looking for the server that is gone.
  process.exit(INTERRUPTED);
}

type Table = Awaited<ReturnType<typeof readLosses>>;

/** The rows of a file, of which one at least can be used. */
async function readTable(path: string): Promise<Table> {
  const read = await readLosses(path).catch((error: unknown) => {
    if (isSystemError(error)) throw new CannotStart(`${path} cannot be read: ${reasonOf(error)}`);
    if (error instanceof CsvError) throw new CannotStart(`${path} is no table: ${error.message}`);
    throw error;
  });
  if (read.rows.length > 0) return read;
  sayUnreadable(read.unreadable);
  throw new CannotStart(`${path} holds no row that can be used`);
}

async function runAndCheck(
  { rows: readable, unreadable }: Table,
  server: ServerToUse,
  journal: string | undefined,
  began: number,
): Promise<number> {
  const rows = withIds(readable, await keyedIn(server));
  const cast = await castFor(server);
  let last = 0n;
  const acknowledged: Acknowledged = (command) => {
    if (BigInt(command.position) > last) last = BigInt(command.position);
    if (journal !== undefined) appendFileSync(journal, JSON.stringify(command) + '\n');
  };
  const { outcomes, failures } = await runAll(rows, cast, acknowledged);
  const books = await checkBooks(outcomes, String(last), cast.adjuster, eachAtOnce);
  const running = await server.running();
  books.wrong.push(...(await compareReadModels(outcomes, cast.adjuster, server.dataFolder, running)));
  const seconds = (performance.now() - began) / 1000;
  return report({ rows, unreadable, outcomes, failures, books, seconds });
}

interface ServerToUse {
  url: string;
  dataFolder: string;
  /** Where its parts are now; they may have moved when it was started again. */
  running(): Promise<Running>;
  close(): Promise<void>;
}

async function serverToUse(main: string): Promise<ServerToUse> {
  if (process.env.WAYMARK_URL) {
    const url = await answering(serverAddress());
    const { dataFolder } = Config.from(process.env);
    const running = async () => {
      const found = await readRunning(dataFolder);
      if (found?.url !== url)
        throw new CannotStart(
          `the data folder ${dataFolder} is not that of the server at ${url}: set WAYMARK_DATA`,
        );
      return found;
    };
    await running();
    return { url, dataFolder, running, close: async () => undefined };
  }
  const dataFolder = await mkdtemp(join(tmpdir(), 'waymark-losses-'));
  const removed = () => rm(dataFolder, { recursive: true, force: true });
  const server = await launchServer(main, {
    environment: {
      LOG_LEVEL: 'warn',
      ...process.env,
      WAYMARK_DATA: dataFolder,
      WAYMARK_PORT: '0',
      WAYMARK_EVENTSTORE_PORT: '0',
      WAYMARK_MONGODB_PORT: '0',
    },
    log: 'inherit',
  }).catch(async (error: unknown) => {
    await removed();
    throw error;
  });
  const close = async () => {
    await server.stop();
    await removed();
  };
  return { url: server.ready.url, dataFolder, running: async () => server.ready, close };
}

/** @throws CannotStart if nothing answers there. */
async function answering(url: string): Promise<string> {
  try {
    await fetch(`${url}/health/live`);
    return url;
  } catch (error) {
    if (error instanceof TypeError) throw nobodyAt(url, causeOf(error));
    throw error;
  }
}

/** The tenant's own random key, made by the first run and kept with the data, so that a rerun comes to the same ids. */
async function keyedIn({ dataFolder }: ServerToUse): Promise<Keyed> {
  const vault = await Vault.open({ folder: join(dataFolder, 'keys') });
  const keys = await vault.tenant(TENANT);
  return (purpose, text) => keys.hmac(purpose, text);
}

async function castFor({ url, dataFolder }: ServerToUse): Promise<Cast> {
  const issue = await tokenIssuer(Config.from({ ...process.env, WAYMARK_DATA: dataFolder }));
  const client = async (role: 'assistant' | 'adjuster' | 'supervisor') => {
    const token = await issue({ role: [role], sub: `losses-${role}`, tenant: TENANT });
    return new ApiClient(url, token, PATIENCE_MS);
  };
  const supervisor = await client('supervisor');
  await register(supervisor);
  return { assistant: await client('assistant'), adjuster: await client('adjuster'), supervisor };
}

/** Who decides, in the register; said again, it is the same. */
async function register(supervisor: ApiClient): Promise<void> {
  const authorityLimit = { amount: '999999999999.99', currency: 'USD' };
  for (const role of ['supervisor', 'adjuster']) {
    const body = { roles: [role], active: true, ...(role === 'adjuster' && { authorityLimit }) };
    await supervisor.call('PUT', `/v1/staff/losses-${role}`, { body });
  }
}

async function runAll(rows: LossRow[], cast: Cast, acknowledged: Acknowledged) {
  const outcomes: Outcome[] = [];
  const failures: UnreadableRow[] = [];
  await eachAtOnce(rows, async (row) => {
    try {
      outcomes.push(await journey(row, cast, acknowledged));
    } catch (error) {
      failures.push({ line: row.line, reason: error instanceof Error ? error.message : String(error) });
    }
  });
  return { outcomes, failures };
}

async function eachAtOnce<Item>(items: Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const waiting = items[Symbol.iterator]();
  const worker = async () => {
    for (const item of waiting) await work(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

interface Result {
  rows: LossRow[];
  unreadable: UnreadableRow[];
  outcomes: Outcome[];
  failures: UnreadableRow[];
  books: Awaited<ReturnType<typeof checkBooks>>;
  seconds: number;
}

function report({ rows, unreadable, outcomes, failures, books, seconds }: Result): number {
  const granted = outcomes.filter((outcome) => outcome.filed !== undefined).length;
  sayUnreadable(unreadable);
  for (const { line, reason } of failures) console.log(`line ${line} failed: ${reason}`);
  console.log(`runs ${outcomes.length}`);
  console.log(`granted ${granted}`);
  console.log(`denied ${outcomes.length - granted}`);
  console.log(`claims ${books.claims}`);
  console.log(`receipts ${books.receipts}`);
  console.log(`duplicates ${rows.filter((row) => row.duplicate).length}`);
  console.log(`seconds ${seconds.toFixed(1)}`);
  for (const text of books.wrong) console.log(`wrong: ${text}`);
  const balance =
    failures.length === 0 &&
    books.wrong.length === 0 &&
    books.claims === granted &&
    books.receipts === granted;
  console.log(balance ? 'books balance' : 'books do not balance');
  return balance ? 0 : 1;
}

function sayUnreadable(rows: UnreadableRow[]): void {
  for (const { line, reason } of rows) console.log(`line ${line} left out: ${reason}`);
}
