import { setTimeout as delay } from 'node:timers/promises';
import { EventEmitter, once } from 'node:events';
import { compareEditions, isClean } from './compare-editions.js';
import {
  type Editions,
  EditionBehind,
  EditionStore,
  type Rebuild,
  keptIn,
  shipped,
  underWay,
  versionOf,
} from './editions.js';
import { type Projection, codeOf } from './projection.js';
import { Refused, type RebuildOrder, type ShownRebuild, progressOf } from './rebuild.js';
import type { ProjectionStatus } from './lane.js';
import { Lanes } from './lanes.js';
import type { ProjectionRunner } from './runner.js';
import type { Stores } from './stores.js';

/** How long readers can be switched back, by default: a day. */
const KEPT_MS = 24 * 60 * 60 * 1_000;
const MOST_DEAD_LETTERS = 100;
const LONGEST_WAIT_MS = 2 ** 31 - 1;
const LONGEST_BACKOFF_MS = 5_000;
const LONGEST_SWITCH_MS = 10_000;

export interface VersionedOptions {
  readonly keptMs?: number;
  readonly mostDeadLetters?: number;
}

/**
 * One projection with all its editions: the live one, the one before, and one that is being built, each in a lane of
 * its own with its own position and dead letters, so that none can stop another.
 *
 * What was ordered is stored before it is begun, so a rebuild goes on where it was after any stop; a stage that a
 * kill broke off (comparing) is done again. Orders are carried out one after the other. Readers are switched by one
 * transaction (`EditionStore.switchTo`), which fails unless the other edition holds all that they have been shown.
 *
 * A store that does not answer at the start is waited for. Where the live version is newer than this build, nothing
 * runs here: it stands back, and its readers are given the version that the newer build keeps beside it.
 */
export class VersionedProjection<Doc> {
  private readonly editions: EditionStore<Doc>;
  private readonly lanes: Lanes<Doc>;
  private readonly changed = new EventEmitter();
  private known: Editions | undefined;
  private state: 'starting' | 'stalled' | 'standing-back' | 'stopped' = 'stopped';
  private stopping = new AbortController();
  private running: Promise<void> = Promise.resolve();
  private driving: Promise<void> | undefined;
  private ordered: Promise<unknown> = Promise.resolve();
  private dropping: NodeJS.Timeout | undefined;

  constructor(
    private readonly projection: Projection<Doc>,
    private readonly stores: Stores,
    private readonly options: VersionedOptions = {},
  ) {
    this.changed.setMaxListeners(0);
    const { mostDeadLetters = MOST_DEAD_LETTERS } = options;
    this.lanes = new Lanes(projection, stores, (edition) => this.rebuildOf(edition), mostDeadLetters);
    this.editions = new EditionStore(projection, stores.models.openReadModel(projection.name));
  }

  /** Begins in the background, whether or not the stores answer yet. */
  start(): void {
    this.stopping = new AbortController();
    this.state = 'starting';
    this.running = this.begin(this.stopping.signal);
  }

  /** Ends every lane after the batch under way; what is being built goes on at the next start. */
  async stop(): Promise<void> {
    this.stopping.abort();
    clearTimeout(this.dropping);
    this.changed.emit('change');
    await this.running;
    await this.ordered.catch(() => 'answered where it was ordered');
    await this.lanes.stop();
    await this.driving;
    this.known = undefined;
    this.state = 'stopped';
  }

  status(): ProjectionStatus {
    const lane = this.liveLane();
    if (lane) return lane.status();
    const { name, version } = this.projection;
    const nothing = { position: 0n, head: 0n, lagEvents: 0, lagSeconds: 0, rate: 0, deadLetters: 0 };
    return { name, version, status: this.state, ...nothing, batches: 0, events: 0 };
  }

  /** Whether what readers are given holds a position, waiting for it so many milliseconds at most. */
  async waitFor(position: bigint, milliseconds: number): Promise<boolean> {
    const until = performance.now() + milliseconds;
    for (;;) {
      const left = Math.max(0, until - performance.now());
      const lane = this.liveLane();
      if (this.state === 'standing-back') return this.storedReaches(position);
      const reached = lane ? await lane.waitFor(position, left) : await this.laneWithin(left);
      if (reached && lane !== undefined && lane === this.liveLane()) return true;
      if (performance.now() >= until || this.stopping.signal.aborted) return false;
      if (!reached && lane === this.liveLane()) return false;
    }
  }

  /** Carries an order out. @throws Refused where the state does not permit it; nothing has changed then. */
  order(order: RebuildOrder): Promise<ShownRebuild> {
    const done = this.ordered.then(() => this.carryOut(order));
    this.ordered = done.catch(() => 'answered where it was ordered');
    return done;
  }

  private async begin(stop: AbortSignal): Promise<void> {
    for (let failures = 0; !stop.aborted; failures += 1) {
      try {
        await this.take(await this.editions.open());
        return;
      } catch (error) {
        this.state = 'stalled';
        const retryInMs = Math.min(100 * 2 ** failures, LONGEST_BACKOFF_MS);
        const { name } = this.projection;
        this.stores.notice('a projection stalls', { projection: name, code: codeOf(error), retryInMs });
        await delay(retryInMs, undefined, { signal: stop }).catch(() => undefined);
      }
    }
  }

  /** Makes the lanes those of the editions that are kept, and has a rebuild under way go on. */
  private async take(editions: Editions): Promise<void> {
    this.known = editions;
    const building = underWay(editions);
    const back = versionOf(editions.live) > this.projection.version;
    if (back) {
      this.state = 'standing-back';
      const { name } = this.projection;
      this.stores.notice('a newer version is live; this build stands back', { projection: name });
    }
    const kept = back ? [] : keptIn(editions);
    const wanted = kept.filter((edition) => edition !== building?.edition || building.phase !== 'paused');
    await this.lanes.run(this.stopping.signal.aborted ? [] : wanted);
    this.changed.emit('change');
    this.keepPreviousUntil(editions);
    if (building && this.lanes.has(building.edition)) this.drive();
  }

  private rebuildOf(edition: string): Rebuild | undefined {
    const building = this.known && underWay(this.known);
    return building?.edition === edition ? building : undefined;
  }

  private liveLane(): ProjectionRunner<Doc> | undefined {
    return this.known && this.lanes.get(this.known.live);
  }

  private async laneWithin(milliseconds: number): Promise<boolean> {
    const signal = AbortSignal.timeout(Math.ceil(milliseconds));
    return once(this.changed, 'change', { signal }).then(
      () => true,
      () => false,
    );
  }

  /** Another build keeps what this one's readers are given. */
  private async storedReaches(position: bigint): Promise<boolean> {
    const { previous } = await this.editions.read();
    return previous !== undefined && ((await this.editions.position(previous.edition)) ?? -1n) >= position;
  }

  private keepPreviousUntil({ previous }: Editions): void {
    clearTimeout(this.dropping);
    if (!previous || this.state === 'standing-back' || this.stopping.signal.aborted) return;
    const left = Math.max(0, Date.parse(previous.until) - Date.now());
    this.dropping = setTimeout(
      () => {
        this.ordered = this.ordered
          .then(() => this.dropPrevious(previous.edition))
          .catch((error: unknown) =>
            this.failed('a version that nobody is given could not be dropped', error),
          );
      },
      Math.min(left, LONGEST_WAIT_MS),
    );
    this.dropping.unref();
  }

  private async dropPrevious(edition: string): Promise<void> {
    if (this.stopping.signal.aborted) return;
    const editions = await this.editions.change((before) => {
      const { previous, ...rest } = before;
      return previous?.edition === edition && Date.parse(previous.until) <= Date.now() ? rest : before;
    });
    await this.take(editions);
    if (!keptIn(editions).includes(edition)) await this.editions.drop(edition);
  }

  /** Has a rebuild go on to the stage where it waits for an operator; once for however many calls. */
  private drive(): void {
    this.driving ??= this.driveOn(this.stopping.signal).finally(() => (this.driving = undefined));
  }

  private async driveOn(stop: AbortSignal): Promise<void> {
    for (let failures = 0; !stop.aborted; failures += 1) {
      try {
        while (!stop.aborted && (await this.stage(stop)));
        return;
      } catch (error) {
        if (stop.aborted) return;
        this.failed('a rebuild waits', error);
        const retryInMs = Math.min(100 * 2 ** failures, LONGEST_BACKOFF_MS);
        await delay(retryInMs, undefined, { signal: stop }).catch(() => undefined);
      }
    }
  }

  /** Catches up, compares, or switches where that was ordered; gives whether there is a next stage. */
  private async stage(stop: AbortSignal): Promise<boolean> {
    const building = this.known && underWay(this.known);
    const lane = building && this.lanes.get(building.edition);
    if (!building || !lane) return false;
    const { rebuildId, phase, autoSwitch } = building;
    if (phase === 'ready' && autoSwitch) {
      await this.order({ do: 'switch', rebuildId, by: building.startedBy });
      return false;
    }
    if (phase !== 'building' && phase !== 'comparing') return false;
    if (await lane.waitFor(await this.stores.log.head(), LONGEST_WAIT_MS)) {
      await this.compare(building, stop);
      return true;
    }
    if (lane.status().status !== 'failed') return false;
    await this.turn(async () => {
      await this.put(rebuildId, { phase: 'failed', code: 'too-many-dead-letters' });
      await this.editions.drop(building.edition);
    });
    return true;
  }

  private async compare({ rebuildId, edition }: Rebuild, stop: AbortSignal): Promise<void> {
    const { live } = await this.turn(() =>
      this.put(rebuildId, { phase: 'comparing' }, ['building', 'comparing']),
    );
    const through = await this.reachedByBoth(live, edition);
    if (through === undefined) return;
    const side = (name: string) => ({
      edition: name,
      projection: shipped(this.projection, versionOf(name)) ?? this.projection,
    });
    const comparison = await compareEditions(side(live), side(edition), through, this.stores, stop);
    const phase = isClean(comparison) ? 'ready' : 'differs';
    await this.turn(() => this.put(rebuildId, { phase, comparison }, ['comparing']));
    this.stores.notice('a rebuild is compared', { projection: this.projection.name, rebuildId, phase });
  }

  /** A position that is in the documents of both editions. */
  private async reachedByBoth(...editions: string[]): Promise<bigint | undefined> {
    const head = await this.stores.log.head();
    for (const edition of editions)
      if (!(await this.lanes.get(edition)?.waitFor(head, LONGEST_WAIT_MS))) return undefined;
    return head;
  }

  private turn<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = this.ordered.then(work);
    this.ordered = done.catch(() => 'thrown where it is awaited');
    return done;
  }

  private async put(
    rebuildId: string,
    change: Partial<Rebuild>,
    from?: readonly Rebuild['phase'][],
  ): Promise<Editions> {
    const editions = await this.editions.change((before) => {
      const stands = before.rebuilds.find((each) => each.rebuildId === rebuildId);
      if (!stands || underWay(before) !== stands || (from && !from.includes(stands.phase))) return before;
      return withRebuild(before, { ...stands, ...change });
    });
    await this.take(editions);
    return editions;
  }

  private async carryOut(order: RebuildOrder): Promise<ShownRebuild> {
    if (!this.known && !this.stopping.signal.aborted) await this.laneWithin(LONGEST_BACKOFF_MS);
    if (!this.known || this.state === 'standing-back' || this.stopping.signal.aborted)
      throw new Refused('rebuild-not-possible', 'this process does not keep the projection');
    switch (order.do) {
      case 'start':
        return this.begun(order);
      case 'rollback':
        return this.rollBack(order.by);
      case 'show':
        return this.shown(this.found(order.rebuildId));
      case 'switch':
        return this.switchOver(this.found(order.rebuildId), order);
      case 'pause':
      case 'resume':
      case 'throttle':
      case 'abort':
        return this.steered(this.found(order.rebuildId), order);
    }
  }

  private found(rebuildId: string): Rebuild {
    const found = this.known?.rebuilds.find((each) => each.rebuildId === rebuildId);
    if (!found) throw new Refused('not-found', `there is no rebuild ${rebuildId}`);
    return found;
  }

  private async begun({
    rebuildId,
    version,
    autoSwitch,
    by,
  }: RebuildOrder & { do: 'start' }): Promise<ShownRebuild> {
    const wanted = version ?? this.projection.version;
    if (!shipped(this.projection, wanted))
      throw new Refused('version-not-shipped', `this build does not ship version ${wanted}`);
    const startedAt = new Date().toISOString();
    const editions = await this.editions.change((before) => {
      if (before.rebuilds.some((each) => each.rebuildId === rebuildId)) return before;
      if (underWay(before))
        throw new Refused('rebuild-running', 'a rebuild of this projection has not ended');
      const edition = `v${wanted}-${before.begun}`;
      const rebuild: Rebuild = {
        rebuildId,
        edition,
        version: wanted,
        phase: 'building',
        autoSwitch,
        eventsPerSecond: null,
        startedBy: by,
        startedAt,
      };
      return { ...before, begun: before.begun + 1, rebuilds: [...before.rebuilds, rebuild] };
    });
    await this.take(editions);
    return this.shown(this.found(rebuildId));
  }

  private async steered(
    rebuild: Rebuild,
    order: RebuildOrder & { do: 'pause' | 'resume' | 'throttle' | 'abort' },
  ): Promise<ShownRebuild> {
    const { phase, rebuildId, edition } = rebuild;
    const refuse = () => new Refused('rebuild-state', `the rebuild is ${phase}`);
    if (this.known && underWay(this.known) !== rebuild) throw refuse();
    if (order.do === 'pause') {
      if (phase !== 'building') throw refuse();
      await this.put(rebuildId, { phase: 'paused' });
    } else if (order.do === 'resume') {
      if (phase !== 'paused') throw refuse();
      await this.put(rebuildId, { phase: 'building' });
    } else if (order.do === 'throttle') {
      await this.put(rebuildId, { eventsPerSecond: order.eventsPerSecond });
    } else {
      await this.put(rebuildId, { phase: 'aborted' });
      await this.editions.drop(edition);
    }
    return this.shown(this.found(rebuildId));
  }

  private async switchOver(
    rebuild: Rebuild,
    { by, reason }: RebuildOrder & { do: 'switch' },
  ): Promise<ShownRebuild> {
    const { rebuildId, edition, phase } = rebuild;
    if (phase !== 'ready' && phase !== 'differs')
      throw new Refused('rebuild-state', `the rebuild is ${phase}`);
    if (phase === 'differs' && reason === undefined)
      throw new Refused(
        'comparison-not-clean',
        'documents differ: a reason is needed to switch all the same',
      );
    const override =
      phase === 'differs' && reason !== undefined ? { by, reason, at: new Date().toISOString() } : undefined;
    await this.giveReaders(edition, (before) => {
      const switched: Rebuild = { ...rebuild, phase: 'switched', ...(override && { override }) };
      return { ...withRebuild(before, switched), live: edition, previous: this.kept(before.live) };
    });
    return this.shown(this.found(rebuildId));
  }

  private async rollBack(by: string): Promise<ShownRebuild> {
    const previous = this.known?.previous?.edition;
    const switched = this.known?.rebuilds.findLast(({ edition }) => edition === this.known?.live);
    if (previous === undefined || switched?.phase !== 'switched' || !this.lanes.has(previous))
      throw new Refused('nothing-to-roll-back', 'no version is kept to which readers could be switched back');
    await this.giveReaders(previous, (before) => {
      const back: Rebuild = { ...switched, phase: 'rolled-back' };
      return { ...withRebuild(before, back), live: previous, previous: this.kept(before.live) };
    });
    this.stores.notice('a projection is rolled back', { projection: this.projection.name, by });
    return this.shown(this.found(switched.rebuildId));
  }

  private kept(edition: string): Editions['previous'] {
    const until = new Date(Date.now() + (this.options.keptMs ?? KEPT_MS)).toISOString();
    return { edition, until };
  }

  /** The one notice of a switch comes once it stands. */
  private async giveReaders(edition: string, next: (before: Editions) => Editions): Promise<void> {
    const lane = this.lanes.get(edition);
    const until = performance.now() + LONGEST_SWITCH_MS;
    for (let switched: Editions | undefined; !switched;) {
      const shown = this.liveLane()?.status().position ?? 0n;
      await lane?.waitFor(shown, Math.max(0, until - performance.now()));
      switched = await this.editions.switchTo(edition, next).catch((error: unknown) => {
        if (!(error instanceof EditionBehind)) throw error;
        if (performance.now() >= until || this.stopping.signal.aborted)
          throw new Refused('rebuild-behind', 'the version does not catch up with the live one');
        return undefined;
      });
      if (switched) await this.take(switched);
    }
    this.stores.notice('readers are given another version', { projection: this.projection.name, edition });
  }

  private async shown(rebuild: Rebuild): Promise<ShownRebuild> {
    const head = await this.stores.log.head();
    const position = await this.editions.position(rebuild.edition);
    return progressOf(rebuild, head, position, this.lanes.get(rebuild.edition)?.status());
  }

  private failed(text: string, error: unknown): void {
    this.stores.notice(text, { projection: this.projection.name, code: codeOf(error) });
  }
}

function withRebuild(editions: Editions, rebuild: Rebuild): Editions {
  const { rebuilds } = editions;
  return {
    ...editions,
    rebuilds: rebuilds.map((each) => (each.rebuildId === rebuild.rebuildId ? rebuild : each)),
  };
}
