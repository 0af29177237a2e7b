export { ReactionRunner } from './reaction-runner.js';
export type { Reaction, ReactionStatus, ReactionStores } from './reaction-runner.js';
