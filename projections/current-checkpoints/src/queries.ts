import { type Page, type PageRequest, type Stores, type View, Views } from '#libs/projecting';
import type { Checkpoint } from './document.js';
import { type PresentedRun, type RunStatus, present, withStatus } from './present.js';
import { currentCheckpoints } from './projector.js';

export interface RunFilters {
  readonly status?: RunStatus | undefined;
  readonly phase?: string | undefined;
  readonly customerId?: string | undefined;
  /** Runs changed at this time or later, ISO 8601 in UTC with milliseconds. */
  readonly updatedSince?: string | undefined;
  readonly runId?: string | undefined;
  /** Runs with an approval that can be decided. */
  readonly pendingApproval?: boolean | undefined;
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
    { status, phase, customerId, updatedSince, runId, pendingApproval }: RunFilters,
    page: PageRequest,
    now: string,
  ): Promise<Page<PresentedRun>> {
    const conditions = [
      viewer.customerId !== undefined && { customerId: viewer.customerId },
      customerId !== undefined && { customerId },
      phase !== undefined && { phase },
      updatedSince !== undefined && { updatedAt: { $gte: updatedSince } },
      status !== undefined && withStatus(status, now),
      runId !== undefined && { runId },
      pendingApproval === true && {
        approvals: { $elemMatch: { newest: true, state: 'pending', expiresAt: { $gt: now } } },
      },
    ].filter((condition) => condition !== false);
    const { items, ...rest } = await this.views.page(viewer.tenant, conditions, page);
    return { ...rest, items: items.map((view) => present(view, now)) };
  }
}
