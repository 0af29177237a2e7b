export { claim, claimStream, claimRefusals, claimStatuses, receiptNumberOf } from './claim.js';
export type { ClaimCommand, ClaimRefusal, ClaimState, ClaimStatus } from './claim.js';
export { claimEvents } from './events.js';
export type { HandleClaim } from './handling.js';
export type { ClaimEvent, Origin } from './events.js';
