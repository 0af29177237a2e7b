import { setTimeout as pause } from 'node:timers/promises';
import type { Answer, ApiClient, Request } from '../api-client.js';
import type { LossRow } from './rows.js';

/** The identities that take part. */
export interface Cast {
  assistant: ApiClient;
  adjuster: ApiClient;
  /** The second pair of eyes. */
  supervisor: ApiClient;
}

/** What became of a row. */
export interface Outcome {
  runId: string;
  approvalId: string;
  digest: string;
  /** Present for a granted approval once it was filed. */
  filed?: { claimId: string; receiptNumber: string };
}

/** A command that the server acknowledged, with the place it named. */
export type Acknowledged = (command: {
  stream: string;
  key: string;
  revision: string;
  position: string;
}) => void;

export const TENANT = 'losses';
export const DRAFT = 'claim';
const LEASE_SECONDS = 600;
const APPROVAL_SECONDS = 30 * 24 * 3600;
const FIRST_LOOK_MS = 20;
const MOST_LOOK_MS = 500;

/**
 * Takes a row from a reported loss to its end: claim and receipt when it is granted, no claim when it is denied
 * (where fraud is reported). Every command carries a key that derives from the run, so that a journey broken off
 * anywhere, here or in the server, is walked again with the same answers.
 */
export async function journey(row: LossRow, cast: Cast, acknowledged: Acknowledged): Promise<Outcome> {
  const { runId, notice } = row;
  const run = `/v1/runs/${runId}`;
  const send = async (by: ApiClient, method: string, path: string, name: string, request: Request) => {
    const key = `${runId}:${name}`;
    const answer = await by.call(method, path, { ...request, key });
    const { revision, position } = answer as { revision: string; position: string };
    acknowledged({ stream: `run-${TENANT}.${runId}`, key, revision, position });
    return answer;
  };

  const workflow = { name: 'motor-loss', version: '1' };
  await send(cast.assistant, 'POST', '/v1/runs', 'start', {
    body: { runId, workflow, customerId: row.customerId },
  });
  const resumed = await send(cast.assistant, 'POST', `${run}/resume`, 'resume', {
    body: { workerId: 'losses', leaseSeconds: LEASE_SECONDS },
  });
  const lease = text(resumed, 'leaseToken');
  const work = (method: string, path: string, name: string, body: unknown) =>
    send(cast.assistant, method, `${run}/${path}`, name, { body, lease });

  await work('POST', 'phase', 'phase-drafting', { phase: 'drafting' });
  await work('POST', 'steps', 'step-read-notice', {
    stepId: 'read-notice',
    name: 'Read the notice',
    kind: 'tool',
    status: 'completed',
    output: { line: row.line, lossType: notice.lossType, possibleDuplicate: row.duplicate },
  });
  const draft = await work('PUT', `drafts/${DRAFT}`, 'draft', { kind: 'claim', content: notice });
  const digest = text(draft, 'digest');
  const asked = await work('POST', 'approvals', 'approval', {
    draftId: DRAFT,
    draftVersion: draft.draftVersion,
    summary: `File the loss of ${notice.lossDate} under policy ${notice.policyNumber}`,
    basedOn: [],
    expiresInSeconds: APPROVAL_SECONDS,
  });
  const approvalId = text(asked, 'approvalId');
  const decision = row.fraudReported ? 'deny' : 'grant';
  const decide = (by: ApiClient, name: string) =>
    send(by, 'POST', `/v1/approvals/${approvalId}/decision`, name, { body: { decision, digest } });
  const { remaining } = await decide(cast.adjuster, 'decision');
  if (remaining === 1) await decide(cast.supervisor, 'second-decision');
  if (row.fraudReported) {
    await work('POST', 'complete', 'complete', { reason: 'denied' });
    return { runId, approvalId, digest };
  }
  const filed = await untilFiled(cast.assistant, runId, approvalId);
  await work('POST', 'complete', 'complete', { output: filed });
  return { runId, approvalId, digest, filed };
}

/** Looks at the run until the reaction has filed the claim; a run that went another way is an error. */
async function untilFiled(by: ApiClient, runId: string, approvalId: string) {
  for (let delay = FIRST_LOOK_MS; ; delay = Math.min(delay * 2, MOST_LOOK_MS)) {
    const run = await by.call('GET', `/v1/runs/${runId}`);
    const approvals = run.approvals as Answer[];
    const approval = approvals.find((each) => each.approvalId === approvalId);
    const status = String(approval?.status);
    if (approval && status === 'filed')
      return { claimId: text(approval, 'claimId'), receiptNumber: text(approval, 'receiptNumber') };
    if (status !== 'granted' && status !== 'filing')
      throw new Error(`run ${runId}: its granted approval is ${status}`);
    await pause(delay);
  }
}

function text(answer: Answer, field: string): string {
  const value = answer[field];
  if (typeof value !== 'string') throw new Error(`an answer has no ${field}: ${JSON.stringify(answer)}`);
  return value;
}
