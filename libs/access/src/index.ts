export { MOST_ACTED_FOR, roles } from './identity.js';
export type { Identity, Role } from './identity.js';
export { issueToken, KeysUnavailable, TokenReader, Unauthenticated } from './tokens.js';
export type { TokenContent, TokenRules } from './tokens.js';
export { judge, policies, policyFaults, scopeOf } from './policies.js';
export type { PolicyName, Subject, Verdict } from './policies.js';
