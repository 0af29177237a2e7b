export { staffRegister } from './projector.js';
export { StaffQueries } from './queries.js';
export type { PresentedEntry } from './queries.js';
