import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deserialize, Long, serialize, UUID, type Document } from 'bson';
import { encodePlain } from '../bson/encode.js';
import { documentValue } from '../bson/values.js';
import { dispatch } from '../commands/dispatch.js';
import { Engine, type Peer } from '../engine.js';

let folder: string;
let engine: Engine;
let notices: string[];
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-full-'));
  notices = [];
  await open();
});
afterEach(async () => {
  await engine.close();
  rmSync(folder, { recursive: true });
});

async function open(): Promise<void> {
  engine = await Engine.open(folder, (notice) => notices.push(notice));
}

const peer: Peer = { address: '127.0.0.1', port: 1, transactions: new Set() };

async function command(document: Document): Promise<Document> {
  const bytes = Buffer.from(serialize({ ...document, $db: (document['$db'] ?? 'test') as string }));
  const reply = await dispatch(engine, peer, documentValue(bytes));
  return deserialize(Buffer.isBuffer(reply) ? reply : encodePlain(reply));
}

const full = (): Error => Object.assign(new Error('No space left on device'), { code: 28 });
const failing = () => jest.spyOn(engine.storage, 'commit').mockRejectedValueOnce(full());
const isFull = expect.objectContaining({ code: 14031, codeName: 'OutOfDiskSpace' }) as unknown;

const insert = (...ids: number[]): Document => ({ insert: 'c', documents: ids.map((_id) => ({ _id })) });
async function ids(): Promise<unknown[]> {
  const { cursor } = await command({ find: 'c', sort: { _id: 1 } });
  return (cursor as { firstBatch: Document[] }).firstBatch.map(({ _id }) => _id as unknown);
}

const session = (number: number) => ({ lsid: { id }, txnNumber: Long.fromNumber(number) });
const id = new UUID();

describe('a commit that fails', () => {
  it('refuses all that gathered with it, reading goes on, and the next is tried anew', async () => {
    await command(insert(1));
    failing();
    const both = await Promise.allSettled([command(insert(2)), command(insert(3))]);
    expect(both).toEqual([1, 2].map(() => ({ status: 'rejected', reason: isFull })));
    expect(await ids()).toEqual([1]);
    expect(await command(insert(2, 4))).toEqual({ n: 2, ok: 1 });
    expect(await ids()).toEqual([1, 2, 4]);
    expect(notices).toEqual([expect.stringContaining('the disk is full'), 'commits succeed again']);
  });

  it('refuses also what was judged against what is lost', async () => {
    let fail: (error: Error) => void = () => undefined;
    const reached = new Promise<void>((resolve) =>
      jest.spyOn(engine.storage, 'commit').mockImplementationOnce(() => {
        resolve();
        return new Promise((_, reject) => (fail = reject));
      }),
    );
    const first = command(insert(1));
    await reached;
    const deletion = command({ delete: 'c', deletes: [{ q: { _id: 1 }, limit: 1 }] });
    fail(full());
    await expect(first).rejects.toEqual(isFull);
    await expect(deletion).rejects.toEqual(isFull);
    expect(await command(insert(1))).toEqual({ n: 1, ok: 1 });
  });

  it('leaves no collection, index or array mark in memory that the file does not have', async () => {
    failing();
    await expect(command(insert(1))).rejects.toEqual(isFull);
    expect(engine.catalogue.all()).toEqual([]);
    await command(insert(1));
    failing();
    const index = { createIndexes: 'c', indexes: [{ key: { a: 1 }, name: 'a', unique: true }] };
    await expect(command(index)).rejects.toEqual(isFull);
    expect(engine.catalogue.get('test.c')?.indexes.map(({ name }) => name)).toEqual(['_id_']);
    await command(index);
    failing();
    const arrays = { insert: 'c', documents: [{ _id: 2, a: [1, 2] }] };
    await expect(command(arrays)).rejects.toEqual(isFull);
    await command(arrays);
    failing();
    await expect(command({ drop: 'c' })).rejects.toEqual(isFull);
    await engine.close();
    await open();
    expect(await ids()).toEqual([1, 2]);
    const { cursor } = await command({ find: 'c', filter: { a: { $in: [1, 2] } } });
    expect((cursor as { firstBatch: Document[] }).firstBatch).toEqual([{ _id: 2, a: [1, 2] }]);
    expect(await command({ validate: 'c' })).toMatchObject({ valid: true, nIndexes: 2 });
  });

  it('is not an answer to keep: the retried write is done, once', async () => {
    failing();
    await expect(command({ ...insert(1), ...session(1) })).rejects.toEqual(isFull);
    expect(await command({ ...insert(1), ...session(1) })).toEqual({ n: 1, ok: 1 });
    expect(await command({ ...insert(1), ...session(1) })).toEqual({ n: 1, ok: 1 });
    expect(await ids()).toEqual([1]);
  });

  it('of a transaction leaves nothing of it, and the whole may be run again', async () => {
    const within = (number: number) => ({ ...session(number), autocommit: false });
    const commit = (number: number) => ({ commitTransaction: 1, ...within(number), $db: 'admin' });
    await command({ ...insert(1), ...within(1), startTransaction: true });
    failing();
    await expect(command(commit(1))).rejects.toEqual(isFull);
    await expect(command(commit(1))).rejects.toMatchObject({
      code: 251,
      labels: ['TransientTransactionError'],
    });
    expect(await ids()).toEqual([]);
    await command({ ...insert(1), ...within(2), startTransaction: true });
    expect(await command(commit(2))).toEqual({ ok: 1 });
    expect(await command(commit(2))).toEqual({ ok: 1 });
    expect(await ids()).toEqual([1]);
  });
});
