import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { claimIdOf } from '#libs/domain/losses';
import { type Caller, Installation, later, type Server, StreamReader } from '#test/support';

/** Real processes take their time on a busy machine. */
jest.setTimeout(120_000);

const workflow = { name: 'motor-loss', version: '1' };
const notice = {
  policyNumber: 'HH-7',
  lossDate: '2026-03-14',
  lossType: 'glass',
  description: 'A stone hit the windscreen.',
  estimatedAmount: { amount: '420.00', currency: 'USD' },
};
const streamOf = (runId: string) => `run-acme.${runId}`;

describe('a server that is told to stop', () => {
  let installation: Installation;
  let server: Server;
  let waiting: Asked;
  beforeAll(async () => {
    installation = await Installation.create();
    server = await installation.start();
    await server.registerStaff();
    waiting = await ask(await server.as('assistant'));
  });
  afterAll(() => installation.remove());

  it('P86: finishes a two-second reaction and a one-second command, or does them once after the restart', async () => {
    const assistant = await server.as('assistant');
    const { runId, approvalId, digest } = await ask(assistant);
    const dana = await server.as('adjuster', { sub: 'dana' });
    const path = `/v1/runs/${waiting.runId}/phase`;
    const command = { ...waiting.lease, 'idempotency-key': randomUUID() };

    await dana('POST', `/v1/approvals/${approvalId}/decision`, { decision: 'grant', digest });
    const engines = server.child('engines');
    process.kill(engines, 'SIGSTOP');
    await pause(1_000);
    const underWay = assistant('POST', path, { phase: 'reviewing' }, command).catch(unanswered);
    const told = performance.now();
    const stopped = server.stop();
    await pause(1_000);
    process.kill(engines, 'SIGCONT');
    expect(await stopped).toBe(0);
    expect(performance.now() - told).toBeLessThan(15_000);
    expect([200, 503, undefined]).toContain((await underWay)?.status);

    server = await installation.start({ ...server.ports, ...later(61_000) });
    const again = await server.as('assistant');
    expect(await again('POST', path, { phase: 'reviewing' }, command)).toMatchObject({ status: 200 });
    const streams = new StreamReader(server.eventStoreUrl);
    await streams.until(streamOf(runId), 'ReceiptNoted');
    const once = (types: string[]) => expect(types).toEqual([...new Set(types)]);
    once(await streams.types(streamOf(runId)));
    once(await streams.types(streamOf(waiting.runId)));
    expect(await streams.types(`claim-acme.${claimIdOf('acme', runId, 'main')}`)).toEqual(['ClaimFiled']);
    await streams.close();
  });

  it('P21: a minute later an approval has expired, though nothing swept it up, and no claim comes of it', async () => {
    const { runId, approvalId, digest } = waiting;
    const streams = new StreamReader(server.eventStoreUrl);
    const before = await streams.types(streamOf(runId));
    const dana = await server.as('adjuster', { sub: 'dana' });
    const decision = await dana('POST', `/v1/approvals/${approvalId}/decision`, {
      decision: 'grant',
      digest,
    });
    expect(decision).toMatchObject({ status: 410, body: { code: 'approval-expired' } });
    expect(await streams.types(streamOf(runId))).toEqual(before);
    expect(await dana('GET', `/v1/runs/${runId}`)).toMatchObject({
      status: 200,
      body: { status: 'open', approvals: [{ approvalId, status: 'expired' }] },
    });
    expect(await dana('GET', `/v1/approvals?runId=${runId}`)).toMatchObject({
      status: 200,
      body: { items: [], nextCursor: null },
    });
    const claim = await dana('GET', `/v1/claims/${claimIdOf('acme', runId, 'main')}`);
    expect(claim).toMatchObject({ status: 404, body: { code: 'not-found' } });
    await streams.close();
  });
});

describe('a server that is told to stop in several ways at once', () => {
  it('P86: runs the hooks of its app and of its background once, whatever signals come', async () => {
    const another = await Installation.create();
    const child = spawn(process.execPath, [another.program, 'start'], {
      env: another.environment({ LOG_LEVEL: 'info' }),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const closed = once(child, 'close') as Promise<[number | null]>;
    const lines: string[] = [];
    for await (const line of createInterface(child.stdout)) {
      lines.push(line);
      if (!line.startsWith('Waymark is ready')) continue;
      for (const signal of ['SIGTERM', 'SIGINT', 'SIGTERM'] as const) child.kill(signal);
    }
    expect((await closed)[0]).toBe(0);
    expect(lines.filter((line) => line.includes('the stores are closed'))).toHaveLength(2);
    expect(lines.at(-1)).toBe('stopped');
    await another.remove();
  });
});

interface Asked {
  runId: string;
  lease: Record<string, string>;
  approvalId: string;
  digest: string;
}

/** A run with a draft and an approval that expires in a minute. */
async function ask(assistant: Caller): Promise<Asked> {
  const runId = randomUUID();
  const path = `/v1/runs/${runId}`;
  await assistant('POST', '/v1/runs', { runId, workflow, customerId: randomUUID() });
  const resumed = await assistant('POST', `${path}/resume`, { workerId: 'w' });
  const lease = { 'waymark-lease': String(resumed.body.leaseToken) };
  const draft = await assistant('PUT', `${path}/drafts/main`, { kind: 'claim', content: notice }, lease);
  const request = {
    draftId: 'main',
    draftVersion: 1,
    summary: 'Windscreen',
    basedOn: [],
    expiresInSeconds: 60,
  };
  const asked = await assistant('POST', `${path}/approvals`, request, lease);
  expect(asked).toMatchObject({ status: 201 });
  return { runId, lease, approvalId: String(asked.body.approvalId), digest: String(draft.body.digest) };
}

/** A connection that was cut before the answer came. */
function unanswered(error: Error): undefined {
  if (error.message !== 'fetch failed') throw error;
}
