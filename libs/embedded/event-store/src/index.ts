export { type UserWanted, UsersUnchanged, listUsers, putUsers, removeUser } from './access/users.js';
export { FolderInUse, ForeignFolder } from './folder.js';
export { backupEventStore, inspectEventStore } from './inspect.js';
export { requestScavenge } from './operations.js';
export { DamagedLog } from './segments.js';
export { PortTaken } from './rpc-server.js';
export { type EventStoreOptions, type RunningEventStore, Unprotected, startEventStore } from './start.js';
