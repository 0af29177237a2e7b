import {
  type Caller,
  customer,
  dana,
  elsewhere,
  erin,
  heldRun,
  notice,
  operator,
  otherWorker,
  registerStaff,
  RunningApi,
  sam,
  stranger,
  waitingRun,
  worker,
} from '#test/api';

let api: RunningApi;
beforeAll(async () => {
  api = await RunningApi.start();
  await registerStaff(api);
});
afterAll(() => api.close());

const codeOf = ({ status, body }: { status: number; body: Record<string, unknown> }) => [status, body.code];
type Waiting = Awaited<ReturnType<typeof waitingRun>>;

const decide = ({ approval, digest }: Waiting, as: Caller, body: object, headers = {}) =>
  api.send('POST', `${approval}/decision`, { as, headers, body: { digest, ...body } });
const decisionsOf = async ({ runId }: Waiting) =>
  (await api.events(runId)).map(({ type }) => type).filter((type) => /Granted|Denied/.test(type));

describe('asking for an approval', () => {
  it('answers what is asked for, and once while it is open', async () => {
    const { path, lease: headers, approvalId, runId, expiresAt } = await waitingRun(api);
    expect(approvalId).toBe(`${runId}.1`);
    expect(Date.parse(expiresAt)).toBeGreaterThan(Date.now());
    const body = { draftId: 'main', draftVersion: 1, summary: 'again', basedOn: [], expiresInSeconds: 60 };
    const ask = (more: object) =>
      api.send('POST', `${path}/approvals`, { as: worker, headers, body: { ...body, ...more } });
    expect(codeOf(await ask({}))).toEqual([409, 'approval-open']);
    expect(codeOf(await ask({ draftId: 'other' }))).toEqual([404, 'draft-unknown']);
    expect(codeOf(await ask({ expiresInSeconds: 59 }))).toEqual([400, 'invalid-body']);
  });

  it('is refused beyond 50 open ones, so that the run can always be cancelled', async () => {
    const actFor = Array.from({ length: 20 }, (_, at) => String(at).padStart(128, 'x'));
    const { runId, path, lease: headers } = await heldRun(api, worker);
    const ask = async (draftId: string) => {
      const draft = { as: worker, headers, body: { kind: 'claim', content: notice } };
      await api.send('PUT', `${path}/drafts/${draftId}`, draft);
      const body = { draftId, draftVersion: 1, summary: 'One more', basedOn: [], expiresInSeconds: 60 };
      return api.send('POST', `${path}/approvals`, { as: { ...worker, actFor }, headers, body });
    };
    for (let asked = 1; asked <= 50; asked++) expect((await ask(`draft-${asked}`)).status).toBe(201);
    expect(await ask('one-more')).toMatchObject({
      status: 409,
      body: { code: 'too-many-approvals', limit: 50 },
    });
    const cancel = { as: { ...sam, actFor }, body: { reason: 'x'.repeat(2000) } };
    expect((await api.send('POST', `${path}/cancel`, cancel)).status).toBe(200);
    const withdrawn = (await api.events(runId)).filter(({ type }) => type === 'ApprovalWithdrawn');
    expect(withdrawn).toHaveLength(50);
  });

  it('is seen whole by those who decide, and by nobody else', async () => {
    const { approval, approvalId, digest, runId } = await waitingRun(api);
    const read = await api.send('GET', approval, { as: dana });
    expect(read.status).toBe(200);
    expect(read.body).toMatchObject({
      approvalId,
      runId,
      digest,
      status: 'pending',
      requestedBy: { sub: 'worker-1' },
      draft: { draftId: 'main', notice },
      facts: [],
      decisions: [],
    });
    expect(codeOf(await api.send('GET', approval, { as: customer }))).toEqual([403, 'not-permitted']);
    for (const as of [stranger, elsewhere, operator])
      expect(codeOf(await api.send('GET', approval, { as }))).toEqual([404, 'not-found']);
    expect(codeOf(await api.send('GET', approval.replace(/1$/, '9'), { as: dana }))).toEqual([
      404,
      'not-found',
    ]);
  });

  it('lists what the caller may decide: pending, unexpired, not their own', async () => {
    const mine = await waitingRun(api, { ...worker, sub: 'dana' });
    const other = await waitingRun(api);
    const short = await waitingRun(api, worker, 60);
    const { headers } = await api.send('GET', short.path, { as: worker });
    const min = { 'waymark-min-position': String(headers['waymark-position']) };
    const list = async (as: Caller, query = '') => {
      const answer = await api.send('GET', `/v1/approvals?limit=200${query}`, { as, headers: min });
      expect(answer.body.serverTime).toMatch(/Z$/);
      return (answer.body.items as { approvalId: string }[]).map(({ approvalId }) => approvalId);
    };
    expect(await list(dana)).toEqual(expect.arrayContaining([other.approvalId, short.approvalId]));
    expect(await list(dana)).not.toContain(mine.approvalId);
    expect(await list(sam, `&status=pending&runId=${mine.runId}`)).toEqual([mine.approvalId]);
    api.clock.stopAt(Date.parse(short.expiresAt));
    expect(await list(sam)).not.toContain(short.approvalId);
    api.clock.stopAt(undefined);
    expect(codeOf(await api.send('GET', '/v1/approvals', { as: worker }))).toEqual([403, 'not-permitted']);
  });
});

describe('deciding', () => {
  it('P19: an opposite answer is refused with the first decision; the same one again changes nothing', async () => {
    const waiting = await waitingRun(api);
    const granted = await decide(waiting, dana, { decision: 'grant' });
    expect(granted).toMatchObject({ status: 200, body: { status: 'granted', remaining: 0, revision: '4' } });
    const [at] = (await api.events(waiting.runId)).slice(-1).map(({ data }) => data.grantedAt);
    const denied = await decide(waiting, sam, { decision: 'deny' });
    expect(denied).toMatchObject({
      status: 409,
      body: { code: 'already-decided', decision: 'grant', by: 'dana', at },
    });
    expect(codeOf(await decide(waiting, dana, { decision: 'deny' }))).toEqual([409, 'already-decided']);
    expect((await decide(waiting, dana, { decision: 'grant' })).body).toMatchObject({ revision: '4' });
    expect(await decisionsOf(waiting)).toEqual(['ApprovalGranted']);
    const read = await api.send('GET', waiting.approval, { as: dana });
    expect(read.body).toMatchObject({
      status: 'granted',
      decisions: [{ decision: 'grant', by: 'dana', at }],
    });
  });

  it('J4: of two drafts the second may be decided first; the other one still waits, and is listed', async () => {
    const first = await waitingRun(api);
    const headers = first.lease;
    await api.send('PUT', `${first.path}/drafts/b`, {
      as: worker,
      headers,
      body: { kind: 'claim', content: notice },
    });
    const body = { draftId: 'b', draftVersion: 1, summary: 'second', basedOn: [], expiresInSeconds: 3600 };
    const asked = await api.send('POST', `${first.path}/approvals`, { as: worker, headers, body });
    const second = {
      ...first,
      approval: `/v1/approvals/${first.runId}.2`,
      digest: String(asked.body.digest),
    };
    const granted = await decide(second, dana, { decision: 'grant' });
    const min = { 'waymark-min-position': String(granted.body.position) };
    const list = await api.send('GET', `/v1/approvals?runId=${first.runId}`, { as: sam, headers: min });
    expect((list.body.items as { approvalId: string }[]).map(({ approvalId }) => approvalId)).toEqual([
      first.approvalId,
    ]);
    expect((await decide(first, dana, { decision: 'deny' })).body).toMatchObject({ status: 'denied' });
  });

  it('P20: five at once, each with a key of its own, are one decision', async () => {
    const waiting = await waitingRun(api);
    const keys = [1, 2, 3, 4, 5].map((n) => ({ 'idempotency-key': `key-${n}` }));
    const answers = await Promise.all(keys.map((key) => decide(waiting, dana, { decision: 'grant' }, key)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(await decisionsOf(waiting)).toEqual(['ApprovalGranted']);
  });

  it('P21: the last millisecond counts, the next does not, and nothing sweeps', async () => {
    const [early, late] = [await waitingRun(api), await waitingRun(api)];
    api.clock.stopAt(Date.parse(early.expiresAt) - 1);
    expect((await decide(early, dana, { decision: 'grant' })).status).toBe(200);
    api.clock.stopAt(Date.parse(late.expiresAt));
    const expired = await decide(late, dana, { decision: 'grant' });
    expect(expired).toMatchObject({
      status: 410,
      body: { code: 'approval-expired', expiresAt: late.expiresAt },
    });
    expect(await api.events(late.runId)).toHaveLength(4);
    expect((await api.send('GET', late.approval, { as: dana })).body.status).toBe('expired');
    api.clock.stopAt(undefined);
  });

  it('P30: an assistant cannot decide; whoever asked may withdraw, which is no denial', async () => {
    const waiting = await waitingRun(api);
    for (const decision of ['grant', 'deny'])
      expect(codeOf(await decide(waiting, worker, { decision }))).toEqual([403, 'not-permitted']);
    const withdraw = (as: Caller, body: object) =>
      api.send('POST', `${waiting.approval}/withdraw`, { as, body });
    expect(codeOf(await withdraw(otherWorker, { reason: 'x' }))).toEqual([403, 'not-permitted']);
    expect(codeOf(await withdraw(worker, {}))).toEqual([400, 'invalid-body']);
    expect((await withdraw(worker, { reason: 'a photo is missing' })).body).toMatchObject({
      status: 'withdrawn',
    });
    expect((await api.events(waiting.runId)).at(-1)?.type).toBe('ApprovalWithdrawn');
    expect(codeOf(await decide(waiting, dana, { decision: 'grant' }))).toEqual([409, 'approval-withdrawn']);
  });

  it('is not for the customer, nor for whoever acts for them, nor for another digest', async () => {
    const waiting = await waitingRun(api);
    const grant = { decision: 'grant' };
    expect(codeOf(await decide(waiting, customer, grant))).toEqual([403, 'not-permitted']);
    expect(codeOf(await decide(waiting, { ...dana, customerId: erin }, grant))).toEqual([403, 'four-eyes']);
    expect(codeOf(await decide(waiting, { ...dana, actFor: ['worker-1'] }, grant))).toEqual([
      403,
      'four-eyes',
    ]);
    expect(codeOf(await decide(waiting, dana, { ...grant, digest: '0'.repeat(64) }))).toEqual([
      409,
      'digest-mismatch',
    ]);
    for (const as of [stranger, elsewhere, operator])
      expect(codeOf(await decide(waiting, as, grant))).toEqual([404, 'not-found']);
    const unknown = { ...waiting, approval: waiting.approval.replace(/1$/, '7') };
    expect(codeOf(await decide(unknown, dana, grant))).toEqual([404, 'not-found']);
    expect(await decisionsOf(waiting)).toEqual([]);
  });
});
