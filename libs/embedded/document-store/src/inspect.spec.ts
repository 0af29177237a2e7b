import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MongoClient, type Collection } from 'mongodb';
import { ForeignFolder } from './folder.js';
import { startDocumentStore, type RunningDocumentStore } from './index.js';
import { backupDocumentStore, inspectDocumentStore } from './inspect.js';

interface Numbered {
  _id: number;
  text: string;
}

let root: string;
let folder: string;
let store: RunningDocumentStore;
let client: MongoClient;
let collection: Collection<Numbered>;
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'waymark-inspect-'));
  folder = join(root, 'documents');
  store = await startDocumentStore({ folder, port: 0 });
  client = await MongoClient.connect(store.url);
  collection = client.db('test').collection<Numbered>('c');
  await collection.createIndex({ text: 1 });
});
afterEach(async () => {
  await client.close();
  await store.close();
  rmSync(root, { recursive: true });
});

const numbered = (_id: number): Numbered => ({ _id, text: `number ${_id}` });
const add = (from: number, count = 1) =>
  collection.insertMany(Array.from({ length: count }, (_, i) => numbered(from + i)));

it('backs up one state of a store that is written to: the copy opens, with all acknowledged before', async () => {
  await add(0, 2_000);
  const copy = join(root, 'copy');
  let done = false;
  const backup = backupDocumentStore(folder, copy).finally(() => (done = true));
  let written = 2_000;
  while (!done) await add(written++);
  await backup;
  expect(written).toBeGreaterThan(2_000);
  expect(await inspectDocumentStore(copy)).toMatchObject({ collections: 1, errors: [] });
  const restored = await startDocumentStore({ folder: copy, port: 0 });
  const other = await MongoClient.connect(restored.url);
  const found = await other.db('test').collection<Numbered>('c').find().sort({ _id: 1 }).toArray();
  await other.close();
  await restored.close();
  expect(found.length).toBeGreaterThanOrEqual(2_000);
  expect(found).toEqual(found.map((_, n) => numbered(n)));
});

it('overwrites nothing, and what is no store is neither copied nor checked', async () => {
  const other = join(root, 'other');
  mkdirSync(other);
  writeFileSync(join(other, 'holiday.jpg'), '');
  await expect(backupDocumentStore(folder, other)).rejects.toThrow(ForeignFolder);
  expect(readdirSync(other)).toEqual(['holiday.jpg']);
  await expect(inspectDocumentStore(other)).rejects.toThrow(ForeignFolder);
  await expect(backupDocumentStore(other, join(root, 'copy'))).rejects.toThrow(ForeignFolder);
});

it('checks a store that is written to, and finds nothing', async () => {
  await add(0, 500);
  const checks = Array.from({ length: 3 }, () => inspectDocumentStore(folder));
  for (let n = 0; n < 20; n++) {
    await add(500 + n);
    await client.db('test').collection(`made-${n}`).createIndex({ n: 1 });
  }
  for (const { errors } of await Promise.all(checks)) expect(errors).toEqual([]);
  expect(await inspectDocumentStore(folder)).toEqual({ collections: 21, documents: 520, errors: [] });
});

it('names a bit that flipped in a document or in a key', async () => {
  await add(0, 50);
  await store.close();
  const file = join(folder, 'data.mdb');
  const good = readFileSync(file);
  /** Changes the last byte of every place the text is at. */
  const damaged = async (text: string, by: number): Promise<readonly string[]> => {
    const bytes = Buffer.from(good);
    const last = text.length - 1;
    for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1))
      bytes.writeUInt8((bytes[at + last] as number) ^ by, at + last);
    writeFileSync(file, bytes);
    return (await inspectDocumentStore(folder)).errors;
  };
  expect(await damaged('\x02text\0\x0a\0\0\0number 42', 1)).toEqual([
    expect.stringMatching(/^test\.c: Error: damaged data: table c\d+, key 0+2b$/),
  ]);
  expect(await damaged('number 42\0\x01', 1)).toEqual([
    expect.stringMatching(/^test\.c: Error: damaged data: table c\d+, key [0-9a-f]+$/),
  ]);
  writeFileSync(file, good);
  expect((await inspectDocumentStore(folder)).errors).toEqual([]);
});
