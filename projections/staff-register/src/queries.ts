import { type Page, type PageRequest, type Stores, type View, Views } from '#libs/projecting';
import type { StaffEntry } from './document.js';
import { staffRegister } from './projector.js';

export type PresentedEntry = StaffEntry & { readonly revision: string };

/** Reads of who is registered. */
export class StaffQueries {
  private readonly views: Views<StaffEntry>;

  constructor(stores: Stores) {
    this.views = new Views(staffRegister, stores);
  }

  /** @throws InvalidCursor, ReadModelUnavailable */
  async list(tenant: string, page: PageRequest): Promise<Page<PresentedEntry>> {
    const { items, ...rest } = await this.views.page(tenant, [], page);
    return { ...rest, items: items.map(present) };
  }

  /** Whether the tenant has a supervisor who is active, as far as the view is. @throws ReadModelUnavailable */
  async hasSupervisor(tenant: string): Promise<boolean> {
    const { items } = await this.views.page(tenant, [{ roles: 'supervisor', active: true }], { limit: 1 });
    return items.length > 0;
  }
}

function present({ doc, revision }: View<StaffEntry>): PresentedEntry {
  return { ...doc, revision: revision.toString() };
}
