import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serialize, type Document } from 'bson';
import { documentValue } from '../bson/values.js';
import { dispatch } from '../commands/dispatch.js';
import { Engine, type Peer } from '../engine.js';
import { DamagedEntry } from './storage.js';

let folder: string;
let engine: Engine;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-damage-'));
  engine = await Engine.open(folder, () => undefined);
  const documents = [
    { _id: 1, text: 'sound document', key: 'a sound key' },
    { _id: 2, text: 'spoilt document', key: 'a spoilt key' },
  ];
  await command({ createIndexes: 'c', indexes: [{ key: { key: 1 }, name: 'i' }] });
  await command({ insert: 'c', documents });
  await engine.close();
});
afterEach(async () => {
  await engine.close();
  rmSync(folder, { recursive: true });
});

const peer: Peer = { address: '127.0.0.1', port: 1, transactions: new Set() };

async function command(document: Document): Promise<string> {
  const bytes = Buffer.from(serialize({ ...document, $db: 'test' }));
  const reply = await dispatch(engine, peer, documentValue(bytes));
  return JSON.stringify(reply, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
}

/** Flips one bit wherever the text stands in the file, then opens it again. */
async function flip(text: string): Promise<void> {
  const file = join(folder, 'data.mdb');
  const bytes = readFileSync(file);
  let flipped = 0;
  for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1), flipped++)
    bytes[at] = (bytes[at] as number) ^ 1;
  expect(flipped).toBeGreaterThan(0);
  writeFileSync(file, bytes);
  engine = await Engine.open(folder, () => undefined);
}

it('of a document is found when it is read, named, and not served; others are', async () => {
  await flip('spoilt document');
  await expect(command({ find: 'c', filter: { _id: 1 } })).resolves.toContain('firstBatch');
  await expect(command({ find: 'c', filter: { _id: 2 } })).rejects.toThrow(DamagedEntry);
  await expect(command({ find: 'c' })).rejects.toThrow(/table c\d+, key 000000000002$/);
  await expect(command({ validate: 'c' })).rejects.toThrow(DamagedEntry);
});

it('of an index key is found when the index is walked there', async () => {
  await flip('a spoilt key\0\x01');
  await expect(command({ find: 'c', filter: { key: { $gte: 'a' } } })).rejects.toThrow(DamagedEntry);
});
