import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Config } from '#apps/settings';
import type { LossNotice } from '#libs/domain/losses';
import { type Answer, ApiClient, nobodyAt, Refused, serverAddress, Unanswered } from './api-client.js';
import { type TokenRequest, tokenIssuer } from './token.js';

/** What Mara reports: she, her garden fence and her car are made up. */
const sampleLoss: LossNotice = {
  policyNumber: 'HH-2041-77',
  lossDate: '2026-03-14',
  lossType: 'auto-collision',
  lossLocation: { line: '12 Orchard Lane', city: 'Millbrook', region: 'NY' },
  description:
    'Backed out of the drive in fog and through the front of the bakery across the road; car and oven are lost.',
  estimatedAmount: { amount: '61840.00', currency: 'USD' },
  vehicles: [{ make: 'Volvo', model: 'V60', year: 2021 }],
  injuries: 0,
  policeReport: { available: false },
};

const TENANT = 'demo';
const PATIENCE_MS = 3_000;
const LOOK_MS = 100;

/** Tells one claim's journey against the running server, in words, with what was sent and what came back. */
export async function demo(say: (line: string) => void): Promise<number> {
  const url = serverAddress();
  const issue = await tokenIssuer(Config.from(process.env));
  const as = async (who: Omit<TokenRequest, 'tenant'>) =>
    new ApiClient(url, await issue({ ...who, tenant: TENANT }), PATIENCE_MS);
  const customer = randomUUID();
  const mara = await as({ role: ['customer'], sub: 'mara', customer });
  const morning = await as({ role: ['assistant'], sub: 'assistant-1' });
  const evening = await as({ role: ['assistant'], sub: 'assistant-2' });
  const dana = await as({ role: ['adjuster'], sub: 'dana' });
  const sam = await as({ role: ['supervisor'], sub: 'sam' });
  try {
    await tell({ say, customer, mara, morning, evening, dana, sam });
    return 0;
  } catch (error) {
    if (!(error instanceof Unanswered)) throw error;
    throw nobodyAt(url, error.message);
  }
}

interface Scene {
  say: (line: string) => void;
  customer: string;
  mara: ApiClient;
  morning: ApiClient;
  evening: ApiClient;
  dana: ApiClient;
  sam: ApiClient;
}

async function tell({ say, customer, mara, morning, evening, dana, sam }: Scene): Promise<void> {
  say('1. Mara has had an accident. Her app starts a run: the place where everything about it will be kept.');
  const workflow = { name: 'motor-loss', version: '1' };
  const run = await mara.call('POST', '/v1/runs', {
    body: { workflow, customerId: customer },
    key: randomUUID(),
  });
  const path = `/v1/runs/${String(run.runId)}`;
  say(`   POST /v1/runs -> run ${String(run.runId)}, at revision ${String(run.revision)} of its stream`);

  say('2. An assistant takes the run up. Its lease says that it, and nobody else, may now write to the run.');
  const lease = await leaseOf(morning, path, 'morning-shift');
  say('   It notes a step that is done. Sent twice, as after a lost answer, it is recorded once.');
  const step = {
    stepId: 'read-notice',
    name: 'Read the notice',
    kind: 'tool',
    status: 'completed',
    output: 'ok',
  };
  const first = await morning.call('POST', `${path}/steps`, { body: step, lease });
  const again = await morning.call('POST', `${path}/steps`, { body: step, lease });
  say(
    `   POST …/steps -> revision ${String(first.revision)}, and again -> revision ${String(again.revision)}`,
  );

  say('3. It writes the claim as it would be filed. A draft is not a claim: no claim exists yet.');
  const body = { kind: 'claim', content: sampleLoss };
  const draft = await morning.call('PUT', `${path}/drafts/main`, { body, lease });
  say(`   PUT …/drafts/main -> version ${String(draft.draftVersion)}, digest ${short(draft.digest)}`);

  say('4. It may not file it. It asks for an approval, bound to exactly this digest.');
  const summary = 'Collision with a bakery, 61840.00 USD';
  const request = {
    draftId: 'main',
    draftVersion: draft.draftVersion,
    summary,
    basedOn: [],
    expiresInSeconds: 86_400,
  };
  const asked = await morning.call('POST', `${path}/approvals`, { body: request, lease });
  const approval = `/v1/approvals/${String(asked.approvalId)}`;
  say(`   POST …/approvals -> ${String(asked.approvalId)}, open until ${String(asked.expiresAt)}`);

  say('5. Could the assistant grant it itself?');
  const decision = { decision: 'grant', digest: draft.digest };
  say(
    `   POST …/decision as the assistant -> ${await refusal(morning, `${approval}/decision`, { body: decision })}`,
  );

  say('6. Hours later another assistant resumes. The first one wakes up late and writes with its old lease.');
  const newLease = await resumedLater(morning, evening, path, lease);
  const late = { body: { phase: 'drafting' }, lease };
  say(
    `   POST …/phase with the old lease -> ${await refusal(morning, `${path}/phase`, late)}; nothing was written`,
  );

  say(
    '7. Dana, an adjuster, and Sam, a supervisor, are in the staff register. They read what was asked and grant',
  );
  say('   it: above the two-person limit neither can alone. A claim is filed now, and exactly once.');
  await register(sam, 'sam', { roles: ['supervisor'] });
  await register(sam, 'dana', {
    roles: ['adjuster'],
    authorityLimit: { amount: '75000.00', currency: 'USD' },
  });
  for (const who of [dana, sam].slice(0, signatures(asked))) {
    const signed = await who.call('POST', `${approval}/decision`, { body: decision, key: randomUUID() });
    say(`   POST …/decision -> ${String(signed.status)}, ${String(signed.remaining)} to go`);
  }
  const claimId = await filedClaim(evening, path);
  const receipt = await mara.call('GET', `/v1/claims/${claimId}/receipt`);
  say(`   GET /v1/claims/${claimId}/receipt -> ${String(receipt.receiptNumber)}`);

  say('8. The claim knows the way back to what was approved, and the run tells how it came about:');
  const provenance = await dana.call('GET', `/v1/claims/${claimId}/provenance`);
  say(`   approved digest ${short(provenance.digest)}, by ${(provenance.decidedBy as string[]).join(', ')}`);
  await evening.call('POST', `${path}/complete`, { body: { reason: 'filed' }, lease: newLease });
  const timeline = await dana.call('GET', `${path}/timeline`);
  for (const entry of timeline.items as Answer[]) say(`   ${String(entry.at)}  ${String(entry.text)}`);
}

async function register(by: ApiClient, sub: string, entry: object): Promise<void> {
  await by.call('PUT', `/v1/staff/${sub}`, { body: { ...entry, active: true } });
}

function signatures({ requires }: Answer): number {
  return (requires as { signatures: number }).signatures;
}

async function leaseOf(worker: ApiClient, path: string, workerId: string): Promise<string> {
  const { leaseToken } = await worker.call('POST', `${path}/resume`, {
    body: { workerId },
    key: randomUUID(),
  });
  return String(leaseToken);
}

/** The first worker gives its lease back, as one does that is shut down; then the second can take the run. */
async function resumedLater(
  before: ApiClient,
  after: ApiClient,
  path: string,
  lease: string,
): Promise<string> {
  await before.call('DELETE', `${path}/lease`, { body: { leaseToken: lease } });
  return leaseOf(after, path, 'evening-shift');
}

async function refusal(
  by: ApiClient,
  path: string,
  request: { body: unknown; lease?: string },
): Promise<string> {
  try {
    await by.call('POST', path, request);
  } catch (error) {
    if (error instanceof Refused) return `${error.status} ${error.code}`;
    throw error;
  }
  throw new Error(`${path} should have been refused`);
}

async function filedClaim(by: ApiClient, path: string): Promise<string> {
  for (;;) {
    const run = await by.call('GET', path);
    const [approval] = run.approvals as Answer[];
    if (approval?.status === 'filed') return String(approval.claimId);
    if (approval?.status !== 'granted' && approval?.status !== 'filing')
      throw new Error(`the approval is ${String(approval?.status)}`);
    await pause(LOOK_MS);
  }
}

function short(digest: unknown): string {
  return `${String(digest).slice(0, 12)}…`;
}
