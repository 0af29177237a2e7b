export { Payloads } from './payloads.js';
export type { Payload } from './payloads.js';
