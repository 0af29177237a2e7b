import type { DomainEvent } from '#libs/decider';
import { GENESIS, type StoredEvent } from './envelope.js';
import type { UnreadableEvent } from './errors.js';
import { RecentCommands } from './recent-commands.js';
import type { StreamKind } from './stream-kind.js';

/** A stream folded up to a revision. Owned by whoever folds: `evolve` changes `state` in place. */
export interface Fold<State> {
  readonly stream: string;
  /** Of the last event folded; -1 if there is none. */
  revision: bigint;
  position: bigint;
  /** `eventDigest` of that event: what the next one names. */
  digest: string;
  state: State;
  commands: RecentCommands;
  /** A rough upper bound of what the state holds. */
  bytes: number;
  /** Why some of what was folded stands sealed in `state`: the first event that did not open. Never in a snapshot. */
  unopenable: UnreadableEvent | undefined;
  /** The revision of the snapshot it was made from, or that was made of it; -1 if there is none. */
  savedAt: bigint;
}

/** What `Folds` needs to know of a kind of stream. */
export type Foldable<State> = StreamKind<State, never, DomainEvent>;

/** An event that was just appended: as decided, as stored, and its digest. */
export interface Appended {
  readonly opened: DomainEvent;
  readonly stored: Omit<StoredEvent, 'position'>;
  readonly digest: string;
  readonly bytes: number;
}

/** The fold of a stream without events. */
export function emptyFold<State>(kind: Foldable<State>, stream: string): Fold<State> {
  return {
    stream,
    revision: -1n,
    position: 0n,
    digest: GENESIS,
    state: kind.decider.initialState(),
    commands: new RecentCommands(),
    bytes: 0,
    unopenable: undefined,
    savedAt: -1n,
  };
}
