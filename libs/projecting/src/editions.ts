import type { ClientSession, Collection } from 'mongodb';
import type { Comparison } from './compare-editions.js';
import type { Projection } from './projection.js';
import type { PositionDocument } from './projection-store.js';
import { type ReadModel, answered } from './read-models.js';

export const POSITIONS = 'positions';
export const DEAD_LETTERS = 'dead-letters';
const EDITIONS = 'editions';
const REBUILDS_REMEMBERED = 20;

/** `ready` and `differs` wait for a switch: compared, and clean or not. */
const UNDER_WAY = ['building', 'paused', 'comparing', 'ready', 'differs'] as const;
export type RebuildPhase = (typeof UNDER_WAY)[number] | 'switched' | 'rolled-back' | 'aborted' | 'failed';

/** One building of an edition beside the live one, as it is stored. */
export interface Rebuild {
  readonly rebuildId: string;
  readonly edition: string;
  readonly version: number;
  readonly phase: RebuildPhase;
  readonly autoSwitch: boolean;
  /** Events a second at most; null is as fast as it can. */
  readonly eventsPerSecond: number | null;
  readonly startedBy: string;
  readonly startedAt: string;
  /** Why it failed. */
  readonly code?: string;
  readonly comparison?: Comparison;
  /** Who switched in spite of the comparison, and why. */
  readonly override?: { readonly by: string; readonly reason: string; readonly at: string };
}

/**
 * Which editions of a projection there are. An edition is one version as it was built once: its name (`v2`, `v2-7`)
 * is that of its documents, its position and its dead letters, and is never given again.
 */
export interface Editions {
  /** What readers are given. */
  readonly live: string;
  /** What they were given before, kept current until then so that they can be switched back. */
  readonly previous?: { readonly edition: string; readonly until: string };
  /** Editions begun so far. */
  readonly begun: number;
  /** Newest last. */
  readonly rebuilds: readonly Rebuild[];
}
type StoredEditions = Editions & { readonly _id: string; readonly revision: number };

/** The edition of a lane was dropped meanwhile: whoever built it stands back. */
export class EditionGone extends Error {
  override readonly name = 'EditionGone';
}

/** The edition that readers would be switched to does not hold all that they have been shown. */
export class EditionBehind extends Error {
  override readonly name = 'EditionBehind';
}

export function firstEdition({ version }: { readonly version: number }): string {
  return `v${version}`;
}

export function versionOf(edition: string): number {
  return Number(/^v(\d+)/.exec(edition)?.[1]);
}

export function documentsOf(edition: string): string {
  return `documents-${edition}`;
}

/** Selects the dead letters of one edition, whose ids are `<edition>:<stream>`. */
export function lettersOf(edition: string) {
  return { _id: { $gte: `${edition}:`, $lt: `${edition};` } };
}

/** The projector of a version, if this build ships it. */
export function shipped<Doc>(projection: Projection<Doc>, version: number): Projection<Doc> | undefined {
  return [projection, projection.previous?.projection].find((one) => one?.version === version);
}

/** The rebuild that has not ended, if there is one. */
export function underWay({ rebuilds }: Editions): Rebuild | undefined {
  const newest = rebuilds.at(-1);
  return newest && UNDER_WAY.some((phase) => phase === newest.phase) ? newest : undefined;
}

/** All editions that are not to be dropped. */
export function keptIn(editions: Editions): string[] {
  const { live, previous } = editions;
  return [live, previous?.edition, underWay(editions)?.edition].filter((edition) => edition !== undefined);
}

/** Undefined where the read model was last written before there were editions, or never. */
export async function readEditions(
  model: ReadModel,
  session?: ClientSession,
): Promise<StoredEditions | undefined> {
  const stored = await editionsIn(model).findOne({ _id: EDITIONS }, session ? { session } : {});
  return stored ?? undefined;
}

/**
 * The edition that a reader of this build is given: the live one, or, of a version that it does not know, the one
 * kept beside it. Undefined where it knows neither.
 */
export async function editionToRead<Doc>(
  projection: Projection<Doc>,
  model: ReadModel,
): Promise<string | undefined> {
  const editions = await readEditions(model);
  if (!editions) return newestOf(await positionsIn(model).find().toArray()) ?? firstEdition(projection);
  const { live, previous } = editions;
  return [live, previous?.edition].find(
    (edition) => edition !== undefined && shipped(projection, versionOf(edition)),
  );
}

function newestOf(positions: readonly { readonly _id: string }[]): string | undefined {
  return positions.map(({ _id }) => _id).sort((one, other) => versionOf(other) - versionOf(one))[0];
}

/** The editions of one projection, read and changed. A change is conditional on nobody having made another meanwhile. */
export class EditionStore<Doc> {
  constructor(
    private readonly projection: Projection<Doc>,
    private readonly model: ReadModel,
  ) {}

  /**
   * What there is; on a read model from before there were editions, that of the newest version is live. A live
   * edition older than all that this build ships nobody can keep current: a new one of this version takes its place.
   */
  async open(): Promise<Editions> {
    const { projection, model } = this;
    const positions = await answered(positionsIn(model).find().toArray());
    const found = await answered(readEditions(model));
    if (!found) {
      const live = newestOf(positions) ?? firstEdition(projection);
      const first = { _id: EDITIONS, revision: 0, live, begun: 1, rebuilds: [] };
      await answered(
        editionsIn(model).updateOne({ _id: EDITIONS }, { $setOnInsert: first }, { upsert: true }),
      );
    }
    const editions = found ?? (await this.read());
    await this.sweep(positions, editions);
    if (versionOf(editions.live) >= this.oldest()) return editions;
    return this.change(({ begun, rebuilds }) => {
      return { live: `v${projection.version}-${begun}`, begun: begun + 1, rebuilds };
    });
  }

  async read(): Promise<Editions> {
    const editions = await answered(readEditions(this.model));
    if (!editions) throw new EditionGone(`${this.projection.name} has no editions`);
    return editions;
  }

  /** Applies a change to what is stored; run again where another change came between. */
  async change(next: (editions: Editions) => Editions): Promise<Editions> {
    for (;;) {
      const changed = await answered(this.replace(next));
      if (changed) return changed;
    }
  }

  /**
   * Gives readers another edition in one transaction that fails unless that edition holds every event that the live
   * one does. It writes the live one's position too, so that the live one cannot move on beside it.
   *
   * @throws EditionBehind
   */
  async switchTo(edition: string, next: (editions: Editions) => Editions): Promise<Editions> {
    let changed: Editions | undefined;
    await this.model.transaction(async (session) => {
      const { live } = (await readEditions(this.model, session)) ?? { live: '' };
      const at = (_id: string) => positionsIn(this.model).findOne({ _id }, { session });
      const [from, to] = [await at(live), await at(edition)];
      const shown = from?.lastEvent?.position ?? from?.position ?? -1n;
      if ((to?.position ?? -1n) < shown) throw new EditionBehind(`${edition} is behind ${live}`);
      await positionsIn(this.model).updateOne({ _id: live }, { $inc: { switches: 1 } }, { session });
      changed = await this.replace(next, session);
    });
    if (!changed) throw new EditionBehind(`the editions of ${this.projection.name} changed meanwhile`);
    return changed;
  }

  /** Removes an edition that is no longer listed: documents, dead letters, and at last the position. */
  async drop(edition: string): Promise<void> {
    await answered(this.model.remove(documentsOf(edition)));
    await answered(this.model.collection<{ _id: string }>(DEAD_LETTERS).deleteMany(lettersOf(edition)));
    await answered(positionsIn(this.model).deleteOne({ _id: edition }));
  }

  async position(edition: string): Promise<bigint | null> {
    const found = await answered(positionsIn(this.model).findOne({ _id: edition }));
    return found?.position ?? null;
  }

  /** What a kill left of editions that were to be dropped; the positions were read before the list of what is kept. */
  private async sweep(positions: readonly PositionDocument[], editions: Editions): Promise<void> {
    const kept = keptIn(editions);
    const newest = this.projection.version;
    for (const { _id } of positions)
      if (!kept.includes(_id) && versionOf(_id) <= newest) await this.drop(_id);
  }

  private oldest(): number {
    const { version, previous } = this.projection;
    return previous?.projection.version ?? version;
  }

  private async replace(
    next: (editions: Editions) => Editions,
    session?: ClientSession,
  ): Promise<Editions | undefined> {
    const before = await readEditions(this.model, session);
    if (!before) throw new EditionGone(`${this.projection.name} has no editions`);
    const { rebuilds, ...rest } = next(before);
    const revision = before.revision + 1;
    const after = { ...rest, rebuilds: rebuilds.slice(-REBUILDS_REMEMBERED), _id: EDITIONS, revision };
    const { matchedCount } = await editionsIn(this.model).replaceOne(
      { _id: EDITIONS, revision: before.revision },
      after,
      session ? { session } : {},
    );
    return matchedCount === 1 ? after : undefined;
  }
}

function editionsIn(model: ReadModel): Collection<StoredEditions> {
  return model.collection<StoredEditions>(EDITIONS);
}

function positionsIn(model: ReadModel): Collection<PositionDocument & { switches?: number }> {
  return model.collection<PositionDocument & { switches?: number }>(POSITIONS);
}
