export { hasAuthority, staff, staffStream, standingOf } from './staff.js';
export type { RegisterStaff, StaffState, Standing } from './staff.js';
export { staffEvents, staffRole } from './events.js';
export type { StaffEvent } from './events.js';
