import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { type RunningDocumentStore, startDocumentStore } from '#libs/embedded/document-store';
import { StoreUnavailable } from '#libs/event-store';
import { type LeaseRecord, Leases } from './index.js';

let folder: string;
let store: RunningDocumentStore;
let leases: Leases;
let streams = 0;
const aStream = () => `run-acme.${(streams += 1)}`;
const at = (second: number) => new Date(second * 1000).toISOString();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waymark-leases-'));
  store = await startDocumentStore({ folder, port: 0 });
  leases = await Leases.connect({ url: store.url });
});
afterAll(async () => {
  await leases.disconnect();
  await store.close();
  await rm(folder, { recursive: true });
});

describe('records of leases', () => {
  it('extend, never shrink, and begin anew with a newer number', async () => {
    const stream = aStream();
    expect(await leases.read(stream)).toBeUndefined();
    expect(await leases.extend(stream, 1, at(20))).toEqual({ number: 1, expiresAt: at(20), closed: false });
    expect(await leases.extend(stream, 1, at(10))).toEqual({ number: 1, expiresAt: at(20), closed: false });
    expect(await leases.extend(stream, 2, at(15))).toEqual({ number: 2, expiresAt: at(15), closed: false });
    expect(await leases.extend(stream, 1, at(99))).toEqual({ number: 2, expiresAt: at(15), closed: false });
  });

  it('closed, stay closed until a newer number', async () => {
    const stream = aStream();
    expect(await leases.close(stream, 1, undefined)).toBe(true);
    const closed = { number: 1, expiresAt: '', closed: true };
    expect(await leases.extend(stream, 1, at(30))).toEqual(closed);
    expect(await leases.extend(stream, 2, at(30))).toEqual({ number: 2, expiresAt: at(30), closed: false });
  });

  it('close only as they were seen', async () => {
    const stream = aStream();
    const seen = await leases.extend(stream, 1, at(10));
    await leases.extend(stream, 1, at(20));
    expect(await leases.close(stream, 1, seen)).toBe(false);
    expect(await leases.close(stream, 1, undefined)).toBe(false);
    expect(await leases.close(stream, 2, await leases.read(stream))).toBe(true);
    expect(await leases.read(stream)).toEqual({ number: 2, expiresAt: at(20), closed: true });
  });

  it('of ten who close at once, one has closed', async () => {
    const stream = aStream();
    const seen = await leases.extend(stream, 1, at(10));
    const done = await Promise.all(Array.from({ length: 10 }, () => leases.close(stream, 2, seen)));
    expect(done.filter(Boolean)).toHaveLength(1);
  });

  it('of 25 who close and 25 who extend at once, one close at most has won, and nothing passes it', async () => {
    const stream = aStream();
    const seen = await leases.extend(stream, 1, at(10));
    const [closes, extensions] = await Promise.all([
      Promise.all(Array.from({ length: 25 }, () => leases.close(stream, 2, seen))),
      Promise.all(Array.from({ length: 25 }, (_, index) => leases.extend(stream, 1, at(11 + index)))),
    ]);
    const closed = { number: 2, expiresAt: at(10), closed: true };
    const won = closes.filter(Boolean).length;
    expect(won).toBeLessThanOrEqual(1);
    expect(await leases.read(stream)).toEqual(won ? closed : { number: 1, expiresAt: at(35), closed: false });
    if (won) expect(extensions).toEqual(extensions.map(() => closed));
  });

  it('grow, whatever is sent in whatever order', async () => {
    const extension = fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 30 }));
    await fc.assert(
      fc.asyncProperty(fc.array(extension, { minLength: 1, maxLength: 8 }), async (sent) => {
        const stream = aStream();
        await Promise.all(sent.map(([number, end]) => leases.extend(stream, number, at(end))));
        const newest = Math.max(...sent.map(([number]) => number));
        const ends = sent.filter(([number]) => number === newest).map(([, end]) => end);
        const expected: LeaseRecord = { number: newest, expiresAt: at(Math.max(...ends)), closed: false };
        expect(await leases.read(stream)).toEqual(expected);
      }),
      { numRuns: 20 },
    );
  });

  it('say so when the store does not answer', async () => {
    const nowhere = await Leases.connect({ url: 'mongodb://127.0.0.1:1/?directConnection=true' });
    await expect(nowhere.read('run-acme.1')).rejects.toThrow(StoreUnavailable);
    await nowhere.disconnect();
  });
});
