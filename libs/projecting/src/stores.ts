import type { Vault } from '#libs/vault';
import type { EventLog } from './event-log.js';
import type { Notice } from './projection.js';
import type { ReadModels } from './read-models.js';

/** What projecting works with: the log, the keys, the read models, and where to tell of what went wrong. */
export interface Stores {
  readonly log: EventLog;
  readonly vault: Vault;
  readonly models: ReadModels;
  readonly notice: Notice;
}
