import { type Rechecks, standingIn } from '#apps/platform';
import { derivedId, digestOf } from '#libs/canonical';
import { claimStream, type ClaimCommand } from '#libs/domain/claims';
import {
  type FactReading,
  type RunCommand,
  type RunState,
  runStream,
  signaturesOf,
  signersOf,
} from '#libs/domain/runs';
import {
  type Actor,
  type CommandContext,
  ConcurrentChange,
  type EventStore,
  RefusedCommand,
  StoreUnavailable,
  StreamNotFound,
} from '#libs/event-store';
import type { Notice } from '#libs/projecting';
import type { Reaction } from '#libs/reacting';
import { isSealed, type Vault } from '#libs/vault';

const NAME = 'file-approved-claim';
const ACTOR: Actor = { sub: NAME, roles: ['system'], actFor: [] };

export interface FilingStores {
  readonly events: Pick<EventStore, 'handle' | 'read' | 'fold'>;
  readonly vault: Pick<Vault, 'tenant'>;
  readonly rechecks: Pick<Rechecks, 'with'>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly notice: Notice;
}

/**
 * A granted approval becomes a claim: `StartFiling` on the run, `FileClaim` on the claim, `NoteReceipt` (or
 * `RefuseFiling`) on the run.
 *
 * Every command's id derives from tenant, approval and step, and each rule knows its repetition, so that a stop
 * between any two steps and a second delivery, however late, lead to the same one claim. Before filing starts the
 * register is asked for everybody whose rights the grant rests on, and the facts it rests on are looked up; where one
 * of them has changed, the run notes that the approval is invalid. While one cannot be looked up, required or not,
 * nothing happens, and the event is tried again, set aside between the tries once the grant is a minute old, until the
 * grant has lapsed. A grant that no longer holds for another reason is left as it is: the run shows why. A claim
 * whose stream was deleted is refused `already-filed`, and a draft that does not open `draft-unopenable`: so a run whose
 * content is gone ends its filing, too.
 */
export function fileApprovedClaim(stores: FilingStores): Reaction {
  return {
    name: NAME,
    category: 'run',
    hears: ['ApprovalGranted'],
    isTransient: (error) =>
      error instanceof StoreUnavailable ||
      error instanceof ConcurrentChange ||
      (error instanceof FactsUnavailable && error.soon),
    async react({ tenant, id, data }) {
      const { approvalId, grantedAt } = data as { approvalId: string; grantedAt: string };
      const filing = await startFiling(stores, { tenant, runId: id, approvalId, grantedAt });
      if (filing?.stage !== 'filing') return;
      await conclude(stores, filing, await fileClaim(stores, filing));
    },
  };
}

interface Grant {
  readonly tenant: string;
  readonly runId: string;
  readonly approvalId: string;
  readonly grantedAt: string;
}

/** Within which a fact that cannot be looked up is tried again and again; later it is set aside between the tries. */
const SOON_MS = 60_000;

/** A fact that has to be known before filing cannot be looked up now. */
class FactsUnavailable extends Error {
  override readonly name = 'FactsUnavailable';
  readonly code = 'facts-unavailable';

  constructor(readonly soon: boolean) {
    super('a fact that the approval rests on cannot be looked up');
  }
}

type Filing = Grant & NonNullable<ReturnType<typeof approvedDraft>> & { readonly runRevision: bigint };

/**
 * What is to be filed; `undefined` where the run refuses, or notes that the approval is invalid.
 *
 * @throws FactsUnavailable
 */
async function startFiling(stores: FilingStores, grant: Grant): Promise<Filing | undefined> {
  const { tenant, runId, approvalId } = grant;
  const context = contextOf(stores, grant, 'start-filing');
  const standings = await standingsOf(stores, grant);
  const start = (readings: FactReading[]) =>
    stores.events.handle(runStream, {
      tenant,
      id: runId,
      context,
      command: { type: 'StartFiling', tenant, approvalId, standings, readings, at: context.at },
      despiteUnopenable: true,
      answer: (run: RunState) => approvedDraft(run, approvalId),
    });
  try {
    const handled = await stores.rechecks.with({ tenant, runId }, { kind: 'execution', approvalId }, start);
    if (!handled.answer) return undefined;
    const runRevision = handled.appended > 0 ? handled.revision : await filingRevision(stores, grant);
    return { ...grant, ...handled.answer, runRevision };
  } catch (error) {
    if (!(error instanceof RefusedCommand)) throw error;
    const code = error.refusal.refused;
    if (code === 'facts-moved') throw new ConcurrentChange(`run-${tenant}.${runId}`);
    if (code === 'facts-unavailable')
      throw new FactsUnavailable(stores.now() - Date.parse(grant.grantedAt) < SOON_MS);
    stores.notice('a granted approval is not filed', { tenant, approvalId, code });
    return undefined;
  }
}

/** What the register says now; who signed is settled once an approval is granted. */
async function standingsOf({ events }: FilingStores, { tenant, runId, approvalId }: Grant) {
  const run = await events.fold(runStream, tenant, runId, { despiteUnopenable: true });
  const approval = run?.state.approvals.get(approvalId);
  const signers = approval ? signersOf(approval) : [];
  const standings = await Promise.all(
    signers.map(async (sub) => [sub, await standingIn(events, { tenant, sub })] as const),
  );
  return Object.fromEntries(standings.flatMap(([sub, standing]) => (standing ? [[sub, standing]] : [])));
}

function approvedDraft({ started, approvals, drafts }: RunState, approvalId: string) {
  const approval = approvals.get(approvalId);
  const draft = approval && drafts.get(approval.draftId);
  if (approval?.invalidation) return undefined;
  if (!started || !approval?.filing) throw new Error(`filing of ${approvalId} has not started`);
  const { draftId, draftVersion, digest, basedOn, stage, filing } = approval;
  return {
    stage,
    customerId: started.customerId,
    customer: started.customer,
    originRunId: started.originRunId,
    claimId: filing.claimId,
    draftId,
    draftVersion,
    digest,
    facts: [...basedOn],
    decidedBy: signaturesOf(approval).map(({ decidedBy }) => decidedBy.sub),
    /** Absent where the fork that it came with does not open. */
    content: structuredClone(draft?.content),
  };
}

/** The revision at which filing was started, of a start so long ago that its command is no longer known. */
async function filingRevision({ events }: FilingStores, { tenant, runId, approvalId }: Grant) {
  for await (const { type, data, revision } of events.read(`run-${tenant}.${runId}`))
    if (type === 'FilingStarted' && data['approvalId'] === approvalId) return revision;
  throw new Error(`filing of ${approvalId} has not started`);
}

type Outcome = { receiptNumber: string; filedAt: string } | { refused: string };
const UNOPENABLE: Outcome = { refused: 'draft-unopenable' };

async function fileClaim(stores: FilingStores, filing: Filing): Promise<Outcome> {
  const { tenant, claimId, customerId, customer, content, digest, draftId, draftVersion } = filing;
  const { facts, decidedBy, runId, originRunId, approvalId } = filing;
  if (content === undefined || isSealed(content)) return UNOPENABLE;
  const runRevision = filing.runRevision.toString();
  const origin = {
    runId,
    originRunId,
    draftId,
    draftVersion,
    approvalId,
    digest,
    facts,
    decidedBy,
    runRevision,
  };
  const context = contextOf(stores, filing, 'file-claim');
  const command: ClaimCommand = {
    type: 'FileClaim',
    tenant,
    claimId,
    customerId,
    customer,
    origin,
    content,
    approvedDigest: digest,
    receiptSeed: (await stores.vault.tenant(tenant)).hmac('receipt', claimId),
    at: context.at,
  };
  try {
    const { answer } = await stores.events.handle(claimStream, {
      tenant,
      id: claimId,
      context,
      command,
      creates: true,
      answer: ({ filed }) => filed && { receiptNumber: filed.receiptNumber, filedAt: filed.filedAt },
    });
    if (!answer) throw new Error(`claim ${claimId} was not filed`);
    return answer;
  } catch (error) {
    if (error instanceof StreamNotFound) return { refused: 'already-filed' };
    if (!(error instanceof RefusedCommand)) throw error;
    return error.refusal;
  }
}

async function conclude(stores: FilingStores, filing: Filing, outcome: Outcome): Promise<void> {
  const { tenant, runId, approvalId } = filing;
  const step = 'refused' in outcome ? 'refuse-filing' : 'note-receipt';
  const context = contextOf(stores, filing, step);
  const command: RunCommand =
    'refused' in outcome
      ? { type: 'RefuseFiling', approvalId, code: outcome.refused, at: context.at }
      : { type: 'NoteReceipt', approvalId, ...outcome, at: context.at };
  const answer = () => undefined;
  const call = { tenant, id: runId, context, command, despiteUnopenable: true, answer };
  await stores.events.handle(runStream, call);
}

/** The same id and digest for every attempt: only the time differs. */
function contextOf({ now }: FilingStores, { tenant, approvalId }: Grant, step: string): CommandContext {
  const commandId = derivedId(tenant, NAME, approvalId, step);
  const at = new Date(now()).toISOString();
  return { actor: ACTOR, commandId, bodyDigest: digestOf({ approvalId, step }), at };
}
