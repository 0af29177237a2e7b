import { EventStoreDBClient, type EventData, jsonEvent } from '@eventstore/db-client';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type RunningEventStore, startEventStore } from '#libs/embedded/event-store';

/** The store under test: the embedded one, or the real server that `WAYMARK_EVENTSTORE_URL` names. */
export const realServer = process.env['WAYMARK_EVENTSTORE_URL'];

if (!realServer) process.stderr.write('event store conformance: unproved against a real server\n');

export interface Subject {
  readonly client: EventStoreDBClient;
  readonly url: string;
  stop(): Promise<void>;
}

export async function startSubject(): Promise<Subject> {
  if (realServer) {
    const client = EventStoreDBClient.connectionString(realServer);
    return { client, url: realServer, stop: () => client.dispose() };
  }
  const folder = temporaryFolder();
  const store = await startEventStore({ folder: folder.path, port: 0 });
  const client = EventStoreDBClient.connectionString(store.url);
  const stop = async (): Promise<void> => {
    await client.dispose();
    await store.close();
    folder.remove();
  };
  return { client, url: store.url, stop };
}

export interface TemporaryFolder {
  readonly path: string;
  remove(): void;
}

export function temporaryFolder(): TemporaryFolder {
  const path = mkdtempSync(join(tmpdir(), 'waymark-events-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** The built store in a process of its own, on the sources as they are, to be killed. */
export async function startProcess(path: string): Promise<{ child: ChildProcess; url: string }> {
  const built = spawnSync(process.execPath, [join('bin', 'build.mjs')], { encoding: 'utf8' });
  if (built.status !== 0) throw new Error(`the build failed: ${built.stderr}`);
  const script = join('test', 'conformance', 'event-store', 'store-process.mjs');
  const child = spawn(process.execPath, [script, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [url] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  return { child, url };
}

export const reopen = (path: string): Promise<RunningEventStore> =>
  startEventStore({ folder: path, port: 0 });

/** A stream name that no other test has. */
export const newStream = (prefix = 'conformance'): string => `${prefix}-${randomUUID()}`;

export const event = (n: number, type = 'happened'): EventData =>
  jsonEvent({ type, data: { n }, metadata: { n } });

export const events = (...numbers: number[]): EventData[] => numbers.map((n) => event(n));

/** Both append paths: the client leaves the batched one as soon as a call brings credentials of its own. */
export const appendPaths = [
  { path: 'batched append', options: {} },
  { path: 'classic append', options: { credentials: { username: 'admin', password: 'changeit' } } },
] as const;

/** Drains a read. */
export async function all<T>(read: AsyncIterable<T>): Promise<T[]> {
  const taken: T[] = [];
  for await (const one of read) taken.push(one);
  return taken;
}

/** Rejects with the error that `promise` rejected with, for exact assertions on it. */
export async function errorOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}
