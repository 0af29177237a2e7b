import { randomUUID } from 'node:crypto';
import { digest, lease, people, salted, seconds, tenant } from '#libs/domain/examples';
import { type RunCommand, runStream } from '#libs/domain/runs';
import { RefusedCommand } from '#libs/event-store';
import { OWNER } from './counter.js';
import type { TestStores } from './stores.js';

const actor = { sub: 'test', roles: ['assistant'], actFor: [] };

/** Sends one command to a run, as the API would; `undefined` when the rule says no. */
export async function send(
  { log }: TestStores,
  runId: string,
  command: RunCommand,
): Promise<{ position: bigint; revision: bigint } | undefined> {
  const context = { actor, commandId: randomUUID(), bodyDigest: 'test', at: command.at };
  const creates = command.type === 'StartRun';
  try {
    const answer = () => undefined;
    return await log.handle(runStream, { tenant, id: runId, context, command, creates, answer });
  } catch (error) {
    if (error instanceof RefusedCommand) return undefined;
    throw error;
  }
}

export const startRun = (runId: string): RunCommand => ({
  type: 'StartRun',
  runId,
  workflow: { name: 'auto-claim-intake', version: '1' },
  customerId: OWNER,
  input: { channel: 'web' },
  customer: people.carol,
  at: seconds(0),
});

/** A run whose approval Dana granted at ten past nine, to be executed within a day. */
export async function grantedRun(
  stores: TestStores,
  runId: string,
): Promise<{ approvalId: string; position: bigint }> {
  const approvalId = `${runId}.1`;
  const { secretDigest, holder } = lease;
  const taken = { workerId: 'intake-1', holder, secretDigest, leaseSeconds: 60, takeOver: false };
  const asked = {
    summary: 'Rear-ended.',
    basedOn: [],
    requestedBy: people.assistant,
    expiresInSeconds: 3600,
  };
  const decided = { approvalId, decision: 'grant' as const, digest, decidedBy: people.dana };
  const commands: RunCommand[] = [
    startRun(runId),
    { type: 'TakeLease', ...taken, at: seconds(1) },
    { type: 'SaveDraft', draftId: 'collision', content: salted, lease, at: seconds(20) },
    { type: 'RequestApproval', draftId: 'collision', draftVersion: 1, ...asked, lease, at: seconds(30) },
    { type: 'DecideApproval', ...decided, at: seconds(600) },
  ];
  let position = 0n;
  for (const command of commands) {
    const handled = await send(stores, runId, command);
    if (!handled) throw new Error(`${command.type} is refused`);
    position = handled.position;
  }
  return { approvalId, position };
}
