export { FactSources } from './sources.js';
export type { About, FactSource, Found, SourceKind, Unanswered } from './sources.js';
export { policyRegister, RegisterUnavailable } from './policy-register.js';
export { policyRef } from './refs.js';
