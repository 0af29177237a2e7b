import { InvalidCursor, type Page, type PageRequest, type Stores, type View, Views } from '#libs/projecting';
import type { Checkpoint } from './document.js';
import { type PresentedRun, type RunStatus, present, withStatus } from './present.js';
import { currentCheckpoints } from './projector.js';

export interface RunFilters {
  readonly status?: RunStatus | undefined;
  readonly phase?: string | undefined;
  readonly customerId?: string | undefined;
  /** Runs changed at this time or later, ISO 8601 in UTC with milliseconds. */
  readonly updatedSince?: string | undefined;
}

/** Which approvals are wanted: those of runs that match, and of each run those that pass. */
export interface ApprovalsWanted {
  readonly runId?: string | undefined;
  /** What must hold of an approval as it is stored. */
  readonly stored: Readonly<Record<string, unknown>>;
  /** What must hold of it, and of the run's customer, that only shows once it is opened. */
  readonly passes: (
    approval: PresentedApproval,
    about: Pick<Checkpoint, 'customerId' | 'customer'>,
  ) => boolean;
}

export type PresentedApproval = PresentedRun['approvals'][number];

export interface ApprovalOfRun {
  readonly run: PresentedRun;
  readonly approval: PresentedApproval;
}

/** What the caller may see at all: one tenant, and within it all customers or one. */
export interface Viewer {
  readonly tenant: string;
  readonly customerId?: string | undefined;
}

/** Reads of where runs stand. */
export class CheckpointQueries {
  private readonly views: Views<Checkpoint>;

  constructor(stores: Stores) {
    this.views = new Views(currentCheckpoints, stores);
  }

  /** As fresh as the stream, or as of a revision, with or without the document store. */
  async run(
    { tenant, customerId }: Viewer,
    runId: string,
    upTo?: bigint,
  ): Promise<View<Checkpoint> | undefined> {
    const view = await this.views.fresh(tenant, runId, upTo);
    return customerId === undefined || view?.doc.customerId === customerId ? view : undefined;
  }

  /**
   * Whether somebody took the newest lease of a run of a customer that has not ended.
   *
   * @throws ReadModelUnavailable
   */
  async holds({ tenant, customerId }: Required<Viewer>, holder: string): Promise<boolean> {
    const conditions = [{ customerId }, { 'lease.holder': holder }, { ended: { $exists: false } }];
    const { items } = await this.views.page(tenant, conditions, { limit: 1 });
    return items.length > 0;
  }

  /** @throws InvalidCursor, ReadModelUnavailable */
  async list(
    viewer: Viewer,
    { status, phase, customerId, updatedSince }: RunFilters,
    page: PageRequest,
    now: string,
  ): Promise<Page<PresentedRun>> {
    const conditions = [
      viewer.customerId !== undefined && { customerId: viewer.customerId },
      customerId !== undefined && { customerId },
      phase !== undefined && { phase },
      updatedSince !== undefined && { updatedAt: { $gte: updatedSince } },
      status !== undefined && withStatus(status, now),
    ].filter((condition) => condition !== false);
    const { items, ...rest } = await this.views.page(viewer.tenant, conditions, page);
    return { ...rest, items: items.map((view) => present(view, now)) };
  }

  /**
   * Approvals, those of the newest run first and of one run in the order in which they were asked for. Full pages,
   * but for one that ends after so many runs without a hit; whoever follows the cursor misses none. Nothing where
   * nothing is wanted.
   *
   * @throws InvalidCursor, ReadModelUnavailable
   */
  async approvals(
    { tenant }: Viewer,
    wanted: ApprovalsWanted | undefined,
    { limit, cursor }: PageRequest,
    now: string,
  ): Promise<Page<ApprovalOfRun>> {
    const from = cursor === undefined ? undefined : placeOf(cursor);
    if (!wanted) return ended([], limit, null);
    const { runId, stored, passes } = wanted;
    const about = [{ approvals: { $elemMatch: stored } }, ...(runId === undefined ? [] : [{ runId }])];
    const items: (ApprovalOfRun & { place: Place })[] = [];
    let reached: Place | undefined = from;
    for (let pages = 0; pages < MOST_PAGES && items.length <= limit; pages += 1) {
      const after = reached && { created: { $lte: BigInt(reached.created) } };
      const page = await this.views.page(tenant, [...about, ...(after ? [after] : [])], {
        limit: RUNS_AT_ONCE,
      });
      for (const view of page.items) {
        const run = present(view, now);
        const created = view.created.toString();
        const past = reached?.created === created ? reached.past : 0;
        run.approvals.forEach((approval, index) => {
          if (index >= past && passes(approval, view.doc))
            items.push({ run, approval, place: { created, past: index + 1 } });
        });
        reached = { created, past: run.approvals.length };
      }
      if (page.nextCursor === null) return ended(items, limit, null);
    }
    return ended(items, limit, reached);
  }

  /** How many grants, of all tenants, are not executed: in time still, and too late. @throws ReadModelUnavailable */
  async notExecuted(now: string): Promise<{ granted: number; lapsed: number }> {
    const newest = (condition: object) =>
      this.views.count({ approvals: { $elemMatch: { newest: true, state: 'granted', ...condition } } });
    const [granted, lapsed] = [{ executeBy: { $gt: now } }, { executeBy: { $lte: now } }];
    return { granted: await newest(granted), lapsed: await newest(lapsed) };
  }
}

const RUNS_AT_ONCE = 50;
const MOST_PAGES = 20;

/** After so many approvals of the run whose first event has this position. */
interface Place {
  readonly created: string;
  readonly past: number;
}

function ended(
  items: readonly (ApprovalOfRun & { place: Place })[],
  limit: number,
  reached: Place | null | undefined,
): Page<ApprovalOfRun> {
  const shown = items.slice(0, limit);
  const next = items.length > limit ? shown.at(-1)?.place : reached;
  return {
    items: shown.map(({ run, approval }) => ({ run, approval })),
    nextCursor: next ? Buffer.from(`${next.created}.${next.past}`).toString('base64url') : null,
  };
}

function placeOf(cursor: string): Place {
  const [, created, past] = /^(\d{1,19})\.(\d{1,9})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (created === undefined) throw new InvalidCursor('not a cursor that this list gave out');
  return { created, past: Number(past) };
}
