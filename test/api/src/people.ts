import { randomUUID } from 'node:crypto';
import type { Caller } from './caller.js';
import type { RunningApi } from './running-api.js';

export const erin = '11111111-1111-4111-8111-111111111111';
export const worker: Caller = { sub: 'worker-1', role: 'assistant' };
export const otherWorker: Caller = { sub: 'worker-2', role: 'assistant' };
export const dana: Caller = { sub: 'dana', role: 'adjuster' };
export const sam: Caller = { sub: 'sam', role: 'supervisor' };
export const customer: Caller = { sub: 'erin', role: 'customer', customerId: erin };
export const stranger: Caller = { sub: 'mallory', role: 'customer', customerId: randomUUID() };
export const operator: Caller = { sub: 'otto', role: 'operator' };
export const elsewhere: Caller = { sub: 'worker-1', role: 'assistant', tenant: 'globex' };

export const start = { workflow: { name: 'auto-claim', version: '1' }, customerId: erin };
export const notice = {
  policyNumber: 'P-100',
  lossDate: '2026-01-05',
  lossType: 'glass',
  description: 'A stone broke the windscreen.',
  estimatedAmount: { amount: '410.00', currency: 'USD' },
};

/** Registers Dana up to 10,000 USD, and Sam, a supervisor without a limit, as acme has them. */
export async function registerStaff(api: RunningApi): Promise<void> {
  const authorityLimit = { amount: '10000.00', currency: 'USD' };
  for (const [{ sub }, entry] of [
    [sam, {}],
    [dana, { authorityLimit }],
  ] as const) {
    const body = { roles: [sub === sam.sub ? 'supervisor' : 'adjuster'], active: true, ...entry };
    const answer = await api.send('PUT', `/v1/staff/${sub}`, { as: sam, body });
    if (answer.status !== 200) throw new Error(`${sub} is not registered: ${answer.text}`);
  }
}

/** A run that a worker holds the lease of. */
export interface HeldRun {
  readonly runId: string;
  readonly path: string;
  readonly lease: Record<string, string>;
}

export async function heldRun(
  api: RunningApi,
  as: Caller = worker,
  startedBy: Caller = as,
): Promise<HeldRun> {
  const { body } = await api.send('POST', '/v1/runs', { as: startedBy, body: start });
  const runId = String(body.runId);
  const path = `/v1/runs/${runId}`;
  const resumed = await api.send('POST', `${path}/resume`, { as, body: { workerId: as.sub } });
  return { runId, path, lease: { 'waymark-lease': String(resumed.body.leaseToken) } };
}

/** A run whose draft `main` waits for its approval. */
export async function waitingRun(
  api: RunningApi,
  as: Caller = worker,
  expiresInSeconds = 3600,
  amount = notice.estimatedAmount.amount,
  startedBy: Caller = as,
) {
  const run = await heldRun(api, as, startedBy);
  const headers = run.lease;
  const content = { ...notice, estimatedAmount: { amount, currency: 'USD' } };
  const draft = { kind: 'claim', content };
  await api.send('PUT', `${run.path}/drafts/main`, { as, headers, body: draft });
  const body = {
    draftId: 'main',
    draftVersion: 1,
    summary: 'A new windscreen',
    basedOn: [],
    expiresInSeconds,
  };
  const asked = await api.send('POST', `${run.path}/approvals`, { as, headers, body });
  const { approvalId, digest, expiresAt } = asked.body;
  const approval = `/v1/approvals/${String(approvalId)}`;
  return {
    ...run,
    approvalId: String(approvalId),
    digest: String(digest),
    expiresAt: String(expiresAt),
    approval,
  };
}
