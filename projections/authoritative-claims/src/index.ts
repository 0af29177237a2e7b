export { authoritativeClaims } from './projector.js';
export { ClaimQueries } from './queries.js';
export type { ClaimFilters, Viewer } from './queries.js';
export { present, presentProvenance, presentReceipt, presentToCustomer } from './present.js';
export type { PresentedClaim } from './present.js';
export type { ClaimRecord } from './document.js';
