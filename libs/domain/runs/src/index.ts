export { runEvents } from './events.js';
export type { Party, RunEvent } from './events.js';
