import type { Json } from '#libs/canonical';
import type { DomainEvent } from '#libs/decider';
import type { PersonKeys, Vault } from '#libs/vault';
import type { Fold } from './fold.js';
import { RecentCommands } from './recent-commands.js';
import type { StreamKind } from './stream-kind.js';

/** A saved fold. What it says is in `sealed`, under the customer's key of the stream's kind of data; the rest says what it is of. */
export interface Snapshot {
  readonly stream: string;
  readonly revision: bigint;
  readonly position: bigint;
  readonly foldVersion: number;
  /** Of the event at `revision`. */
  readonly digest: string;
  readonly customerId: string;
  readonly sealed: Uint8Array;
}

/** Where snapshots are kept: at most one for a stream. A cache: what it loses is folded again from the stream. */
export interface Snapshots {
  load(stream: string): Promise<Snapshot | undefined>;
  /** Replaces an older one; one that is already there for a later revision stays. */
  save(snapshot: Snapshot): Promise<void>;
}

/** Sealed bytes above this are not saved: the document that holds them may have 16 MiB. */
export const LARGEST_SNAPSHOT = 12 * 1024 * 1024;

/** A fold as a snapshot, or `undefined` if it is too large, about nobody, or its customer's key is gone. */
export function takeSnapshot<State>(
  kind: StreamKind<State, never, DomainEvent>,
  fold: Fold<State>,
  customerId: string,
  keys: PersonKeys,
): Snapshot | undefined {
  if (kind.dataKind === undefined || !keys.has(kind.dataKind)) return undefined;
  const { stream, revision, position, digest } = fold;
  const content = JSON.stringify({ state: kind.save(fold.state), commands: fold.commands.save() });
  if (content.length > LARGEST_SNAPSHOT) return undefined;
  const sealed = keys.sealBytes(
    kind.dataKind,
    Buffer.from(content, 'utf8'),
    placeOf(stream, revision, kind.foldVersion),
  );
  if (sealed.length > LARGEST_SNAPSHOT) return undefined;
  return { stream, revision, position, foldVersion: kind.foldVersion, digest, customerId, sealed };
}

/**
 * The fold that a snapshot holds; `undefined` if it is of another fold version.
 *
 * @throws Error if it cannot be read.
 */
export async function openSnapshot<State>(
  kind: StreamKind<State, never, DomainEvent>,
  snapshot: Snapshot,
  vault: Vault,
  tenant: string,
): Promise<Fold<State> | undefined> {
  const { stream, revision, position, digest, foldVersion, customerId, sealed } = snapshot;
  if (foldVersion !== kind.foldVersion || kind.dataKind === undefined) return undefined;
  const keys = await vault.person(tenant, customerId);
  const content = keys.openBytes(kind.dataKind, sealed, placeOf(stream, revision, foldVersion));
  const { state, commands } = JSON.parse(content.toString('utf8')) as { state: Json; commands: Json };
  return {
    stream,
    revision,
    position,
    digest,
    state: kind.load(state),
    commands: RecentCommands.load(commands),
    bytes: sealed.length,
    unopenable: undefined,
    savedAt: revision,
  };
}

function placeOf(stream: string, revision: bigint, foldVersion: number): string {
  return `snapshot/${stream}/${revision}/${foldVersion}`;
}
