import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MongoClient } from 'mongodb';
import { type RunningDocumentStore, startDocumentStore } from '#libs/embedded/document-store';
import { PayloadMissing } from '#libs/event-store';
import { ReadModels, ReadModelUnavailable } from '#libs/projecting';
import { Vault } from '#libs/vault';
import { Payloads } from './index.js';

const customerId = randomUUID();
const at = (minute: number) => new Date(Date.parse('2026-03-01T00:00:00.000Z') + minute * 60_000);
const cites = (streams: Record<string, string[]>) => (stream: string) =>
  Promise.resolve(new Set(streams[stream]));

let folder: string;
let store: RunningDocumentStore;
let models: ReadModels;
let vault: Vault;
let plain: MongoClient;
/** Each with nothing in memory. */
const fresh = () => new Payloads(models, vault, () => undefined);
const put = (stream: string, state: string, minute = 0) =>
  fresh().put('acme', customerId, stream, { state }, at(minute));
const stands = (payload: { digest: string; bytes: number }) =>
  fresh()
    .open('acme', payload)
    .then(
      () => true,
      (error: unknown) => (error instanceof PayloadMissing ? false : Promise.reject(error as Error)),
    );

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waymark-payloads-'));
  store = await startDocumentStore({ folder, port: 0 });
  models = await ReadModels.connect({ url: store.url });
  vault = await Vault.open({ folder: join(folder, 'keys') });
  await vault.person('acme', customerId, { create: ['run'] });
  plain = await MongoClient.connect(store.url);
});
afterEach(() => plain.db('payloads').collection('payloads').deleteMany({}));
afterAll(async () => {
  await plain.close();
  await models.close();
  await store.close();
  await rm(folder, { recursive: true });
});

describe('a payload', () => {
  it('is found under the digest of its sealed bytes, which tells nothing', async () => {
    const [first, second] = [await put('run-acme.1', 'the same'), await put('run-acme.1', 'the same')];
    expect(first.digest).not.toBe(second.digest);
    expect(await fresh().open('acme', first)).toEqual({ state: 'the same' });
    const stored = await plain.db('payloads').collection('payloads').find().toArray();
    expect(JSON.stringify(stored)).not.toContain('the same');
  });

  it('of another tenant does not exist', async () => {
    const payload = await put('run-acme.1', 'ours');
    await expect(fresh().open('globex', payload)).rejects.toThrow(PayloadMissing);
  });

  it('that was changed does not open', async () => {
    const payload = await put('run-acme.1', 'ours');
    const payloads = plain.db('payloads').collection<{ _id: string; sealed: { buffer: Buffer } }>('payloads');
    const found = await payloads.findOne({});
    const bytes = Buffer.from(found?.sealed.buffer ?? []);
    bytes.writeUInt8(bytes.readUInt8(20) ^ 1, 20);
    await payloads.updateOne({ _id: found?._id ?? '' }, { $set: { sealed: bytes as never } });
    await expect(fresh().open('acme', payload)).rejects.toThrow('cannot be opened: altered');
  });

  it('of a customer whose key is destroyed is not answered from memory either', async () => {
    const erased = randomUUID();
    await vault.person('acme', erased, { create: ['run'] });
    const payloads = fresh();
    const payload = await payloads.put('acme', erased, 'run-acme.1', { state: 'theirs' }, at(0));
    expect(await payloads.open('acme', payload)).toEqual({ state: 'theirs' });
    await rm(join(folder, 'keys', 'people', 'acme', `${erased}.run.key`));
    const anew = await Vault.open({ folder: join(folder, 'keys') });
    const asked = jest.spyOn(vault, 'person').mockImplementation((...of) => anew.person(...of));
    await expect(payloads.open('acme', payload)).rejects.toThrow('cannot be opened: missing-key');
    asked.mockRestore();
  });

  it('P81: shared by two streams goes with the last of them', async () => {
    const payload = await put('run-acme.1', 'evidence');
    await fresh().keep('acme', payload, 'run-acme.2', at(1));
    await fresh().release('acme', 'run-acme.1');
    expect(await stands(payload)).toBe(true);
    await fresh().release('acme', 'run-acme.2');
    expect(await stands(payload)).toBe(false);
    await expect(fresh().keep('acme', payload, 'run-acme.3', at(2))).rejects.toThrow(PayloadMissing);
  });
});

describe('sweeping', () => {
  it('removes what no event came to cite, and never what one does', async () => {
    const [cited, lost] = [await put('run-acme.1', 'cited'), await put('run-acme.1', 'lost')];
    const citedBy = cites({ 'run-acme.1': [cited.digest] });
    expect(await fresh().sweep(at(1), citedBy)).toBe(1);
    expect([await stands(cited), await stands(lost)]).toEqual([true, false]);
    const never = () => Promise.reject(new Error('asked again'));
    expect(await fresh().sweep(at(100), never)).toBe(0);
    await fresh().release('acme', 'run-acme.1');
    expect(await stands(cited)).toBe(false);
  });

  it('looks a stream up once for all that was put for it', async () => {
    const put3 = [await put('run-acme.1', 'a'), await put('run-acme.1', 'b'), await put('run-acme.1', 'c')];
    const asked: string[] = [];
    const citedBy = (stream: string) => {
      asked.push(stream);
      return Promise.resolve(new Set([put3[1]!.digest]));
    };
    expect(await fresh().sweep(at(1), citedBy)).toBe(2);
    expect(asked).toEqual(['run-acme.1']);
    expect(await Promise.all(put3.map(stands))).toEqual([false, true, false]);
  });

  it('stops when it is told to, and goes on the next time', async () => {
    const lost = [await put('run-acme.1', 'a'), await put('run-acme.2', 'b')];
    const stopping = new AbortController();
    const asked: string[] = [];
    const citedBy = (stream: string) => {
      asked.push(stream);
      stopping.abort(new Error('stopped'));
      return Promise.resolve(new Set<string>());
    };
    await expect(fresh().sweep(at(1), citedBy, stopping.signal)).rejects.toThrow('stopped');
    expect(asked).toHaveLength(1);
    expect(await Promise.all(lost.map(stands))).toEqual([true, true]);
    expect(await fresh().sweep(at(1), cites({}))).toBe(2);
  });

  it('leaves alone what a command may yet cite', async () => {
    const payload = await put('run-acme.1', 'under way', 5);
    expect(await fresh().sweep(at(5), cites({}))).toBe(0);
    expect(await stands(payload)).toBe(true);
  });

  it('leaves what was kept for another stream while it was looked at', async () => {
    const payload = await put('run-acme.1', 'forked');
    const citedBy = async () => {
      await fresh().keep('acme', payload, 'run-acme.2', at(60));
      return new Set<string>();
    };
    expect(await fresh().sweep(at(1), citedBy)).toBe(0);
    expect(await fresh().sweep(at(61), cites({ 'run-acme.2': [payload.digest] }))).toBe(0);
    expect(await stands(payload)).toBe(true);
  });
});

it('says so when the document store does not answer', async () => {
  const nowhere = await ReadModels.connect({ url: 'mongodb://127.0.0.1:1/?directConnection=true' });
  const payloads = new Payloads(nowhere, vault, () => undefined);
  await expect(payloads.put('acme', customerId, 'run-acme.1', 1, at(0))).rejects.toThrow(
    ReadModelUnavailable,
  );
  await nowhere.close();
});
