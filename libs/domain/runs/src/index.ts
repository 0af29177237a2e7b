export { run, runStream, runStatus } from './run.js';
export type { RunStatus } from './run.js';
export { approvalStatus } from './approvals.js';
export type { ApprovalStatus } from './approvals.js';
export { runRefusals } from './commands.js';
export type { RunCommand, RunRefusal, LeaseShown } from './commands.js';
export { runEvents } from './events.js';
export type { Party, RunEvent } from './events.js';
export type { RunState, Approval, Draft, Step } from './state.js';
