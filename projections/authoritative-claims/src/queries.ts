import { type Page, type PageRequest, type Stores, type View, Views } from '#libs/projecting';
import type { ClaimRecord } from './document.js';
import { type PresentedClaim, present, presentToCustomer } from './present.js';
import { authoritativeClaims } from './projector.js';

export interface ClaimFilters {
  readonly status?: ClaimRecord['status'] | undefined;
  readonly customerId?: string | undefined;
  readonly policyNumber?: string | undefined;
}

/** What the caller may see at all: one tenant, and within it all customers or one. */
export interface Viewer {
  readonly tenant: string;
  readonly customerId?: string | undefined;
}

/** Reads of authoritative claim records. */
export class ClaimQueries {
  private readonly views: Views<ClaimRecord>;

  constructor(stores: Stores) {
    this.views = new Views(authoritativeClaims, stores);
  }

  /** As fresh as the stream, with or without the document store. */
  async claim({ tenant, customerId }: Viewer, claimId: string): Promise<View<ClaimRecord> | undefined> {
    const view = await this.views.fresh(tenant, claimId);
    return customerId === undefined || view?.doc.customerId === customerId ? view : undefined;
  }

  /** @throws InvalidCursor, ReadModelUnavailable */
  async list(
    viewer: Viewer,
    { status, customerId, policyNumber }: ClaimFilters,
    page: PageRequest,
  ): Promise<Page<PresentedClaim>> {
    const { tenant } = viewer;
    const conditions = [
      viewer.customerId !== undefined && { customerId: viewer.customerId },
      customerId !== undefined && { customerId },
      status !== undefined && { status },
      policyNumber !== undefined && (await this.views.searched(tenant, 'policyNumber', policyNumber)),
    ].filter((condition) => condition !== false);
    const { items, ...rest } = await this.views.page(tenant, conditions, page);
    return { ...rest, items: items.map(viewer.customerId === undefined ? present : presentToCustomer) };
  }
}
