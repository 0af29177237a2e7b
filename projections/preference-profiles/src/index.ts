export { preferenceProfiles } from './projector.js';
export { ProfileQueries } from './queries.js';
export type { PreferenceProfile } from './document.js';
