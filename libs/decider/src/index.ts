export type { Decider, DomainEvent, EventOf, Refusal } from './decider.js';
export { happened, refuse, isRefusal } from './decider.js';
export { covers, money, personal, plain, personalFields, unmarkedFields } from './fields.js';
export type { Money, DataKind, FieldPath } from './fields.js';
export { specification } from './specification.js';
