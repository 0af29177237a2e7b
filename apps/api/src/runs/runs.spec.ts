import { runStream } from '#libs/domain/runs';
import { EventStore } from '#libs/event-store';
import { Vault } from '#libs/vault';
import {
  type Caller,
  customer,
  dana,
  elsewhere,
  erin,
  heldRun,
  notice,
  otherWorker,
  RunningApi,
  sam,
  start,
  stranger,
  waitingRun,
  worker,
} from '#test/api';

let api: RunningApi;
beforeAll(async () => {
  api = await RunningApi.start();
});
afterAll(() => api.close());

const step = {
  stepId: 'fetch-policy',
  name: 'Fetch the policy',
  kind: 'tool',
  status: 'completed',
  output: { ok: 1 },
};
const startRun = (body: object, as: Caller = worker) => api.send('POST', '/v1/runs', { as, body });
const codeOf = ({ status, body }: { status: number; body: Record<string, unknown> }) => [status, body.code];

describe('starting a run', () => {
  it('answers its id, revision and position, and is seen at once', async () => {
    const started = await startRun(start, customer);
    expect(started).toMatchObject({ status: 201, headers: { etag: '"0"' } });
    const { runId, position } = started.body as { runId: string; position: string };
    expect(started.body).toEqual({
      runId: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
      status: 'open',
      startedAt: expect.stringMatching(/Z$/) as string,
      revision: '0',
      position: expect.stringMatching(/^\d+$/) as string,
    });
    const read = await api.send('GET', `/v1/runs/${runId}`, { as: worker });
    expect(read).toMatchObject({ status: 200, headers: { etag: '"0"', 'waymark-position': position } });
    expect(read.body).toMatchObject({ runId, customerId: erin, status: 'open', revision: '0' });
  });

  it('is repeatable by a chosen id: the same body answers the same, another is refused', async () => {
    const body = { ...start, runId: '22222222-2222-4222-8222-222222222222' };
    const first = await startRun(body);
    expect(first.status).toBe(201);
    const same = await startRun(body);
    expect([same.status, same.body]).toEqual([200, first.body]);
    const keyed = await api.send('POST', '/v1/runs', {
      as: worker,
      body,
      headers: { 'idempotency-key': 'k' },
    });
    expect([keyed.status, keyed.body, keyed.headers['idempotency-replayed']]).toEqual([
      200,
      first.body,
      undefined,
    ]);
    expect(codeOf(await startRun({ ...body, input: 1 }))).toEqual([409, 'run-exists']);
    expect(await api.events(body.runId)).toHaveLength(1);
  });

  it('is for assistants, and for customers themselves', async () => {
    expect(codeOf(await startRun(start, stranger))).toEqual([403, 'not-permitted']);
    expect(codeOf(await startRun(start, dana))).toEqual([403, 'not-permitted']);
  });
});

describe('the lease', () => {
  const resume = (path: string, as: Caller, body: object) => api.send('POST', `${path}/resume`, { as, body });

  it('is taken by resuming, which shows where the run stands', async () => {
    const { runId, path } = await heldRun(api);
    const again = await resume(path, worker, { workerId: 'worker-1', leaseSeconds: 600 });
    expect(again.status).toBe(200);
    expect(again.body).toMatchObject({
      run: { runId, status: 'open', lease: { number: 2, workerId: 'worker-1' } },
      leaseToken: expect.stringMatching(/^2\.[0-9a-f]{64}$/) as string,
      recheck: { unchanged: [], changed: [], unavailable: [] },
      revision: '2',
    });
  });

  it('of another worker is respected until it lapses, and taken over by a supervisor', async () => {
    const { path, lease } = await heldRun(api);
    const held = await resume(path, otherWorker, { workerId: 'w2' });
    expect(codeOf(held)).toEqual([409, 'lease-held']);
    expect(held.body.expiresAt).toMatch(/Z$/);
    expect(codeOf(await resume(path, otherWorker, { workerId: 'w2', takeOver: true }))).toEqual([
      403,
      'not-permitted',
    ]);
    expect((await resume(path, sam, { workerId: 'sam', takeOver: true })).status).toBe(200);
    const late = await api.send('POST', `${path}/steps`, { as: worker, headers: lease, body: step });
    expect(codeOf(late)).toEqual([409, 'stale-lease']);
  });

  it('is extended by heartbeats that touch no stream, and given back', async () => {
    const { runId, path, lease } = await heldRun(api);
    const body = { leaseToken: lease['waymark-lease'] };
    api.clock.stopAt(Date.now() + 50_000);
    const extended = await api.send('POST', `${path}/lease`, { as: worker, body });
    expect(extended).toMatchObject({
      status: 200,
      body: { leaseExpiresAt: expect.stringMatching(/Z$/) as string },
    });
    expect(codeOf(await api.send('POST', `${path}/lease`, { as: otherWorker, body }))).toEqual([
      409,
      'stale-lease',
    ]);
    api.clock.stopAt(api.clock.now() + 30_000);
    expect(codeOf(await resume(path, otherWorker, { workerId: 'w2' }))).toEqual([409, 'lease-held']);
    const returned = await api.send('DELETE', `${path}/lease`, { as: worker, body });
    expect([returned.status, returned.body]).toEqual([200, { returned: true }]);
    expect((await api.send('DELETE', `${path}/lease`, { as: worker, body })).status).toBe(200);
    expect(codeOf(await api.send('POST', `${path}/lease`, { as: worker, body }))).toEqual([
      409,
      'stale-lease',
    ]);
    expect(await api.events(runId)).toHaveLength(2);
    expect((await resume(path, otherWorker, { workerId: 'w2' })).status).toBe(200);
    api.clock.stopAt(undefined);
  });

  it('repeated by its key is the same token, and closes nothing', async () => {
    const { path } = await heldRun(api);
    const headers = { 'idempotency-key': 'resume-1' };
    const send = () =>
      api.send('POST', `${path}/resume`, { as: worker, headers, body: { workerId: 'worker-1' } });
    const [first, again] = [await send(), await send()];
    expect(again).toMatchObject({
      status: 200,
      headers: { 'idempotency-replayed': 'true' },
      body: first.body,
    });
    const beat = await api.send('POST', `${path}/lease`, {
      as: worker,
      body: { leaseToken: first.body.leaseToken },
    });
    expect(beat.status).toBe(200);
  });

  it('repeated by its key shows the run as it was, also after the run and the view have moved on', async () => {
    const { path, lease } = await waitingRun(api, worker, 60);
    const headers = { 'idempotency-key': 'resume-2' };
    const body = { workerId: 'worker-1' };
    const first = await api.send('POST', `${path}/resume`, { as: worker, headers, body });
    expect(first).toMatchObject({ status: 200, body: { run: { status: 'waiting', lease: { number: 2 } } } });
    expect(lease).not.toEqual({ 'waymark-lease': first.body.leaseToken });
    const held = { 'waymark-lease': String(first.body.leaseToken) };
    const moved = await api.send('POST', `${path}/steps`, { as: worker, headers: held, body: step });
    const seen = { 'waymark-min-position': String(moved.body.position) };
    expect((await api.send('GET', '/v1/runs?limit=1', { as: worker, headers: seen })).status).toBe(200);
    api.clock.stopAt(Date.now() + 120_000);
    const again = await api.send('POST', `${path}/resume`, { as: worker, headers, body });
    api.clock.stopAt(undefined);
    expect(again).toMatchObject({ status: 200, headers: { 'idempotency-replayed': 'true' } });
    expect(again.body).toEqual(first.body);
  });

  it('P03: a worker that slept through its lease writes nothing', async () => {
    const { runId, path, lease } = await heldRun(api);
    api.clock.stopAt(Date.now() + 61_000);
    const taken = await resume(path, otherWorker, { workerId: 'w2' });
    const headers = { 'waymark-lease': String(taken.body.leaseToken) };
    expect((await api.send('POST', `${path}/complete`, { as: otherWorker, headers })).status).toBe(200);
    const before = await api.events(runId);
    const late = await api.send('POST', `${path}/steps`, { as: worker, headers: lease, body: step });
    expect(codeOf(late)).toEqual([409, 'stale-lease']);
    expect(codeOf(await api.send('POST', `${path}/steps`, { as: otherWorker, headers, body: step }))).toEqual(
      [409, 'run-ended'],
    );
    expect(await api.events(runId)).toEqual(before);
    api.clock.stopAt(undefined);
  });
});

describe('working', () => {
  it('enters phases, records steps once, and refuses another result', async () => {
    const { runId, path, lease: headers } = await heldRun(api);
    const send = (route: string, body: object) =>
      api.send('POST', `${path}/${route}`, { as: worker, headers, body });
    expect((await send('phase', { phase: 'intake' })).body).toMatchObject({ phase: 'intake', revision: '2' });
    expect((await send('steps', step)).body).toMatchObject({
      stepId: 'fetch-policy',
      status: 'completed',
      revision: '3',
    });
    expect((await send('steps', step)).body).toMatchObject({ stepId: 'fetch-policy', revision: '3' });
    expect(codeOf(await send('steps', { ...step, output: 2 }))).toEqual([409, 'step-already-completed']);
    expect(await api.events(runId)).toHaveLength(4);
  });

  it('saves the worker’s state, whole or by a merge patch', async () => {
    const { path, lease: headers } = await heldRun(api);
    const put = { as: worker, headers, body: { state: { a: 1, b: { c: 2 } }, label: 'first' } };
    expect((await api.send('PUT', `${path}/checkpoint`, put)).body).toMatchObject({
      label: 'first',
      revision: '2',
    });
    expect((await api.send('PUT', `${path}/checkpoint`, put)).body).toMatchObject({ revision: '2' });
    const patched = { as: worker, headers: { ...headers, 'content-type': 'application/merge-patch+json' } };
    const patch = await api.send('PATCH', `${path}/checkpoint`, {
      ...patched,
      body: { b: { c: null, d: 3 } },
    });
    expect(patch).toMatchObject({ status: 200, body: { revision: '3' } });
    const read = await api.send('GET', `${path}/checkpoint`, { as: worker });
    expect(read.body).toMatchObject({ workerState: { state: { a: 1, b: { d: 3 } } }, revision: '3' });
    expect(JSON.stringify(read.body)).not.toContain('secretDigest');
  });

  it('salts each draft by chance, and answers a repeat with what was salted first', async () => {
    const { runId, path, lease } = await heldRun(api);
    const put = (draftId: string) =>
      api.send('PUT', `${path}/drafts/${draftId}`, {
        as: worker,
        headers: { ...lease, 'idempotency-key': 'salted' },
        body: { kind: 'claim', content: notice },
      });
    const [main, again] = [await put('main'), await put('main')];
    expect(again.body).toEqual(main.body);
    const store = api.app.get(EventStore);
    const run = await store.fold(runStream, 'acme', runId);
    const { salt } = run?.state.drafts.get('main')?.content as { salt: string };
    expect(salt).toMatch(/^[0-9a-f]{64}$/);
    const { commandId = '' } = (await api.events(runId)).at(-1)?.metadata ?? {};
    const keys = await api.app.get(Vault).tenant('acme');
    expect(salt).not.toBe(keys.hmac('draft-salt', commandId));
  });

  it('saves drafts in versions', async () => {
    const { path, lease: headers } = await heldRun(api);
    const put = (content: object) =>
      api.send('PUT', `${path}/drafts/main`, { as: worker, headers, body: { kind: 'claim', content } });
    const first = await put(notice);
    expect(first.body).toMatchObject({
      draftId: 'main',
      draftVersion: 1,
      digest: expect.stringMatching(/^\w{64}$/) as string,
    });
    expect((await put(notice)).body).toEqual(first.body);
    expect((await put({ ...notice, witnesses: 1 })).body).toMatchObject({ draftVersion: 2 });
  });

  it('ends runs, and people call them off', async () => {
    const failed = await heldRun(api);
    const body = { reason: 'no policy', output: { tried: 2 } };
    const ended = await api.send('POST', `${failed.path}/fail`, { as: worker, headers: failed.lease, body });
    expect(ended.body).toMatchObject({ status: 'failed', revision: '2' });
    const open = await heldRun(api);
    expect(codeOf(await api.send('POST', `${open.path}/cancel`, { as: worker }))).toEqual([
      403,
      'not-permitted',
    ]);
    const silent = await api.send('POST', `${open.path}/cancel`, { as: customer, body: { reason: '' } });
    expect(codeOf(silent)).toEqual([400, 'invalid-body']);
    expect(silent.body.errors).toMatchObject([{ field: 'reason' }]);
    expect((await api.send('POST', `${open.path}/cancel`, { as: customer })).body).toMatchObject({
      status: 'cancelled',
      revision: '2',
    });
  });

  it.each([
    ['POST', 'phase', { phase: 'x' }],
    ['POST', 'steps', step],
    ['PUT', 'drafts/main', { kind: 'claim', content: notice }],
    [
      'POST',
      'approvals',
      { draftId: 'main', draftVersion: 1, summary: 's', basedOn: [], expiresInSeconds: 60 },
    ],
    ['PUT', 'checkpoint', { state: 1 }],
    ['PATCH', 'checkpoint', {}],
    ['POST', 'complete', {}],
    ['POST', 'fail', {}],
  ])('%s %s needs a lease, a worker, and a run of the caller’s tenant', async (method, route, body) => {
    const { runId, path, lease } = await heldRun(api);
    const at = `${path}/${route}`;
    expect(codeOf(await api.send(method, at, { as: worker, body }))).toEqual([428, 'lease-required']);
    expect(codeOf(await api.send(method, at, { as: dana, body, headers: lease }))).toEqual([
      403,
      'not-permitted',
    ]);
    expect(codeOf(await api.send(method, at, { as: otherWorker, body, headers: lease }))).toEqual([
      409,
      'stale-lease',
    ]);
    for (const as of [stranger, elsewhere])
      expect(codeOf(await api.send(method, at, { as, body, headers: lease }))).toEqual([404, 'not-found']);
    expect(await api.events(runId)).toHaveLength(2);
  });
});

describe('reading', () => {
  it('hides what the caller may not see exactly as if it were missing', async () => {
    const { path } = await heldRun(api);
    const missing = path.replace(/[0-9a-f]{8}$/, '00000000');
    for (const route of ['', '/checkpoint', '/timeline']) {
      const bodies = await Promise.all([
        api.send('GET', `${missing}${route}`, { as: worker }),
        api.send('GET', `${path}${route}`, { as: stranger }),
        api.send('GET', `${path}${route}`, { as: elsewhere }),
      ]);
      const texts = bodies.map(({ status, text }) => [status, text.replace(/"instance":"[^"]*"/, '')]);
      expect(new Set(texts.map(String)).size).toBe(1);
      expect(texts[0]?.[0]).toBe(404);
    }
  });

  it('shows a customer the plain status of their own runs, and no more', async () => {
    const { path } = await waitingRun(api);
    const read = await api.send('GET', path, { as: customer });
    expect(read.status).toBe(200);
    expect(Object.keys(read.body).sort()).toEqual(
      ['customerId', 'revision', 'runId', 'startedAt', 'status', 'updatedAt', 'workflow'].sort(),
    );
    expect(codeOf(await api.send('GET', `${path}/checkpoint`, { as: customer }))).toEqual([
      403,
      'not-permitted',
    ]);
  });

  it('P16: shows in a list what a single read shows, at the position asked for', async () => {
    const { runId, path } = await waitingRun(api);
    const single = await api.send('GET', path, { as: dana });
    const headers = { 'waymark-min-position': String(single.headers['waymark-position']) };
    const list = await api.send('GET', '/v1/runs?status=waiting&limit=200', { as: dana, headers });
    expect(BigInt(list.headers['waymark-position'] ?? '')).toBeGreaterThanOrEqual(
      BigInt(headers['waymark-min-position']),
    );
    const items = list.body.items as { runId: string }[];
    expect(items.find((item) => item.runId === runId)).toEqual(single.body);
    const own = await api.send('GET', '/v1/runs?limit=200', { as: { ...stranger }, headers });
    expect(own.body).toEqual({ items: [], nextCursor: null });
  });

  it('tells the timeline in words, in pages, newest last', async () => {
    const { path } = await waitingRun(api);
    const first = await api.send('GET', `${path}/timeline?limit=2`, { as: dana });
    expect((first.body.items as { text: string }[]).map(({ text }) => text)).toEqual([
      'The run started, in the workflow auto-claim 1.',
      'worker-1 resumed the run (lease 1).',
    ]);
    const rest = await api.send('GET', `${path}/timeline?cursor=${String(first.body.nextCursor)}`, {
      as: dana,
    });
    const items = rest.body.items as { revision: string; type: string }[];
    expect(items.map(({ revision, type }) => [revision, type])).toEqual([
      ['2', 'DraftSaved'],
      ['3', 'ApprovalRequested'],
    ]);
    expect(rest.body.nextCursor).toBeNull();
    expect(codeOf(await api.send('GET', `${path}/timeline?cursor=x`, { as: dana }))).toEqual([
      400,
      'invalid-parameter',
    ]);
  });
});
