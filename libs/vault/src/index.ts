export { Vault } from './vault.js';
export type { SigningKeys, TenantKeys } from './vault.js';
export { PersonKeys, Unopenable, isSealed } from './person-keys.js';
export type { Sealed } from './person-keys.js';
export { holdsPersonal, openFields, sealFields, sealedFor } from './fields.js';
export type { PersonalField } from './fields.js';
