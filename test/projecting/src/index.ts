export { TestStores } from './stores.js';
export type { RawEvent, Told } from './stores.js';
export { counterProjection, opened, OWNER, raised, reckon, seen } from './counter.js';
export type { Counter } from './counter.js';
export { grantedRun, send, startRun } from './runs.js';
