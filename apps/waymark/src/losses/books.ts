import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { StoreUsers } from '#apps/settings';
import { claimStream, type ClaimState } from '#libs/domain/claims';
import { claimIdOf } from '#libs/domain/losses';
import { approvalStatus, runStatus, runStream, type RunState } from '#libs/domain/runs';
import { EventStore } from '#libs/event-store';
import {
  compareWithFold,
  type Credentials,
  type Projection,
  ReadModels,
  type Stores,
} from '#libs/projecting';
import { Vault } from '#libs/vault';
import { authoritativeClaims } from '#projections/authoritative-claims';
import { currentCheckpoints } from '#projections/current-checkpoints';
import { staffRegister } from '#projections/staff-register';
import { type Answer, type ApiClient, Refused } from '../api-client.js';
import type { Running } from '../data-folder.js';
import { DRAFT, type Outcome, TENANT } from './journey.js';

export interface Books {
  claims: number;
  receipts: number;
  /** What does not hold, each in words; the books balance when there is none. */
  wrong: string[];
}

/**
 * Checks what came of the runs: the claims listed are those of the granted approvals and no others, each has a
 * receipt and a provenance with the digest that was approved, there is none for a denied one, and every document
 * of the read models equals a plain fold of its stream.
 *
 * @param position all acknowledged events are at or before it; the lists are asked to reflect it.
 */
export async function checkBooks(
  outcomes: Outcome[],
  position: string,
  reader: ApiClient,
  each: <Item>(items: Item[], work: (item: Item) => Promise<void>) => Promise<void>,
): Promise<Books> {
  const books: Books = { claims: 0, receipts: 0, wrong: [] };
  const mine = new Map(outcomes.map((outcome) => [claimIdOf(TENANT, outcome.runId, DRAFT), outcome]));
  const listed = (await claimsListed(reader, position)).filter((claimId) => mine.has(claimId));
  books.claims = listed.length;
  if (new Set(listed).size !== listed.length) books.wrong.push('a claim is listed twice');
  await each(outcomes, async (outcome) => {
    const claimId = claimIdOf(TENANT, outcome.runId, DRAFT);
    if (outcome.filed === undefined) {
      if (listed.includes(claimId) || (await exists(reader, claimId)))
        books.wrong.push(`claim ${claimId} exists, but run ${outcome.runId} was denied`);
      return;
    }
    if (!listed.includes(claimId)) books.wrong.push(`claim ${claimId} is not listed`);
    const receipt = await reader.call('GET', `/v1/claims/${claimId}/receipt`);
    if (receipt.receiptNumber === outcome.filed.receiptNumber) books.receipts++;
    else books.wrong.push(`claim ${claimId} has receipt ${String(receipt.receiptNumber)}`);
    const provenance = await reader.call('GET', `/v1/claims/${claimId}/provenance`);
    if (!leadsBackTo(outcome, provenance))
      books.wrong.push(`the provenance of claim ${claimId} does not lead back to what was approved`);
  });
  return books;
}

function leadsBackTo(outcome: Outcome, provenance: Answer): boolean {
  const { runId, approvalId, digest, draft } = provenance;
  const same = runId === outcome.runId && approvalId === outcome.approvalId && digest === outcome.digest;
  return same && (draft as Answer).matches === true;
}

async function claimsListed(reader: ApiClient, minPosition: string): Promise<string[]> {
  const found: string[] = [];
  let cursor = '';
  do {
    const page = await reader.call('GET', `/v1/claims?limit=200&waitMs=10000${cursor}`, { minPosition });
    found.push(...(page.items as Answer[]).map((claim) => String(claim.claimId)));
    cursor = typeof page.nextCursor === 'string' ? `&cursor=${encodeURIComponent(page.nextCursor)}` : '';
  } while (cursor !== '');
  return found;
}

async function exists(reader: ApiClient, claimId: string): Promise<boolean> {
  try {
    await reader.call('GET', `/v1/claims/${claimId}`);
    return true;
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return false;
    throw error;
  }
}

/**
 * Compares the read models with their streams, on the stores of a running server; what differs, in words. Every
 * document is compared with the projector's fold of its stream, and what is shown of these runs and claims with
 * the fold of the rules, which shares nothing with the projector.
 */
export async function compareReadModels(
  outcomes: Outcome[],
  reader: ApiClient,
  dataFolder: string,
  { eventStoreUrl, mongoUrl, mongoUsersFile }: Running,
): Promise<string[]> {
  const vault = await Vault.open({ folder: join(dataFolder, 'keys') });
  const notices: string[] = [];
  const notice = (text: string) => void notices.push(text);
  const log = await EventStore.connect({ url: eventStoreUrl, vault, onNotice: notice });
  const users = mongoUsersFile === undefined ? undefined : StoreUsers.read(mongoUsersFile);
  const credentials: Credentials | undefined =
    users && ((database, access) => users.credentials(database, access));
  const models = await ReadModels.connect({ url: mongoUrl, credentials });
  const stores: Stores = { log, vault, models, notice };
  try {
    return [
      ...(await differences(currentCheckpoints, stores)),
      ...(await differences(authoritativeClaims, stores)),
      ...(await differences(staffRegister, stores)),
      ...(await unlikeTheRules(outcomes, reader, log)),
    ];
  } finally {
    await models.close();
    await log.close();
  }
}

async function differences<Doc>(projection: Projection<Doc>, stores: Stores): Promise<string[]> {
  const { missing, extra, differing } = await compareWithFold(projection, stores);
  return Object.entries({ missing, extra, differing })
    .filter(([, names]) => names.length > 0)
    .map(([how, names]) => `${projection.name}: ${names.length} ${how} (${names.slice(0, 3).join(', ')})`);
}

async function unlikeTheRules(outcomes: Outcome[], reader: ApiClient, log: EventStore): Promise<string[]> {
  const wrong: string[] = [];
  for (const { runId, filed } of outcomes) {
    const run = await log.fold(runStream, TENANT, runId);
    const shown = await reader.call('GET', `/v1/runs/${runId}`);
    if (!run || !sameRun(shown, run.state, new Date().toISOString()))
      wrong.push(`run ${runId} is not shown as its events say`);
    if (filed === undefined) continue;
    const claim = await log.fold(claimStream, TENANT, filed.claimId);
    const { receipt } = await reader.call('GET', `/v1/claims/${filed.claimId}`);
    const provenance = await reader.call('GET', `/v1/claims/${filed.claimId}/provenance`);
    if (!claim || !sameClaim({ receipt, provenance }, claim.state))
      wrong.push(`claim ${filed.claimId} is not shown as its events say`);
  }
  return wrong;
}

/** Whether status, drafts and approvals of a run are shown as the rules fold them. */
export function sameRun(shown: Answer, run: RunState, at: string): boolean {
  const drafts = [...run.drafts.values()].map((each) => [each.draftId, each.draftVersion, each.digest]);
  const approvals = [...run.approvals.values()].map((each) => [each.approvalId, approvalStatus(each, at)]);
  return isDeepStrictEqual(
    [
      shown.status,
      (shown.drafts as Answer[]).map((each) => [each.draftId, each.draftVersion, each.digest]),
      (shown.approvals as Answer[]).map((each) => [each.approvalId, each.status]),
    ],
    [runStatus(run, at), drafts, approvals],
  );
}

/** Whether receipt and digest of a claim are shown as the rules fold them. */
export function sameClaim({ receipt, provenance }: Answer, { filed }: ClaimState): boolean {
  return isDeepStrictEqual(
    [(receipt as Answer).receiptNumber, (provenance as Answer).digest],
    [filed?.receiptNumber, filed?.origin.digest],
  );
}
