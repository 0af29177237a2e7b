import { customer, dana, otherWorker, registerStaff, RunningApi, sam, waitingRun, worker } from '#test/api';
import { streamName } from '#libs/event-store';
import { Payloads } from '#libs/payloads';

let api: RunningApi;
beforeAll(async () => {
  api = await RunningApi.start({ WAYMARK_INLINE_STATE_LIMIT: '2 KiB' });
  await registerStaff(api);
});
afterAll(() => api.close());

type Run = Awaited<ReturnType<typeof waitingRun>>;
const codeOf = ({ status, body }: { status: number; body: Record<string, unknown> }) => [status, body.code];
const fork = (
  { path, lease }: Pick<Run, 'path' | 'lease'>,
  atRevision: unknown,
  as = worker,
  headers = lease,
) => api.send('POST', `${path}/fork`, { as, headers, body: { atRevision } });
const checkpoint = async (runId: unknown, as = worker) =>
  (await api.send('GET', `/v1/runs/${String(runId)}/checkpoint`, { as })).body;

describe('a fork', () => {
  it('P28: from the revision before a grant has its own id and the approval pending; its source is as it was', async () => {
    const run = await waitingRun(api);
    const body = { decision: 'grant', digest: run.digest };
    expect((await api.send('POST', `${run.approval}/decision`, { as: dana, body })).status).toBe(200);
    const before = await api.events(run.runId);
    const granted = before.findIndex(({ type }) => type === 'ApprovalGranted');
    const made = await fork(run, String(granted - 1));
    expect([made.status, made.body]).toEqual([
      201,
      expect.objectContaining({
        forkedFrom: { runId: run.runId, revision: String(granted - 1) },
        revision: '0',
      }),
    ]);
    const { runId } = made.body;
    expect(runId).not.toBe(run.runId);
    expect(await api.events(run.runId)).toEqual(before);
    const shown = await checkpoint(runId);
    expect(shown).toMatchObject({
      runId,
      originRunId: run.runId,
      forkedFrom: { runId: run.runId, revision: String(granted - 1) },
      status: 'waiting',
      approvals: [{ approvalId: `${String(runId)}.1`, status: 'pending', digest: run.digest, decidedBy: [] }],
    });
    expect(shown).not.toHaveProperty('lease');
    const again = await api.send('POST', `/v1/approvals/${String(runId)}.1/decision`, { as: dana, body });
    expect(again.body).toMatchObject({ status: 'granted' });
    const timeline = await api.send('GET', `/v1/runs/${String(runId)}/timeline`, { as: dana });
    expect(timeline.body.items).toMatchObject([
      {
        type: 'RunForked',
        text: `The run began as a fork of the run ${run.runId} at revision ${granted - 1}.`,
      },
      { type: 'ApprovalGranted' },
    ]);
    expect(before.map(({ data }) => JSON.stringify(data)).join()).not.toContain('windscreen');
    expect(JSON.stringify((await api.events(String(runId)))[0]?.data)).not.toContain('windscreen');
  });

  it('is worked on by whoever resumes it, from the steps that were done', async () => {
    const run = await waitingRun(api);
    const step = { stepId: 'read', name: 'Read', kind: 'tool', status: 'completed', output: { pages: 3 } };
    const headers = run.lease;
    const done = await api.send('POST', `${run.path}/steps`, { as: worker, headers, body: step });
    const { body } = await fork(run, done.body.revision);
    const path = `/v1/runs/${String(body.runId)}`;
    const taken = await api.send('POST', `${path}/resume`, {
      as: otherWorker,
      body: { workerId: 'worker-2' },
    });
    const held = { 'waymark-lease': String(taken.body.leaseToken) };
    const send = (output: unknown) =>
      api.send('POST', `${path}/steps`, { as: otherWorker, headers: held, body: { ...step, output } });
    expect((await send({ pages: 3 })).body.revision).toBe('1');
    expect(codeOf(await send({ pages: 4 }))).toEqual([409, 'step-already-completed']);
    expect(await checkpoint(body.runId)).toMatchObject({ steps: { total: 1, completed: 1 } });
  });

  it('is made by the holder of the lease or a supervisor, once under one key', async () => {
    const run = await waitingRun(api);
    expect(codeOf(await fork(run, '0', worker, {}))).toEqual([428, 'lease-required']);
    expect(codeOf(await fork(run, '0', otherWorker))).toEqual([409, 'stale-lease']);
    expect(codeOf(await fork(run, '0', dana, {}))).toEqual([403, 'not-permitted']);
    expect(codeOf(await fork(run, '0', customer, {}))).toEqual([403, 'not-permitted']);
    expect((await fork(run, '0', sam, {})).status).toBe(201);
    const headers = { ...run.lease, 'idempotency-key': 'fork' };
    const first = await fork(run, 1, worker, headers);
    const again = await fork(run, 1, worker, headers);
    expect([again.status, again.body]).toEqual([201, first.body]);
    expect(codeOf(await fork(run, 2, worker, headers))).toEqual([422, 'idempotency-key-reused']);
    expect(await api.events(String(first.body.runId))).toHaveLength(1);
  });

  it('does not undo a cancel, unless a supervisor makes it', async () => {
    const run = await waitingRun(api);
    expect((await api.send('POST', `${run.path}/cancel`, { as: customer, body: {} })).status).toBe(200);
    expect(codeOf(await fork(run, '3'))).toEqual([409, 'run-ended']);
    expect((await fork(run, '3', sam, {})).status).toBe(201);
  });

  it('is refused at a revision that the run does not have', async () => {
    const run = await waitingRun(api);
    const answer = await fork(run, '99');
    expect(codeOf(answer)).toEqual([400, 'invalid-body']);
    expect(answer.body.errors).toEqual([{ field: 'atRevision', message: 'the run is at revision 3' }]);
    for (const none of ['-1', 'x', 1.5, null])
      expect(codeOf(await fork(run, none))).toEqual([400, 'invalid-body']);
  });

  it('takes a large state through the payload store, and cites its worker’s own', async () => {
    const run = await waitingRun(api);
    const headers = run.lease;
    for (let index = 0; index < 20; index += 1) {
      const body = {
        stepId: `step-${index}`,
        name: 'Step',
        kind: 'tool',
        status: 'completed',
        output: index,
      };
      await api.send('POST', `${run.path}/steps`, { as: worker, headers, body });
    }
    const state = { note: 'y'.repeat(5000) };
    const saved = await api.send('PUT', `${run.path}/checkpoint`, { as: worker, headers, body: { state } });
    const { body } = await fork(run, saved.body.revision);
    const [begun] = await api.events(String(body.runId));
    expect(begun?.data).not.toHaveProperty('state');
    expect(begun?.data['cites']).toHaveLength(2);
    await api.restart();
    const expected = { steps: { completed: 20 }, workerState: { state }, approvals: [{ status: 'pending' }] };
    expect(await checkpoint(body.runId)).toMatchObject(expected);
    const path = `/v1/runs/${String(body.runId)}`;
    const taken = await api.send('POST', `${path}/resume`, { as: worker, body: { workerId: 'worker-1' } });
    expect(taken.body.run).toMatchObject(expected);
    const list = await api.send('GET', '/v1/runs?limit=1&waitMs=10000', {
      as: worker,
      headers: { 'waymark-min-position': String(taken.body.position) },
    });
    const single = await api.send('GET', path, { as: worker });
    expect(list.body.items).toEqual([single.body]);
  });

  it('whose payload is gone cannot be read, and can be cancelled', async () => {
    const run = await waitingRun(api);
    const body = { stepId: 'read', name: 'Read', kind: 'tool', status: 'completed', output: 'z'.repeat(900) };
    for (let index = 0; index < 20; index += 1) {
      const step = { ...body, stepId: `step-${index}` };
      await api.send('POST', `${run.path}/steps`, { as: worker, headers: run.lease, body: step });
    }
    const made = await fork(run, '23');
    const runId = String(made.body.runId);
    expect((await api.events(runId))[0]?.data).not.toHaveProperty('state');
    await api.app.get(Payloads).release('acme', streamName('run', 'acme', runId));
    await api.restart();
    const path = `/v1/runs/${runId}`;
    const taken = await api.send('POST', `${path}/resume`, { as: worker, body: { workerId: 'worker-1' } });
    expect(codeOf(taken)).toEqual([500, 'unreadable-record']);
    expect((await api.send('POST', `${path}/cancel`, { as: customer, body: {} })).status).toBe(200);
    expect((await api.events(runId)).map(({ type }) => type)).toEqual(['RunForked', 'RunCancelled']);
  });
});
