import { type Caller, dana, operator, RunningApi, sam, worker } from '#test/api';

let api: RunningApi;
beforeAll(async () => {
  api = await RunningApi.start();
});
afterAll(() => api.close());

const codeOf = ({ status, body }: { status: number; body: Record<string, unknown> }) => [status, body.code];
const in_ = (tenant: string, caller: Caller): Caller => ({ ...caller, tenant });
const adjuster = {
  roles: ['adjuster'],
  authorityLimit: { amount: '5000.00', currency: 'USD' },
  active: true,
};
const supervisor = { roles: ['supervisor'], active: true };
const put = (as: Caller, sub: string, body: object, headers = {}) =>
  api.send('PUT', `/v1/staff/${encodeURIComponent(sub)}`, { as, body, headers });

describe('the staff register', () => {
  it('takes a supervisor’s token until it has an active supervisor, and their registration from then on', async () => {
    const [first, other] = [in_('founding', sam), in_('founding', { ...sam, sub: 'alex' })];
    expect((await put(first, 'dana', adjuster)).status).toBe(200);
    expect((await put(other, 'sam', supervisor)).status).toBe(200);
    expect(codeOf(await put(other, 'dana', { ...adjuster, active: false }))).toEqual([403, 'not-permitted']);
    expect((await put(first, 'alex', supervisor)).status).toBe(200);
    expect((await put(other, 'sam', { ...supervisor, active: false })).status).toBe(200);
    expect(codeOf(await put(first, 'sam', supervisor))).toEqual([403, 'not-permitted']);
    const newcomer = in_('founding', { ...sam, sub: 'dana' });
    expect(codeOf(await put(newcomer, 'dana', supervisor))).toEqual([403, 'not-permitted']);
  });

  it('lets no supervisor raise their own rights, and another one raise them', async () => {
    const [first, other] = [in_('peers', sam), in_('peers', { ...sam, sub: 'alex' })];
    const limited = { ...supervisor, authorityLimit: adjuster.authorityLimit };
    expect((await put(first, 'sam', limited)).status).toBe(200);
    const raised = { ...limited, authorityLimit: { amount: '5000.01', currency: 'USD' } };
    for (const more of [supervisor, raised, { ...limited, roles: ['supervisor', 'operator'] }])
      expect(codeOf(await put(first, 'sam', more))).toEqual([403, 'not-permitted']);
    expect((await put(first, 'alex', supervisor)).status).toBe(200);
    expect((await put(other, 'sam', raised)).status).toBe(200);
    expect((await put(first, 'sam', { ...limited, active: false })).status).toBe(200);
  });

  it('is for supervisors alone', async () => {
    for (const as of [dana, worker, operator]) {
      expect(codeOf(await put(as, 'dana', adjuster))).toEqual([403, 'not-permitted']);
      expect(codeOf(await api.send('GET', '/v1/staff', { as }))).toEqual([403, 'not-permitted']);
    }
  });

  it('answers what it says, and says the same thing once', async () => {
    const as = in_('plain', sam);
    const key = { 'idempotency-key': 'dana' };
    const put1 = await put(as, 'dana', { ...adjuster, roles: ['operator', 'adjuster'] }, key);
    expect(put1).toMatchObject({
      status: 200,
      body: { sub: 'dana', roles: ['adjuster', 'operator'], revision: '0' },
    });
    const replayed = await put(as, 'dana', { ...adjuster, roles: ['operator', 'adjuster'] }, key);
    expect([replayed.body, replayed.headers['idempotency-replayed']]).toEqual([put1.body, 'true']);
    expect((await put(as, 'dana', { ...adjuster, roles: ['adjuster', 'operator'] })).body.revision).toBe('0');
    const changed = await put(as, 'dana', { ...adjuster, active: false }, { 'if-match': '"0"' });
    expect(changed.body).toMatchObject({ active: false, revision: '1' });
    expect(codeOf(await put(as, 'dana', adjuster, { 'if-match': '"0"' }))).toEqual([
      412,
      'revision-mismatch',
    ]);
    const odd = `A.b_c@d:e|f+g-${'h'.repeat(114)}`;
    const last = await put(as, odd, { roles: [], active: true });
    const headers = { 'waymark-min-position': String(last.body.position) };
    const list = await api.send('GET', '/v1/staff', { as, headers });
    expect(list.body.items).toMatchObject([
      { sub: odd, roles: [], active: true, registeredBy: 'sam', revision: '0' },
      { sub: 'dana', ...adjuster, active: false, registeredBy: 'sam', changedBy: 'sam', revision: '1' },
    ]);
    const page = await api.send('GET', '/v1/staff?limit=1', { as, headers });
    const next = await api.send('GET', `/v1/staff?cursor=${String(page.body.nextCursor)}`, { as, headers });
    expect((next.body.items as { sub: string }[]).map(({ sub }) => sub)).toEqual(['dana']);
    const elsewhere = await api.send('GET', '/v1/staff', { as: in_('nobody', sam), headers });
    expect(elsewhere.body.items).toEqual([]);
  });

  it.each([
    [{ ...adjuster, roles: ['customer'] }, 'roles.0'],
    [{ ...adjuster, roles: ['adjuster', 'chief'] }, 'roles.1'],
    [{ roles: [] }, 'active'],
    [{ ...adjuster, authorityLimit: { amount: '-1', currency: 'USD' } }, 'authorityLimit.amount'],
    [{ ...adjuster, authorityLimit: { amount: '1', currency: 'usd' } }, 'authorityLimit.currency'],
    [{ ...adjuster, sub: 'dana' }, 'sub'],
  ])('refuses %j, naming the field', async (body, field) => {
    const answer = await put(sam, 'dana', body);
    expect(codeOf(answer)).toEqual([400, 'invalid-body']);
    expect(answer.body.errors).toMatchObject([{ field }]);
  });

  it('refuses a subject that no token can carry', async () => {
    for (const sub of ['a b', 'a/b', 'é', 'x'.repeat(129)])
      expect(codeOf(await put(sam, sub, adjuster))).toEqual([400, 'invalid-parameter']);
  });

  it('with the document store down answers a registered supervisor, and nobody else', async () => {
    const as = in_('down', sam);
    expect((await put(as, 'sam', supervisor)).status).toBe(200);
    await api.engines.stopDocuments();
    expect((await put(as, 'dana', adjuster)).status).toBe(200);
    expect((await put(in_('fresh', sam), 'sam', supervisor)).status).toBe(503);
    expect((await api.send('GET', '/v1/staff', { as })).status).toBe(503);
  });
});
