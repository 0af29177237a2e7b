export { claimEvents } from './events.js';
export type { ClaimEvent, Origin } from './events.js';
