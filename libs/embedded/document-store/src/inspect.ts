import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ForeignFolder, checkMarker, markerName, writeMarker } from './folder.js';
import { Catalogue, type Collection } from './storage/catalogue.js';
import type { Table } from './storage/layers.js';
import { DamagedEntry, Storage, ownTables, type Snapshot } from './storage/storage.js';
import { validated } from './storage/validation.js';
import { run } from './work.js';

/** What `check` found. `errors` name what is damaged or does not agree; none: all is as it was written. */
export interface Inspected {
  readonly collections: number;
  readonly documents: number;
  readonly errors: readonly string[];
}

/**
 * Reads one state of a folder's store to its last entry, changing nothing; the store may run. Every checksum is
 * verified and every index compared with its documents, key by key both ways; of a collection the first damaged entry
 * is named; without a sound catalogue that is all it tells. Damage of LMDB's own pages shows as keys
 * that are missing or out of order, as an error LMDB names, or ends the process. Rejects with `ForeignFolder`.
 */
export async function inspectDocumentStore(folder: string): Promise<Inspected> {
  const storage = openUnchanged(folder);
  try {
    const { snapshot, collections, own } = stateOf(storage);
    const errors = own.flatMap((table) => damageOf(snapshot, table));
    let documents = 0;
    for (const collection of collections) {
      const found = await run(validated(snapshot, collection)).catch((error: unknown) => ({
        records: 0,
        errors: [String(error)],
      }));
      documents += found.records;
      errors.push(...found.errors.map((error) => `${collection.namespace}: ${error}`));
    }
    snapshot.release();
    return { collections: collections.length, documents, errors };
  } catch (error) {
    if (!(error instanceof DamagedEntry)) throw error;
    return { collections: 0, documents: 0, errors: [String(error)] };
  } finally {
    await storage.close();
  }
}

/** The first damaged entry of a table that is not a collection's. */
function damageOf(snapshot: Snapshot, table: Table): string[] {
  try {
    let after: Buffer | undefined;
    do after = snapshot.read(table, { ...everyKey, ...(after ? { after } : {}) }, 256).next;
    while (after);
    return [];
  } catch (error) {
    if (!(error instanceof DamagedEntry)) throw error;
    return [String(error)];
  }
}

const everyKey = { from: Buffer.alloc(0), to: Buffer.alloc(512, 0xff) };

/** A state with its catalogue: LMDB reads only tables that were opened before the state was taken. */
function stateOf(storage: Storage): { snapshot: Snapshot; collections: Collection[]; own: Table[] } {
  const names = new Set(storage.tableNames());
  const own = ownTables.filter((name) => names.has(name)).map((name) => storage.table(name));
  for (;;) {
    const catalogue = new Catalogue(storage);
    catalogue.read();
    const snapshot = storage.snapshot();
    if (catalogue.isOf(snapshot)) return { snapshot, collections: catalogue.all(), own };
    snapshot.release();
  }
}

/**
 * Copies one state of a folder's store into `target`, a new or empty folder, while it runs or not: all that was
 * acknowledged before the call, and of what is written meanwhile nothing. The copy opens as it is and holds no free
 * pages. The marker comes last, so that a copy that was interrupted is no store. Rejects with `ForeignFolder`.
 */
export async function backupDocumentStore(folder: string, target: string): Promise<void> {
  const storage = openUnchanged(folder);
  try {
    mkdirSync(target, { recursive: true });
    if (readdirSync(target).length > 0) throw new ForeignFolder(`${target} is not empty`);
    await storage.copyTo(target);
    sync(join(target, 'data.mdb'));
    writeMarker(target);
    sync(target);
  } finally {
    await storage.close();
  }
}

function openUnchanged(folder: string): Storage {
  if (!readdirSync(folder).includes(markerName)) throw new ForeignFolder(`${folder} holds no document store`);
  checkMarker(folder, folder);
  return new Storage({
    folder,
    readOnly: true,
    onNotice: () => undefined,
    onFailure: () => undefined,
  });
}

function sync(path: string): void {
  const handle = openSync(path, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
