import { MongoClient } from 'mongodb';
import { heldRun, RunningApi, worker } from '#test/api';
import { Config } from '#apps/platform';

let api: RunningApi;
let documents: MongoClient;
beforeAll(async () => {
  api = await RunningApi.start({
    WAYMARK_INLINE_STATE_LIMIT: '64 KiB',
    WAYMARK_WORKER_STATE_LIMIT: '400 KiB',
  });
  documents = await MongoClient.connect(api.app.get(Config).mongoUrl ?? '');
});
afterAll(async () => {
  await documents.close();
  await api.close();
});

const codeOf = ({ status, body }: { status: number; body: Record<string, unknown> }) => [status, body.code];
const kilobytes = (count: number, letter = 'x') => letter.repeat(count * 1024);
const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

type Run = Awaited<ReturnType<typeof heldRun>>;
const put = ({ path, lease }: Run, state: unknown, headers = {}) =>
  api.send('PUT', `${path}/checkpoint`, { as: worker, headers: { ...lease, ...headers }, body: { state } });
const patch = ({ path, lease }: Run, body: unknown) =>
  api.send('PATCH', `${path}/checkpoint`, { as: worker, headers: lease, body });
const stateOf = async ({ path }: Run) => {
  const { body } = await api.send('GET', `${path}/checkpoint`, { as: worker });
  return (body.workerState as { state: unknown }).state;
};
const kindsOf = async ({ runId }: Run) =>
  (await api.events(runId))
    .filter(({ type }) => type === 'WorkerStateSaved')
    .map(({ data }) => (data.content as { kind: string }).kind);
const payloads = () => documents.db('payloads').collection('payloads').countDocuments();

describe('P05: 200 steps that carry a constant note of 50 KB', () => {
  it('leave one document below 150 KB, and events that hold what differs', async () => {
    const run = await heldRun(api);
    const note = kilobytes(50);
    let position = '';
    for (let step = 1; step <= 200; step += 1) {
      const saved = await put(run, { note, step });
      expect(saved.status).toBe(200);
      position = String(saved.body.position);
    }
    const list = await api.send('GET', '/v1/runs?waitMs=10000', {
      as: worker,
      headers: { 'waymark-min-position': position },
    });
    expect(list.status).toBe(200);
    const stored = await documents
      .db('current-checkpoints')
      .collection('documents-v3')
      .find({ runId: run.runId })
      .toArray();
    expect(stored).toHaveLength(1);
    expect(bytesOf(stored[0])).toBeLessThan(150_000);
    const events = await api.events(run.runId);
    expect(await kindsOf(run)).toEqual(['whole', ...Array.from({ length: 199 }, () => 'difference')]);
    expect(bytesOf(events.slice(-199).map(({ data }) => data))).toBeLessThan(199 * 400);
    expect(await stateOf(run)).toEqual({ note, step: 200 });
  });
});

describe('a state that is too large for an event', () => {
  it('lies in the payload store, and is answered with the checkpoint and by resuming', async () => {
    const run = await heldRun(api);
    const before = await payloads();
    const state = { note: kilobytes(100), turn: 1 };
    expect((await put(run, state)).status).toBe(200);
    expect(await kindsOf(run)).toEqual(['payload']);
    expect(await payloads()).toBe(before + 1);
    expect(await stateOf(run)).toEqual(state);
    const { body } = await api.send('GET', run.path, { as: worker });
    expect(body.workerState).toMatchObject({ payload: { bytes: expect.any(Number) as number } });
    expect(bytesOf(body)).toBeLessThan(5_000);
    const resumed = await api.send('POST', `${run.path}/resume`, {
      as: worker,
      body: { workerId: 'worker-1' },
    });
    expect(resumed.body.run).toMatchObject({ workerState: { state } });
  });

  it('is changed by a patch, saved once, and comes back into events when it is small', async () => {
    const run = await heldRun(api);
    const state = { note: kilobytes(100), turn: 1 };
    await put(run, state);
    const before = await payloads();
    expect((await patch(run, { turn: 1 })).body.revision).toBe('2');
    expect((await put(run, state)).body.revision).toBe('2');
    expect(await payloads()).toBe(before);
    expect((await patch(run, { turn: 2 })).body.revision).toBe('3');
    expect(await stateOf(run)).toEqual({ ...state, turn: 2 });
    await patch(run, { note: null });
    expect(await kindsOf(run)).toEqual(['payload', 'payload', 'whole']);
    expect(await stateOf(run)).toEqual({ turn: 2 });
  });

  it('is saved once under one key', async () => {
    const run = await heldRun(api);
    const key = { 'idempotency-key': 'large' };
    const first = await put(run, kilobytes(100), key);
    const again = await put(run, kilobytes(100), key);
    expect([again.body, again.headers['idempotency-replayed']]).toEqual([first.body, 'true']);
    expect(await kindsOf(run)).toEqual(['payload']);
  });

  it('has a limit, which is named', async () => {
    const run = await heldRun(api);
    await put(run, { a: kilobytes(300) });
    const more = await patch(run, { b: kilobytes(200, 'y') });
    expect(codeOf(more)).toEqual([413, 'state-too-large']);
    expect(more.body).toMatchObject({ limit: 400 * 1024, field: 'state.b' });
    expect(await kindsOf(run)).toEqual(['payload']);
  });

  it('is put into the payload store for nobody without the lease', async () => {
    const run = await heldRun(api);
    const before = await payloads();
    const answer = await put({ ...run, lease: {} }, kilobytes(100));
    expect(codeOf(answer)).toEqual([428, 'lease-required']);
    expect(await payloads()).toBe(before);
  });
});

describe('with the document store down', () => {
  it('large states wait, small ones and resuming go on', async () => {
    const run = await heldRun(api);
    const small = await heldRun(api);
    await put(run, { note: kilobytes(100) });
    await documents.close();
    await api.restart();
    await api.engines.stopDocuments();
    expect((await put(small, { turn: 1 })).status).toBe(200);
    expect((await put(small, { turn: 2 })).status).toBe(200);
    expect(await stateOf(small)).toEqual({ turn: 2 });
    expect(codeOf(await put(small, kilobytes(100)))).toEqual([503, 'payloads-unavailable']);
    expect(codeOf(await api.send('GET', `${run.path}/checkpoint`, { as: worker }))).toEqual([
      503,
      'payloads-unavailable',
    ]);
    expect(await kindsOf(small)).toEqual(['whole', 'whole']);
  });
});
