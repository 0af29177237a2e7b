export { EventStore } from './event-store.js';
export type { EventStoreOptions, FoldedStream } from './event-store.js';
export type { Appends } from './appends.js';
export { appendingThread } from './appends-elsewhere.js';
export type { CommandCall, Handled } from './handle-command.js';
export type { CommandContext } from './prepare.js';
export type { Delivery } from './connection.js';
export type { StreamKind } from './stream-kind.js';
export type { Snapshot, Snapshots } from './snapshots.js';
export { Lanes } from './lanes.js';
export { LARGEST_SNAPSHOT } from './snapshots.js';
export { GENESIS, eventDigest, streamName, streamParts, verifyChain } from './envelope.js';
export type { Actor, ChainVerdict, Envelope, JsonObject, StoredEvent } from './envelope.js';
export {
  AppendTooLarge,
  ConcurrentChange,
  IdempotencyKeyReused,
  NotPermitted,
  PayloadMissing,
  RefusedCommand,
  RevisionMismatch,
  StoreUnavailable,
  StreamNotFound,
  UnknownStoredEvent,
  UnreadableEvent,
} from './errors.js';
