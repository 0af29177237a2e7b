export { claim, claimStream, claimRefusals, receiptNumberOf } from './claim.js';
export type { ClaimCommand, ClaimRefusal, ClaimState } from './claim.js';
export { claimEvents } from './events.js';
export type { ClaimEvent, Origin } from './events.js';
