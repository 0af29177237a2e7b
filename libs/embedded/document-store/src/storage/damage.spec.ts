import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deserialize, Long, serialize, UUID, type Document } from 'bson';
import { encodePlain } from '../bson/encode.js';
import { documentValue } from '../bson/values.js';
import { dispatch } from '../commands/dispatch.js';
import { Engine, type Peer } from '../engine.js';
import { DamagedEntry } from './storage.js';

let folder: string;
let engine: Engine;
let notices: string[];
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-damage-'));
  engine = await Engine.open(folder, () => undefined);
  const documents = [
    { _id: 1, text: 'sound document', key: 'a sound key' },
    { _id: 2, text: 'spoilt document', key: 'a spoilt key' },
  ];
  await command({ createIndexes: 'c', indexes: [{ key: { key: 1 }, name: 'i' }] });
  await command({ insert: 'c', documents });
  const index = { key: { at: 1 }, name: 'ttl', expireAfterSeconds: 60 };
  for (const name of ['a', 'b']) {
    await command({ createIndexes: name, indexes: [index] });
    const session = { lsid: { id: new UUID() }, txnNumber: Long.fromNumber(1) };
    await command({
      insert: name,
      documents: [{ _id: 1, at: new Date(0), text: `dated ${name}` }],
      ...session,
    });
  }
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
  return JSON.stringify(deserialize(Buffer.isBuffer(reply) ? reply : encodePlain(reply)));
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
  notices = [];
  engine = await Engine.open(folder, (notice) => notices.push(notice));
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

it('of a dated document stops neither the expiry of other collections nor the sweep of sessions', async () => {
  await flip('dated a');
  const later = Date.now() + 24 * 3_600_000;
  expect(engine.sessions.sweep(engine.storage.latest, later).isEmpty).toBe(false);
  await engine.expire(later);
  expect(engine.expired).toBe(1);
  await expect(command({ find: 'b' })).resolves.toContain('"firstBatch":[]');
  expect(engine.sessions.sweep(engine.storage.latest, later).isEmpty).toBe(true);
  expect(notices).toEqual([
    expect.stringMatching(
      /^expiry by index ttl of test\.a failed: Error: damaged data: table c\d+, key 0+1$/,
    ),
  ]);
});
