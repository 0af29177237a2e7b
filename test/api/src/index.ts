export * from './people.js';
export type { Caller } from './caller.js';
export { RunningApi } from './running-api.js';
export type { Answer, Sent } from './running-api.js';
