import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MongoClient, type Db, type MongoClientOptions } from 'mongodb';
import { startDocumentStore, type RunningDocumentStore } from '#libs/embedded/document-store';

/** What the specs of this folder talk to: the embedded store, or the server `WAYMARK_MONGODB_URL` names. */
export interface Target {
  readonly url: string;
  readonly client: MongoClient;
  /** A database nobody else uses, dropped at the end. */
  readonly db: Db;
  close(): Promise<void>;
}

export const realServer = process.env['WAYMARK_MONGODB_URL'];

/** Cases that reach into the embedded store itself are left out against a real server. */
export const embeddedOnly = realServer ? it.skip : it;

if (!realServer) process.stderr.write('document store conformance: unproved against a real server\n');

export const temporaryFolder = (): string => mkdtempSync(join(tmpdir(), 'waymark-documents-'));

export async function openTarget(options: MongoClientOptions = {}): Promise<Target> {
  const folder = temporaryFolder();
  const store: RunningDocumentStore | undefined = realServer
    ? undefined
    : await startDocumentStore({
        folder,
        port: 0,
        onNotice: (notice) => process.stderr.write(`${notice}\n`),
      });
  const url = realServer ?? (store as RunningDocumentStore).url;
  const client = await MongoClient.connect(url, {
    useBigInt64: true,
    serverSelectionTimeoutMS: 3000,
    ...options,
  });
  const db = client.db(`conformance-${randomUUID()}`);
  return {
    url,
    client,
    db,
    close: async () => {
      await db.dropDatabase();
      await client.close();
      await store?.close();
      rmSync(folder, { recursive: true });
    },
  };
}
