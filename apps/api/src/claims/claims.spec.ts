import { randomUUID } from 'node:crypto';
import {
  type Caller,
  customer,
  dana,
  elsewhere,
  erin,
  notice,
  operator,
  registerStaff,
  RunningApi,
  sam,
  stranger,
  waitingRun,
  worker,
} from '#test/api';
import { claimStream, receiptNumberOf } from '#libs/domain/claims';
import { claimIdOf, type SaltedNotice } from '#libs/domain/losses';
import { runStream } from '#libs/domain/runs';
import { EventStore } from '#libs/event-store';

let api: RunningApi;
beforeAll(async () => {
  api = await RunningApi.start();
  await registerStaff(api);
});
afterAll(() => api.close());

const usd = (amount: string) => ({ amount, currency: 'USD' });
const codeOf = ({ status, body }: { status: number; body: Record<string, unknown> }) => [status, body.code];

describe('claims', () => {
  /** Files a claim as the reaction does, from the draft of a run. */
  async function filedClaim() {
    const { runId, approvalId } = await waitingRun(api);
    const store = api.app.get(EventStore);
    const run = await store.fold(runStream, 'acme', runId);
    const { content, digest = '' } = run?.state.drafts.get('main') ?? {};
    const claimId = claimIdOf('acme', runId, 'main');
    const origin = { runId, originRunId: runId, draftId: 'main', draftVersion: 1, approvalId, digest };
    const at = new Date().toISOString();
    const filed = await store.handle(claimStream, {
      tenant: 'acme',
      id: claimId,
      creates: true,
      context: {
        actor: { sub: 'waymark', roles: [], actFor: [] },
        commandId: randomUUID(),
        bodyDigest: digest,
        at,
      },
      command: {
        type: 'FileClaim',
        tenant: 'acme',
        claimId,
        customerId: erin,
        origin: { ...origin, facts: [], decidedBy: ['dana'], runRevision: '5' },
        content: content as SaltedNotice,
        approvedDigest: digest,
        receiptSeed: 'a seed',
        at,
      },
      answer: () => null,
    });
    const headers = { 'waymark-min-position': filed.position.toString() };
    return { claimId, runId, approvalId, digest, at, path: `/v1/claims/${claimId}`, headers };
  }

  it('show the record, its receipt, and the way back', async () => {
    const { claimId, runId, approvalId, digest, at, path, headers } = await filedClaim();
    const read = await api.send('GET', path, { as: customer, headers });
    const receipt = { receiptNumber: receiptNumberOf('a seed'), claimId, filedAt: at, policyNumber: 'P-100' };
    expect(read.body).toMatchObject({
      claimId,
      customerId: erin,
      status: 'filed',
      notice,
      receipt,
      revision: '0',
    });
    expect((await api.send('GET', `${path}/receipt`, { as: customer })).body).toEqual(receipt);
    const provenance = await api.send('GET', `${path}/provenance`, { as: dana });
    expect(provenance.body).toMatchObject({
      runId,
      approvalId,
      digest,
      facts: [],
      decidedBy: ['dana'],
      revisions: { run: '5', claim: '0' },
      draft: { digest, matches: true },
    });
    expect(codeOf(await api.send('GET', `${path}/provenance`, { as: customer }))).toEqual([
      403,
      'not-permitted',
    ]);
    for (const as of [worker, stranger, operator, elsewhere])
      for (const route of ['', '/receipt', '/provenance'])
        expect(codeOf(await api.send('GET', `${path}${route}`, { as }))).toEqual([404, 'not-found']);
  });

  it('are listed for staff by policy number, and for customers their own', async () => {
    const { claimId, headers } = await filedClaim();
    const list = async (as: Caller, query = '') => {
      const answer = await api.send('GET', `/v1/claims?limit=200${query}`, { as, headers });
      return (answer.body.items as { claimId: string }[]).map((item) => item.claimId);
    };
    expect(await list(dana, '&policyNumber=P-100&status=filed')).toContain(claimId);
    expect(await list(dana, '&policyNumber=P-101')).toEqual([]);
    expect(await list(customer)).toContain(claimId);
    expect(await list(stranger)).toEqual([]);
    expect(codeOf(await api.send('GET', '/v1/claims', { as: worker }))).toEqual([403, 'not-permitted']);
  });

  const step = (path: string, verb: string, as: Caller, body?: object) =>
    api.send('POST', `${path}/${verb}`, { as, body });

  it('go from filed to settled, and back, by the staff in the register', async () => {
    const { path, claimId } = await filedClaim();
    const reason = { reason: 'An invoice came.' };
    expect(await step(path, 'settle', dana, { amount: usd('400.00'), payee: 'Erin' })).toMatchObject({
      status: 409,
      body: { code: 'claim-state', status: 'filed', allowed: ['assessed'] },
    });
    expect(await step(path, 'acknowledge', dana)).toMatchObject({
      status: 200,
      body: { claimId, status: 'acknowledged', revision: '1' },
    });
    expect(
      (await step(path, 'assess', dana, { amount: usd('400.00'), findings: 'One stone.' })).body,
    ).toMatchObject({
      status: 'assessed',
    });
    expect((await step(path, 'settle', dana, { amount: usd('400.00'), payee: 'Erin' })).body).toMatchObject({
      status: 'settled',
      remaining: 0,
    });
    const mine = await api.send('GET', path, { as: customer });
    expect(mine.body).toMatchObject({ status: 'settled', settlements: [{ amount: usd('400.00') }] });
    expect(mine.text).not.toContain('One stone.');
    expect((await api.send('GET', path, { as: dana })).text).toContain('One stone.');
    const reopened = await step(path, 'reopen', sam, reason);
    expect(reopened.body).toMatchObject({ status: 'reopened', revision: '4' });
    const min = { 'waymark-min-position': String(reopened.body.position) };
    const listed = async (status: string) => {
      const list = await api.send('GET', `/v1/claims?limit=200&status=${status}`, { as: dana, headers: min });
      return (list.body.items as { claimId: string }[]).map((item) => item.claimId);
    };
    expect([await listed('reopened'), await listed('filed')]).toEqual([
      [claimId],
      expect.not.arrayContaining([claimId]),
    ]);
    expect((await step(path, 'reject', dana, reason)).body).toMatchObject({ status: 'rejected' });
    expect(codeOf(await step(path, 'withdraw', dana, reason))).toEqual([409, 'claim-state']);
    expect(codeOf(await step(path, 'reopen', dana, {}))).toEqual([400, 'invalid-body']);
  });

  it('are settled above the two-person limit or one’s authority by two, at once by one of those who come second', async () => {
    const { path } = await filedClaim();
    await step(path, 'acknowledge', dana);
    await step(path, 'assess', dana);
    const body = { amount: usd('60000.00'), payee: 'Erin' };
    expect((await step(path, 'settle', dana, body)).body).toMatchObject({ status: 'assessed', remaining: 1 });
    expect((await step(path, 'settle', dana, body)).body).toMatchObject({ revision: '3', remaining: 1 });
    const second = await Promise.all([step(path, 'settle', sam, body), step(path, 'settle', sam, body)]);
    expect(second.map(codeOf).sort()).toEqual([
      [200, undefined],
      [409, 'claim-state'],
    ]);
    expect((await api.send('GET', path, { as: sam })).body).toMatchObject({
      status: 'settled',
      settlements: [{ by: [{ sub: 'dana' }, { sub: 'sam' }] }],
    });
  });

  it('are moved by nobody else, who sees no more than that they may not', async () => {
    const { path } = await filedClaim();
    const unregistered: Caller = { sub: 'nobody', role: 'supervisor' };
    for (const verb of ['acknowledge', 'assess', 'settle', 'reject', 'withdraw', 'reopen']) {
      const body = { settle: { amount: usd('1.00'), payee: 'x' } }[verb] ??
        { acknowledge: {}, assess: {} }[verb] ?? { reason: 'x' };
      for (const as of [customer, unregistered])
        expect([verb, ...codeOf(await step(path, verb, as, body))]).toEqual([verb, 403, 'not-permitted']);
      for (const as of [worker, stranger, operator, elsewhere])
        expect([verb, ...codeOf(await step(path, verb, as, body))]).toEqual([verb, 404, 'not-found']);
    }
    const own = { ...dana, customerId: erin };
    expect(codeOf(await step(path, 'acknowledge', own))).toEqual([403, 'four-eyes']);
  });
});
