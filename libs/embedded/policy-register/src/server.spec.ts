import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RunningPolicyRegister, startPolicyRegister } from './index.js';

let folder: string;
let register: RunningPolicyRegister;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waymark-policies-'));
  register = await startPolicyRegister({ folder, port: 0, today: () => '2026-03-02' });
});
afterAll(async () => {
  await register.close();
  await rm(folder, { recursive: true });
});

const policies = (number: string) => `${register.url}/v1/acme/policies/${number}`;
const get = async (address: string) => {
  const answer = await fetch(address);
  return [answer.status, await answer.json()] as const;
};
const put = async (address: string, body: unknown) => {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const answer = await fetch(address, { method: 'PUT', body: text });
  return [answer.status, await answer.json()] as const;
};

describe('the policy register', () => {
  it('knows policies that start, change and lapse', async () => {
    const policy = { from: '2026-03-01', until: '2027-03-01' };
    expect(await put(policies('P1'), policy)).toEqual([200, { policyNumber: 'P1', ...policy, version: 1 }]);
    const asked = async (on: string) =>
      ((await get(`${policies('P1')}?on=${on}`))[1] as { status: string }).status;
    expect(await asked('2026-02-28')).toBe('not-started');
    expect(await asked('2026-03-01')).toBe('in-force');
    expect(await asked('2027-02-28')).toBe('in-force');
    expect(await asked('2027-03-01')).toBe('lapsed');
    expect(await put(policies('P1'), policy)).toMatchObject([200, { version: 1 }]);
    const changed = { from: '2026-03-01', until: '2026-03-02', terms: { excess: 300 } };
    expect(await put(policies('P1'), changed)).toMatchObject([200, { version: 2 }]);
    expect(await get(policies('P1'))).toEqual([
      200,
      { policyNumber: 'P1', status: 'lapsed', ...changed, version: 2 },
    ]);
  });

  it('keeps tenants apart, and any number a policy may have', async () => {
    const odd = encodeURIComponent('P/1@é');
    expect(await put(policies(odd), { from: '2026-01-01' })).toMatchObject([200, { policyNumber: 'P/1@é' }]);
    expect((await get(policies(odd)))[0]).toBe(200);
    const elsewhere = `${register.url}/v1/globex/policies/${odd}`;
    expect(await get(elsewhere)).toMatchObject([404, { code: 'policy-unknown' }]);
  });

  it.each([
    ['a day that is none', { from: '2026-02-30' }],
    ['an end before its beginning', { from: '2026-02-02', until: '2026-02-01' }],
    ['a field unknown', { from: '2026-02-02', colour: 'red' }],
    ['no JSON', '{'],
  ])('refuses %s, and keeps nothing', async (_name, body) => {
    expect(await put(policies('none'), body)).toMatchObject([400, { code: 'invalid-body' }]);
    expect((await get(policies('none')))[0]).toBe(404);
  });

  it('answers what it cannot use', async () => {
    expect(await get(`${policies('P1')}?on=today`)).toMatchObject([400, { code: 'invalid-parameter' }]);
    expect(await get(policies('%E0%A4%A'))).toMatchObject([400, { code: 'invalid-parameter' }]);
    expect((await get(policies('x'.repeat(65))))[0]).toBe(400);
    expect((await get(`${register.url}/nowhere`))[0]).toBe(404);
    expect((await put(policies('P1'), 'x'.repeat(70_000)))[0]).toBe(413);
    expect((await fetch(policies('P1'), { method: 'DELETE' })).status).toBe(405);
  });

  it('has on disk what it answered', async () => {
    await put(policies('P2'), { from: '2026-01-01' });
    await register.close();
    register = await startPolicyRegister({ folder, port: 0, today: () => '2026-03-02' });
    expect(await get(policies('P2'))).toMatchObject([200, { status: 'in-force', version: 1 }]);
  });
});
