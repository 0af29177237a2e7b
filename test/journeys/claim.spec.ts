import { randomUUID } from 'node:crypto';
import { type Answered, type Caller, Installation, type Server, StreamReader } from '#test/support';
import { claimIdOf } from '#libs/domain/losses';

/** Real processes take their time on a busy machine. */
jest.setTimeout(60_000);

const TENANT = 'acme';
const workflow = { name: 'motor-loss', version: '1' };
const notice = {
  policyNumber: 'HH-2041-77',
  lossDate: '2026-03-14',
  lossType: 'auto-collision',
  description: 'Hit the garden fence in fog.',
  estimatedAmount: { amount: '1840.00', currency: 'USD' },
};
const step = {
  stepId: 's1',
  name: 'Read the notice',
  kind: 'tool',
  status: 'completed',
  output: { pages: 2 },
};

/** A worker that holds the lease of a run of its own. */
interface Working {
  runId: string;
  stream: string;
  work: (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answered>;
}

describe('the journey of a claim', () => {
  let installation: Installation;
  let server: Server;
  let streams: StreamReader;
  beforeAll(async () => {
    installation = await Installation.create();
    server = await installation.start();
    await server.registerStaff();
    streams = new StreamReader(server.eventStoreUrl);
  });
  afterAll(async () => {
    await streams.close();
    await installation.remove();
  });

  async function restart(): Promise<void> {
    await streams.close();
    server = await installation.start(server.ports);
    streams = new StreamReader(server.eventStoreUrl);
  }

  async function begin(customerId = randomUUID()): Promise<Working> {
    const assistant = await server.as('assistant', { sub: 'worker-1' });
    const runId = randomUUID();
    expect(await assistant('POST', '/v1/runs', { runId, workflow, customerId })).toMatchObject({
      status: 201,
    });
    return { runId, stream: `run-${TENANT}.${runId}`, work: await worker(assistant, runId, 'worker-1') };
  }

  async function worker(
    as: Caller,
    runId: string,
    workerId: string,
    more: object = {},
  ): Promise<Working['work']> {
    const { status, body } = await as('POST', `/v1/runs/${runId}/resume`, { workerId, ...more });
    expect({ status, body }).toMatchObject({ status: 200 });
    const lease = { 'waymark-lease': String(body.leaseToken) };
    return (method, path, content, headers) =>
      as(method, `/v1/runs/${runId}/${path}`, content, { ...lease, ...headers });
  }

  async function ask({ work }: Working): Promise<{ approvalId: string; digest: string }> {
    const draft = await work('PUT', 'drafts/main', { kind: 'claim', content: notice });
    expect(draft).toMatchObject({ status: 200, body: { draftVersion: 1 } });
    const asked = await work('POST', 'approvals', {
      draftId: 'main',
      draftVersion: 1,
      summary: 'A collision, 1840.00 USD',
      basedOn: [],
      expiresInSeconds: 3600,
    });
    expect(asked).toMatchObject({ status: 201, body: { digest: draft.body.digest } });
    return { approvalId: String(asked.body.approvalId), digest: String(draft.body.digest) };
  }

  async function decide(approvalId: string, decision: 'grant' | 'deny', digest: string): Promise<Answered> {
    const dana = await server.as('adjuster', { sub: 'dana' });
    return dana('POST', `/v1/approvals/${approvalId}/decision`, { decision, digest });
  }

  it('survives the death of every process, moves to another worker, and ends in one claim with a receipt', async () => {
    const customer = randomUUID();
    const first = await begin(customer);
    expect(await first.work('POST', 'phase', { phase: 'drafting' })).toMatchObject({ status: 200 });
    expect(await first.work('POST', 'steps', step)).toMatchObject({ status: 200 });
    const { approvalId, digest } = await ask(first);

    await server.kill();
    await restart();

    const eve = await server.as('assistant', { sub: 'worker-2' });
    const held = await eve('POST', `/v1/runs/${first.runId}/resume`, { workerId: 'worker-2' });
    expect(held).toMatchObject({ status: 409, body: { code: 'lease-held' } });
    const supervisor = await server.as('supervisor', { sub: 'sam' });
    const second = await worker(supervisor, first.runId, 'worker-2', { takeOver: true });

    const before = await streams.types(first.stream);
    const late = await first.work('POST', 'phase', { phase: 'too-late' });
    expect(late).toMatchObject({ status: 409, body: { code: 'stale-lease' } });
    expect(await streams.types(first.stream)).toEqual(before);
    expect(before).toEqual([
      'RunStarted',
      'LeaseTaken',
      'PhaseEntered',
      'StepCompleted',
      'DraftSaved',
      'ApprovalRequested',
      'LeaseTaken',
    ]);

    expect(await decide(approvalId, 'grant', digest)).toMatchObject({
      status: 200,
      body: { status: 'granted' },
    });
    const noted = await streams.until(first.stream, 'ReceiptNoted');
    const claimId = claimIdOf(TENANT, first.runId, 'main');
    expect(noted.data).toMatchObject({ approvalId, claimId });

    const mara = await server.as('customer', { sub: 'mara', customer });
    const receipt = await mara('GET', `/v1/claims/${claimId}/receipt`);
    expect(receipt).toMatchObject({
      status: 200,
      body: { claimId, receiptNumber: noted.data.receiptNumber, policyNumber: notice.policyNumber },
    });
    const dana = await server.as('adjuster', { sub: 'dana' });
    expect(await dana('GET', `/v1/claims/${claimId}/provenance`)).toMatchObject({
      status: 200,
      body: { runId: first.runId, approvalId, digest, decidedBy: ['dana'], draft: { digest, matches: true } },
    });
    expect(await streams.types(`claim-${TENANT}.${claimId}`)).toEqual(['ClaimFiled']);
    expect(await second('POST', 'complete', { reason: 'filed' })).toMatchObject({ status: 200 });
  });

  it('ends without a claim when the approval is denied', async () => {
    const run = await begin();
    const { approvalId, digest } = await ask(run);
    expect(await decide(approvalId, 'deny', digest)).toMatchObject({
      status: 200,
      body: { status: 'denied' },
    });
    expect(await decide(approvalId, 'grant', digest)).toMatchObject({
      status: 409,
      body: { code: 'already-decided' },
    });
    expect(await run.work('POST', 'complete', {})).toMatchObject({ status: 200 });
    const dana = await server.as('adjuster', { sub: 'dana' });
    const claimId = claimIdOf(TENANT, run.runId, 'main');
    expect(await dana('GET', `/v1/claims/${claimId}`)).toMatchObject({
      status: 404,
      body: { code: 'not-found' },
    });
    expect(await streams.read(`claim-${TENANT}.${claimId}`)).toEqual([]);
  });

  it('P70: fifty first writes of one run at once make one run', async () => {
    const assistant = await server.as('assistant');
    const body = { runId: randomUUID(), workflow, customerId: randomUUID() };
    const answers = await Promise.all(Array.from({ length: 50 }, () => assistant('POST', '/v1/runs', body)));
    expect(answers.map(({ status }) => status).sort()).toEqual([...Array<number>(49).fill(200), 201]);
    expect(new Set(answers.map((answer) => answer.body.revision))).toEqual(new Set(['0']));
    expect(await streams.types(`run-${TENANT}.${body.runId}`)).toEqual(['RunStarted']);
    const position = String(answers[0]?.body.position);
    const list = await assistant('GET', `/v1/runs?customerId=${body.customerId}`, undefined, {
      'waymark-min-position': position,
    });
    expect(list).toMatchObject({ status: 200, body: { items: [{ runId: body.runId, revision: '0' }] } });
  });

  it('P39: a command repeated after 10,000 other events and a restart has one effect and the same answer', async () => {
    const run = await begin();
    const key = { 'idempotency-key': randomUUID() };
    const first = await run.work('POST', 'steps', step, key);
    expect(first).toMatchObject({ status: 200 });
    await streams.fill('unrelated', 10_000);
    await server.kill();
    await restart();
    const again = await run.work('POST', 'steps', step, key);
    expect({ status: again.status, body: again.body }).toEqual({ status: 200, body: first.body });
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(await streams.types(run.stream)).toEqual(['RunStarted', 'LeaseTaken', 'StepCompleted']);
  });
});
