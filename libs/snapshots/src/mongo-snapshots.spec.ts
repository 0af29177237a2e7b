import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { type RunningDocumentStore, startDocumentStore } from '#libs/embedded/document-store';
import type { Snapshot } from '#libs/event-store';
import { MongoSnapshots } from './index.js';

let folder: string;
let server: RunningDocumentStore;
let snapshots: MongoSnapshots;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waymark-snapshots-'));
  server = await startDocumentStore({ folder, port: 0 });
  snapshots = await MongoSnapshots.connect({ url: server.url });
});

afterAll(async () => {
  await snapshots.close();
  await server.close();
  await rm(folder, { recursive: true, force: true });
});

let streams = 0;
const aStream = () => `run-acme.${(streams += 1)}`;

const snapshotOf = (stream: string, revision: bigint, changes: Partial<Snapshot> = {}): Snapshot => ({
  stream,
  revision,
  position: 2n ** 53n + 1n,
  foldVersion: 1,
  digest: 'd'.repeat(64),
  customerId: '3f1a4c1e-0b55-4f0e-9a55-0a7d5a1f0001',
  sealed: Buffer.from(`fold at ${revision}`),
  ...changes,
});

async function loaded(stream: string) {
  const found = await snapshots.load(stream);
  return found && { ...found, sealed: Buffer.from(found.sealed) };
}

describe('a snapshot', () => {
  it('comes back as it was saved, with positions beyond 2^53', async () => {
    const stream = aStream();
    expect(await loaded(stream)).toBeUndefined();
    const saved = snapshotOf(stream, 2n ** 53n + 1n, { sealed: randomBytes(3 * 1024 * 1024) });
    await snapshots.save(saved);
    const found = await loaded(stream);
    expect(found!.sealed.equals(saved.sealed)).toBe(true);
    expect({ ...found, sealed: undefined }).toEqual({ ...saved, sealed: undefined });
  });

  it('of the latest revision stays, in whatever order they are saved', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.bigInt({ min: 0n, max: 9n }), { minLength: 1, maxLength: 6 }),
        async (revisions) => {
          const stream = aStream();
          await Promise.all(revisions.map((revision) => snapshots.save(snapshotOf(stream, revision))));
          const latest = revisions.reduce((most, each) => (each > most ? each : most));
          expect(await loaded(stream)).toEqual(snapshotOf(stream, latest));
        },
      ),
      { numRuns: 10 },
    );
  });

  it('of another fold version is replaced, also at the same revision', async () => {
    const stream = aStream();
    await snapshots.save(snapshotOf(stream, 5n));
    await snapshots.save(snapshotOf(stream, 5n, { foldVersion: 2 }));
    expect(await loaded(stream)).toMatchObject({ foldVersion: 2 });
  });

  it('fails, and soon, while the store is down', async () => {
    const nowhere = await MongoSnapshots.connect({ url: 'mongodb://127.0.0.1:1/?directConnection=true' });
    await expect(nowhere.load('run-acme.1')).rejects.toThrow();
    await expect(nowhere.save(snapshotOf('run-acme.1', 1n))).rejects.toThrow();
    await nowhere.close();
  });
});
