export { startPolicyRegister } from './server.js';
export type { PolicyRegisterOptions, RunningPolicyRegister } from './server.js';
