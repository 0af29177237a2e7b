import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Long, serialize, UUID, type Document } from 'bson';
import { open } from 'lmdb';
import { documentValue } from '../bson/values.js';
import { dispatch } from '../commands/dispatch.js';
import { Engine, type Peer } from '../engine.js';
import { startDocumentStore } from '../index.js';
import { inspectDocumentStore } from '../inspect.js';
import { DamagedEntry } from './storage.js';

const lsid = { id: new UUID() };
const retried = { insert: 'c', documents: [{ _id: 1 }], lsid, txnNumber: Long.fromNumber(7) };
const users = [
  { name: 'ann', password: 'correct horse', db: 'admin', roles: [{ role: 'root', db: 'admin' }] },
];
const peer: Peer = {
  address: '127.0.0.1',
  port: 1,
  transactions: new Set(),
  user: { db: 'admin', name: 'ann' },
};
let folder: string;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-own-'));
  await (await startDocumentStore({ folder, port: 0, users })).close();
  await using(async (engine) => {
    await command(engine, { createIndexes: 'c', indexes: [{ key: { key: 1 }, name: 'i' }] });
    await command(engine, retried);
  });
});
afterEach(() => rmSync(folder, { recursive: true }));

async function using<T>(body: (engine: Engine) => Promise<T>): Promise<T> {
  const engine = await Engine.open(folder, () => undefined);
  return body(engine).finally(() => engine.close());
}

const command = (engine: Engine, document: Document) =>
  dispatch(engine, peer, documentValue(Buffer.from(serialize({ ...document, $db: 'test' }))));

/** Changes every entry of a table by its bytes, behind the store's back. */
async function change(table: string, by: (stored: Buffer) => Buffer): Promise<void> {
  const root = open<Buffer, Buffer>({
    path: folder,
    maxDbs: 1008,
    encoding: 'binary',
    keyEncoding: 'binary',
  });
  const database = root.openDB<Buffer, Buffer>(table, { encoding: 'binary', keyEncoding: 'binary' });
  for (const { key, value } of [...database.getRange()]) await database.put(key, by(Buffer.from(value)));
  await root.close();
}

const flipped = (bit: number) => (stored: Buffer) => {
  stored.writeUInt8(stored.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
  return stored;
};

const marker = (): string => readFileSync(join(folder, 'format.json'), 'utf8');

it('keeps a store with a flipped bit anywhere in its catalogue from opening, and frees nothing', async () => {
  let bits = 0;
  await change('catalogue', (stored) => ((bits = stored.length * 8), stored));
  for (let bit = 0; bit < bits; bit += 101) {
    await change('catalogue', flipped(bit));
    await expect(Engine.open(folder, () => undefined)).rejects.toThrow(DamagedEntry);
    await change('catalogue', flipped(bit));
  }
  expect(bits).toBeGreaterThan(1_000);
  const { errors } = await inspectDocumentStore(folder);
  expect(errors).toEqual([]);
});

it('names the damaged entry of the catalogue, to who opens and to who checks', async () => {
  await change('catalogue', flipped(300));
  const named = 'damaged data: table catalogue, key "test.c"';
  await expect(Engine.open(folder, () => undefined)).rejects.toThrow(named);
  expect(await inspectDocumentStore(folder)).toEqual({
    collections: 0,
    documents: 0,
    errors: [`Error: ${named}`],
  });
});

it('lets nobody in when a user is damaged', async () => {
  await change('users', flipped(300));
  const named = 'damaged data: table users, key "admin.ann"';
  await expect(startDocumentStore({ folder, port: 0 })).rejects.toThrow(named);
  expect((await inspectDocumentStore(folder)).errors).toEqual([`Error: ${named}`]);
});

it('answers no retry from a damaged answer, and does nothing twice', async () => {
  await change('retries', flipped(200));
  await using(async (engine) => {
    await expect(command(engine, retried)).rejects.toThrow(/^damaged data: table retries, key /);
    await expect(command(engine, { ...retried, lsid: { id: new UUID() } })).resolves.toBeDefined();
  });
  expect((await inspectDocumentStore(folder)).errors).toHaveLength(1);
});

it('reads what earlier formats kept without a checksum, and adds one when it is written again', async () => {
  for (const table of ['catalogue', 'users', 'retries'])
    await change(table, (stored) => stored.subarray(0, stored.length - 5));
  writeFileSync(join(folder, 'format.json'), marker().replace('3', '2'));
  const store = await startDocumentStore({ folder, port: 0, users });
  await store.close();
  expect(marker()).toContain('3');
  await using(async (engine) => {
    expect(engine.users.get('admin', 'ann')).toBeDefined();
    await command(engine, retried);
    await command(engine, { createIndexes: 'c', indexes: [{ key: { other: 1 }, name: 'j' }] });
  });
  await change('catalogue', flipped(300));
  await expect(Engine.open(folder, () => undefined)).rejects.toThrow(DamagedEntry);
});
