export { TestStores } from './stores.js';
export type { RawEvent, Told } from './stores.js';
export { counterProjection, opened, OWNER, raised, reckon, seen } from './counter.js';
export type { Counter } from './counter.js';
export {
  commandOf,
  grantedCommands,
  grantedRun,
  moves,
  register,
  send,
  startRun,
  takeLease,
} from './runs.js';
