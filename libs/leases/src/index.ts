export { Leases } from './leases.js';
export type { LeaseRecord } from './leases.js';
