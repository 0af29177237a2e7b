export { FolderInUse, ForeignFolder } from './folder.js';
export { DamagedLog } from './log.js';
export { PortTaken } from './server.js';
export { type EventStoreOptions, type RunningEventStore, startEventStore } from './start.js';
