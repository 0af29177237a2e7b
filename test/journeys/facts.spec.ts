import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ReactorModule, Reactions } from '#apps/reactor';
import { type RunningPolicyRegister, startPolicyRegister } from '#libs/embedded/policy-register';
import {
  customer,
  dana,
  erin,
  heldRun,
  notice,
  otherWorker,
  registerStaff,
  RunningApi,
  sam,
  worker,
} from '#test/api';

const PATIENCE = 8_000;
const DAY = '2026-01-05';
let folder: string;
let register: RunningPolicyRegister;
let api: RunningApi;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waymark-policies-'));
  register = await startPolicyRegister({ folder, port: 0 });
  api = await RunningApi.start({ WAYMARK_POLICIES_URL: register.url }, [ReactorModule]);
  await registerStaff(api);
});
afterAll(async () => {
  await api.close();
  await register.close();
  await rm(folder, { recursive: true });
});

const insure = (policyNumber: string, until?: string) =>
  fetch(`${register.url}/v1/acme/policies/${policyNumber}`, {
    method: 'PUT',
    body: JSON.stringify({ from: '2025-01-01', until }),
  });
const codeOf = ({ status, body }: { status: number; body: Record<string, unknown> }) => [status, body.code];
const fact = (name: string, value: unknown, kind: string, ref: string, more: object = {}) => ({
  name,
  value,
  source: { kind, ref },
  recheck: 'both',
  ...more,
});
const policyFact = (policyNumber: string) =>
  fact('policy-in-force', { status: 'in-force' }, 'policy', `${policyNumber}@${DAY}`);
const duplicates = (policyNumber: string) => fact('duplicates', 0, 'claims', `${policyNumber}@${DAY}`);

/** A run whose approval, based on facts about its policy, waits for a decision. */
async function asked(policyNumber: string, facts: { name: string }[]) {
  const run = await heldRun(api);
  const headers = run.lease;
  const send = (method: string, path: string, body: object) =>
    api.send(method, `${run.path}${path}`, { as: worker, headers, body });
  const recorded = await send('POST', '/facts', { facts });
  await send('PUT', '/drafts/main', { kind: 'claim', content: { ...notice, policyNumber, lossDate: DAY } });
  const basedOn = facts.map(({ name }) => name);
  const body = { draftId: 'main', draftVersion: 1, summary: 'A loss', basedOn, expiresInSeconds: 3600 };
  const { body: approval } = await send('POST', '/approvals', body);
  const address = `/v1/approvals/${String(approval.approvalId)}`;
  const grant = () =>
    api.send('POST', `${address}/decision`, {
      as: dana,
      body: { decision: 'grant', digest: approval.digest },
    });
  return { ...run, send, recorded, address, grant };
}
const read = async (path: string) => (await api.send('GET', path, { as: worker })).body;
const resume = (path: string, as = sam) =>
  api.send('POST', `${path}/resume`, { as, body: { workerId: as.sub, takeOver: as === sam } });

async function reacted(position: unknown): Promise<void> {
  const through = BigInt(String(position));
  expect(await api.app.get(Reactions).waitFor('file-approved-claim', through, PATIENCE)).toBe(true);
}
const typesOf = async (runId: string) => (await api.events(runId)).map(({ type }) => type);

describe('facts', () => {
  it('that hold are looked up at resume and at execution, and the claim names them', async () => {
    await insure('F-1');
    const stated = fact('no-injuries', 'nobody was hurt', 'statement', 'message-3', { maxAgeSeconds: 3600 });
    const run = await asked('F-1', [policyFact('F-1'), duplicates('F-1'), stated]);
    const names = ['policy-in-force', 'duplicates', 'no-injuries'];
    expect(run.recorded).toMatchObject({ status: 200, body: { facts: names } });
    const resumed = await resume(run.path);
    expect(resumed.body).toMatchObject({ recheck: { unchanged: names, changed: [], unavailable: [] } });
    expect((await typesOf(run.runId)).slice(-2)).toEqual(['FactsRechecked', 'LeaseTaken']);
    const shown = await read(run.address);
    expect(shown.facts).toMatchObject([
      { name: 'policy-in-force', revision: '2' },
      { name: 'duplicates' },
      {},
    ]);
    const { body } = await run.grant();
    await reacted(body.position);
    expect((await typesOf(run.runId)).slice(-3)).toEqual(['FactsRechecked', 'FilingStarted', 'ReceiptNoted']);
    const approvals = (await read(run.path)).approvals as { claimId: string }[];
    const provenance = await api.send('GET', `/v1/claims/${approvals[0]?.claimId}/provenance`, { as: dana });
    expect(provenance.body.facts).toEqual(names);

    const second = await asked('F-1', [duplicates('F-1')]);
    const found = (await resume(second.path)).body.recheck;
    expect(found).toEqual({
      unchanged: [],
      changed: [{ name: 'duplicates', was: 0, now: 1 }],
      unavailable: [],
    });
  });

  it('P23: one that changed by the resume invalidates the approval, and a worker must ask again', async () => {
    await insure('F-2');
    const run = await asked('F-2', [policyFact('F-2')]);
    await insure('F-2', '2026-01-01');
    const headers = { 'idempotency-key': 'again' };
    const body = { workerId: 'sam', takeOver: true };
    const resumed = await api.send('POST', `${run.path}/resume`, { as: sam, headers, body });
    const change = { name: 'policy-in-force', was: { status: 'in-force' }, now: { status: 'lapsed' } };
    expect(resumed.body).toMatchObject({
      run: { status: 'needs-attention' },
      recheck: { changed: [change] },
    });
    const again = await api.send('POST', `${run.path}/resume`, { as: sam, headers, body });
    expect(again.body).toEqual(resumed.body);
    const refused = await run.grant();
    expect(codeOf(refused)).toEqual([409, 'approval-invalidated']);
    expect(refused.body.cause).toEqual({ kind: 'facts-changed', facts: [change] });
    const listed = await api.send('GET', '/v1/runs?status=needs-attention', {
      as: worker,
      headers: { 'waymark-min-position': String(resumed.body.position) },
    });
    expect((listed.body.items as { runId: string }[]).map(({ runId }) => runId)).toContain(run.runId);
    const lease = { 'waymark-lease': String(resumed.body.leaseToken) };
    const asking = {
      draftId: 'main',
      draftVersion: 1,
      summary: 'Lapsed',
      basedOn: ['policy-in-force'],
      expiresInSeconds: 60,
    };
    const fresh = await api.send('POST', `${run.path}/approvals`, { as: sam, headers: lease, body: asking });
    expect(fresh.status).toBe(201);
    expect((await read(run.path)).status).toBe('waiting');
    const types = (await typesOf(run.runId)).slice(-4);
    expect(types).toEqual(['FactsRechecked', 'ApprovalInvalidated', 'LeaseTaken', 'ApprovalRequested']);
    const stored = (await api.events(run.runId)).map(({ data }) => data);
    expect(JSON.stringify(stored)).not.toContain('"lapsed"');
  });

  it('one that changed by the execution invalidates the grant, and nothing is filed', async () => {
    await insure('F-3');
    const run = await asked('F-3', [policyFact('F-3')]);
    await insure('F-3', '2026-01-01');
    const { body } = await run.grant();
    await reacted(body.position);
    expect((await typesOf(run.runId)).slice(-3)).toEqual([
      'ApprovalGranted',
      'FactsRechecked',
      'ApprovalInvalidated',
    ]);
    expect(await read(run.path)).toMatchObject({
      status: 'needs-attention',
      approvals: [{ status: 'invalidated' }],
    });
    const timeline = (await read(`${run.path}/timeline`)).items as { text: string }[];
    expect(timeline.slice(-2).map(({ text }) => text)).toEqual([
      'Facts were looked up again to execute the approval: changed policy-in-force.',
      'The approval became invalid: policy-in-force changed.',
    ]);
  });

  it('that cannot be looked up leave the lease untaken and the grant unexecuted, until they can', async () => {
    await insure('F-4');
    const run = await asked('F-4', [policyFact('F-4')]);
    const { port } = register;
    await register.close();
    const before = await typesOf(run.runId);
    const refused = await resume(run.path);
    expect(codeOf(refused)).toEqual([503, 'facts-unavailable']);
    expect([refused.body.facts, refused.headers['retry-after']]).toEqual([['policy-in-force'], '1']);
    expect(await typesOf(run.runId)).toEqual(before);
    expect((await run.send('POST', '/phase', { phase: 'waiting' })).status).toBe(200);
    const { body } = await run.grant();
    expect((await read(run.path)).status).toBe('approved');
    register = await startPolicyRegister({ folder, port });
    await reacted(body.position);
    expect((await read(run.path)).approvals).toMatchObject([{ status: 'filed' }]);
  });

  it('from the customer’s preferences are known while their view is down, and change with them', async () => {
    const run = await heldRun(api);
    const put = (value: string) =>
      api.send('PUT', `/v1/profiles/${erin}/preferences/contact.channel`, { as: customer, body: { value } });
    await put('sms');
    const wish = fact('channel', 'sms', 'profile', 'contact.channel');
    const recorded = await api.send('POST', `${run.path}/facts`, {
      as: worker,
      headers: run.lease,
      body: { facts: [wish] },
    });
    expect(recorded.status).toBe(200);
    await put('post');
    const { body } = await resume(run.path);
    expect(body.recheck).toMatchObject({ changed: [{ name: 'channel', was: 'sms', now: 'post' }] });
  });

  it.each([
    ['a policy without a number', { ...policyFact('F'), source: { kind: 'policy' } }, 'facts.0.source.ref'],
    ['a preference that is none', fact('wish', 1, 'profile', 'colour'), 'facts.0.source.ref'],
    ['a source that is none', fact('wish', 1, 'hearsay', 'x'), 'facts.0.source.kind'],
    ['a name that is text', fact('Ana was hurt', 1, 'statement', 'x'), 'facts.0.name'],
  ])('%s is refused, and nothing is stored', async (_name, wrong, field) => {
    const run = await heldRun(api, otherWorker);
    const answer = await api.send('POST', `${run.path}/facts`, {
      as: otherWorker,
      headers: run.lease,
      body: { facts: [wrong] },
    });
    expect(codeOf(answer)).toEqual([400, 'invalid-body']);
    expect((answer.body.errors as { field: string }[]).map((error) => error.field)).toEqual([field]);
    expect(await typesOf(run.runId)).toEqual(['RunStarted', 'LeaseTaken']);
  });
});
