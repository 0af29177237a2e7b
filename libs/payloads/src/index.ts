export { Payloads, PayloadMissing } from './payloads.js';
export type { Payload } from './payloads.js';
