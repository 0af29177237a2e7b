import { join } from 'node:path';
import { claimIdOf } from '#libs/domain/losses';
import { EventStore } from '#libs/event-store';
import { compareWithFold, type Projection, ReadModels, type Stores } from '#libs/projecting';
import { Vault } from '#libs/vault';
import { authoritativeClaims } from '#projections/authoritative-claims';
import { currentCheckpoints } from '#projections/current-checkpoints';
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
 * of both read models equals a plain fold of its stream.
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

/** Compares both read models with their streams, on the stores of a running server; what differs, in words. */
export async function compareReadModels(
  dataFolder: string,
  { eventStoreUrl, mongoUrl }: Pick<Running, 'eventStoreUrl' | 'mongoUrl'>,
): Promise<string[]> {
  const vault = await Vault.open({ folder: join(dataFolder, 'keys') });
  const notices: string[] = [];
  const notice = (text: string) => void notices.push(text);
  const log = await EventStore.connect({ url: eventStoreUrl, vault, onNotice: notice });
  const models = await ReadModels.connect({ url: mongoUrl });
  const stores: Stores = { log, vault, models, notice };
  try {
    return [
      ...(await differences(currentCheckpoints, stores)),
      ...(await differences(authoritativeClaims, stores)),
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
