export { currentCheckpoints } from './projector.js';
export { CheckpointQueries } from './queries.js';
export type { ApprovalOfRun, PresentedApproval, RunFilters, Viewer } from './queries.js';
export { present } from './present.js';
export type { PresentedRun, RunStatus } from './present.js';
export type { Checkpoint } from './document.js';
