import { randomUUID } from 'node:crypto';
import { type Caller, customer, dana, registerStaff, RunningApi, sam, waitingRun, worker } from '#test/api';

let api: RunningApi;
beforeAll(async () => {
  api = await RunningApi.start();
  await registerStaff(api);
  await register('pat', { roles: ['supervisor'], authorityLimit: usd('60000.00') });
});
afterAll(() => api.close());

const usd = (amount: string) => ({ amount, currency: 'USD' });
const pat: Caller = { sub: 'pat', role: 'supervisor' };
const alex: Caller = { sub: 'alex', role: 'adjuster' };
type Answer = Awaited<ReturnType<RunningApi['send']>>;
type Waiting = Awaited<ReturnType<typeof waitingRun>>;
const codeOf = ({ status, body }: Answer) => [status, body.code];
const waitingFor = (amount: string, expires = 3600) => waitingRun(api, worker, expires, amount);
const sign = ({ approval, digest }: Waiting, as: Caller, decision = 'grant') =>
  api.send('POST', `${approval}/decision`, { as, body: { decision, digest } });
const delegate = ({ approval }: Waiting, as: Caller, body: object) =>
  api.send('POST', `${approval}/delegate`, { as, body });

async function register(sub: string, entry: object): Promise<void> {
  const answer = await api.send('PUT', `/v1/staff/${sub}`, { as: sam, body: { active: true, ...entry } });
  expect(answer.status).toBe(200);
}

describe('authority', () => {
  it('J5: above the two-person limit two different people must sign, each within their authority', async () => {
    const waiting = await waitingFor('55000.00');
    const over = { status: 403, body: { code: 'over-authority', limit: usd('10000.00') } };
    expect(await sign(waiting, dana)).toMatchObject(over);
    expect(await sign(waiting, pat)).toMatchObject({
      status: 200,
      body: { status: 'endorsed', remaining: 1 },
    });
    expect(codeOf(await sign(waiting, pat))).toEqual([403, 'four-eyes']);
    expect((await api.send('GET', waiting.path, { as: worker })).body).toMatchObject({ status: 'waiting' });
    expect((await api.send('GET', waiting.approval, { as: dana })).body).toMatchObject({
      status: 'endorsed',
      decisions: [{ decision: 'grant', by: 'pat' }],
    });
    expect(await sign(waiting, sam)).toMatchObject({
      status: 200,
      body: { status: 'granted', remaining: 0 },
    });
    expect((await sign(waiting, pat)).body).toMatchObject({ status: 'granted', remaining: 0 });
    expect((await api.send('GET', waiting.approval, { as: dana })).body).toMatchObject({
      status: 'granted',
      decisions: [{ by: 'pat' }, { by: 'sam' }],
    });
    const { body } = await api.send('GET', `${waiting.path}/timeline?limit=200`, { as: dana });
    expect((body.items as { text: string }[]).map(({ text }) => text)).toEqual(
      expect.arrayContaining(['pat gave the first of two signatures for the approval.']),
    );
  });

  it('of two second signatures at once one counts', async () => {
    const waiting = await waitingFor('55000.00');
    await register('kim', { roles: ['supervisor'] });
    await sign(waiting, pat);
    const answers = await Promise.all([sam, { ...sam, sub: 'kim' }].map((as) => sign(waiting, as)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
    const types = (await api.events(waiting.runId)).map(({ type }) => type);
    expect(types.slice(-2)).toEqual(['ApprovalEndorsed', 'ApprovalGranted']);
  });

  it('is nobody’s whom the register does not know, or no longer, or in that role', async () => {
    const waiting = await waitingFor('100.00');
    expect(codeOf(await sign(waiting, alex))).toEqual([403, 'not-permitted']);
    await register('alex', { roles: ['adjuster'] });
    expect(await sign(waiting, alex)).toMatchObject({
      status: 403,
      body: { code: 'over-authority', limit: null },
    });
    await register('alex', { roles: ['adjuster'], authorityLimit: usd('100.00'), active: false });
    expect(codeOf(await sign(waiting, alex))).toEqual([403, 'not-permitted']);
    await register('alex', { roles: ['adjuster'], authorityLimit: usd('100.00') });
    expect(codeOf(await sign(waiting, { ...alex, role: 'supervisor' }))).toEqual([403, 'not-permitted']);
    expect((await sign(waiting, alex)).status).toBe(200);
  });

  it('can be delegated by a supervisor, to an end of its own', async () => {
    const waiting = await waitingFor('20000.00');
    expect(codeOf(await delegate(waiting, dana, { to: { sub: 'sam' } }))).toEqual([403, 'not-permitted']);
    expect(codeOf(await delegate(waiting, worker, { to: { sub: 'dana' } }))).toEqual([403, 'not-permitted']);
    expect(codeOf(await delegate(waiting, sam, { to: { sub: 'worker-1' } }))).toEqual([403, 'four-eyes']);
    expect(codeOf(await delegate(waiting, sam, { to: { sub: 'a b' } }))).toEqual([400, 'invalid-body']);
    expect(codeOf(await delegate(waiting, sam, { to: {}, reason: 'x' }))).toEqual([400, 'invalid-body']);
    const lent = await delegate(waiting, sam, { to: { sub: 'dana' }, expiresInSeconds: 600 });
    expect(lent).toMatchObject({ status: 200, body: { to: { sub: 'dana' } } });
    api.clock.stopAt(Date.parse(String(lent.body.endsAt)));
    expect(codeOf(await sign(waiting, dana))).toEqual([403, 'over-authority']);
    api.clock.stopAt(undefined);
    expect((await sign(waiting, dana)).body).toMatchObject({ status: 'granted' });
    expect((await api.send('GET', waiting.approval, { as: sam })).body).toMatchObject({
      decisions: [{ decision: 'grant', by: 'dana', delegatedBy: 'sam' }],
    });
  });
});

describe('the list of approvals', () => {
  const list = async (as: Caller, query: string, min: Answer) => {
    const headers = { 'waymark-min-position': String(min.headers['waymark-position'] ?? min.body.position) };
    const answer = await api.send('GET', `/v1/approvals?${query}`, { as, headers });
    expect(answer.status).toBe(200);
    const items = answer.body.items as { approvalId: string; status: string }[];
    return {
      items: items.map(({ approvalId, status }) => [approvalId, status]),
      next: answer.body.nextCursor as string | null,
    };
  };
  const seen = ({ path }: Waiting) => api.send('GET', path, { as: worker });

  it('holds what the caller may decide, by authority, signatures and delegation', async () => {
    const waiting = await waitingFor('55000.00');
    const only = (as: Caller, more = '') =>
      seen(waiting).then((at) => list(as, `runId=${waiting.runId}${more}`, at));
    const none = { items: [], next: null };
    expect(await only(dana)).toEqual(none);
    expect(await only({ ...alex, sub: 'stranger' })).toEqual(none);
    expect(await only(pat, '&role=adjuster')).toEqual(none);
    expect((await only(pat, '&role=supervisor')).items).toEqual([[waiting.approvalId, 'pending']]);
    await sign(waiting, pat);
    expect(await only(pat)).toEqual(none);
    expect((await only(sam, '&status=pending')).items).toEqual([[waiting.approvalId, 'endorsed']]);
    await delegate(waiting, sam, { to: { sub: 'dana' } });
    expect((await only(dana)).items).toEqual([[waiting.approvalId, 'endorsed']]);
  });

  it('leaves out what four eyes keep from the caller', async () => {
    await register('alex', { roles: ['adjuster'] });
    const expectKept = async (waiting: Waiting, as: Caller) => {
      expect((await list(as, `runId=${waiting.runId}`, await seen(waiting))).items).toEqual([]);
      expect(codeOf(await sign(waiting, as))).toEqual([403, 'four-eyes']);
    };
    const erins = await waitingRun(api, worker, 3600, '55000.00', { ...customer, actFor: ['sam'] });
    await expectKept(erins, sam);
    await expectKept(erins, { ...pat, actFor: [customer.sub] });
    expect((await list(pat, `runId=${erins.runId}`, await seen(erins))).items).toHaveLength(1);
    const [used, signed] = [await waitingFor('55000.00'), await waitingFor('55000.00')];
    for (const [waiting, to] of [
      [used, 'dana'],
      [used, 'alex'],
      [signed, 'alex'],
    ] as const)
      expect((await delegate(waiting, sam, { to: { sub: to } })).status).toBe(200);
    expect((await sign(used, dana)).status).toBe(200);
    await expectKept(used, alex);
    await expectKept(used, sam);
    expect((await sign(signed, sam)).status).toBe(200);
    await expectKept(signed, alex);
  });

  it('P26: holds what is approved and not executed, in time and too late, and the metric counts it', async () => {
    const [prompt, late] = [await waitingFor('1.00'), await waitingFor('2.00')];
    const metric = async (state: string) => {
      const { text } = await api.send('GET', '/metrics');
      return Number(
        new RegExp(`^waymark_approvals_not_executed\\{state="${state}"\\} (\\d+)$`, 'm').exec(text)?.[1],
      );
    };
    await sign(late, dana);
    const at = await sign(prompt, dana);
    const listed = async (status: string) => (await list(sam, `status=${status}&limit=200`, at)).items;
    expect(await listed('granted')).toEqual(expect.arrayContaining([[late.approvalId, 'granted']]));
    const [granted, lapsed] = [await metric('granted'), await metric('lapsed')];
    expect([granted > 1, lapsed]).toEqual([true, 0]);
    api.clock.stopAt(Date.now() + 86_400_000);
    expect(await listed('granted')).toEqual([]);
    expect(await listed('lapsed')).toEqual(
      expect.arrayContaining([
        [prompt.approvalId, 'lapsed'],
        [late.approvalId, 'lapsed'],
      ]),
    );
    expect((await seen(late)).body).toMatchObject({ status: 'needs-attention' });
    expect([await metric('granted'), await metric('lapsed')]).toEqual([0, granted]);
    api.clock.stopAt(undefined);
    const runs = await api.send('GET', '/v1/runs?status=approved&limit=200', { as: sam });
    expect((runs.body.items as { runId: string }[]).map(({ runId }) => runId)).toContain(prompt.runId);
  });

  it('has full pages, none of which shows an approval twice or leaves one out', async () => {
    const customerId = randomUUID();
    const whole: string[] = [];
    let last: Answer | undefined;
    for (let run = 0; run < 3; run++) {
      const as = worker;
      const started = await api.send('POST', '/v1/runs', {
        as,
        body: { workflow: { name: 'w', version: '1' }, customerId },
      });
      const path = `/v1/runs/${String(started.body.runId)}`;
      const resumed = await api.send('POST', `${path}/resume`, { as, body: { workerId: 'w' } });
      const headers = { 'waymark-lease': String(resumed.body.leaseToken) };
      for (const [index, amount] of ['1.00', '20000.00', '2.00'].entries()) {
        const content = {
          policyNumber: 'P',
          lossDate: '2026-01-05',
          lossType: 'glass',
          description: 'd',
          estimatedAmount: usd(amount),
        };
        const draftId = `d${index}`;
        await api.send('PUT', `${path}/drafts/${draftId}`, { as, headers, body: { kind: 'claim', content } });
        const asked = { draftId, draftVersion: 1, summary: 's', basedOn: [], expiresInSeconds: 3600 };
        last = await api.send('POST', `${path}/approvals`, { as, headers, body: asked });
        if (amount !== '20000.00') whole.push(String(last.body.approvalId));
      }
    }
    if (!last) throw new Error('nothing was asked');
    const found: string[] = [];
    let query = 'limit=2';
    for (;;) {
      const page = await list(dana, query, last);
      const mine = page.items
        .map(([approvalId]) => String(approvalId))
        .filter((each) => whole.includes(each));
      if (mine.length > 0 && found.length + mine.length < whole.length) expect(page.items).toHaveLength(2);
      found.push(...mine);
      if (page.next === null) break;
      query = `limit=2&cursor=${page.next}`;
    }
    expect(found).toHaveLength(whole.length);
    expect([...found].sort()).toEqual([...whole].sort());
    for (const cursor of ['x', Buffer.from('1.x').toString('base64url')])
      expect(codeOf(await api.send('GET', `/v1/approvals?cursor=${cursor}`, { as: dana }))).toEqual([
        400,
        'invalid-parameter',
      ]);
  });

  it('is not for customers, nor for assistants', async () => {
    for (const as of [customer, worker])
      expect(codeOf(await api.send('GET', '/v1/approvals', { as }))).toEqual([403, 'not-permitted']);
  });
});
