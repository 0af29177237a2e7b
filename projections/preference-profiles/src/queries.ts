import { type Stores, type View, Views } from '#libs/projecting';
import type { PreferenceProfile } from './document.js';
import { preferenceProfiles } from './projector.js';

/** Reads of preference profiles. */
export class ProfileQueries {
  private readonly views: Views<PreferenceProfile>;

  constructor(stores: Stores) {
    this.views = new Views(preferenceProfiles, stores);
  }

  /** As fresh as the stream, with or without the document store; `undefined` while nothing was ever proposed or set. */
  profile(tenant: string, customerId: string): Promise<View<PreferenceProfile> | undefined> {
    return this.views.fresh(tenant, customerId);
  }
}
