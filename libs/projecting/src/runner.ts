import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { type Delivery, advance, openFor } from './event-log.js';
import { EditionGone } from './editions.js';
import { DeliveryBuffer, type Intake } from './intake.js';
import { type Projection, type Recorded, type View, codeOf, project } from './projection.js';
import { type Batch, type DeadLetter, ProjectionStore } from './projection-store.js';
import { type LaneOptions, type ProjectionStatus, Rate, Waiters } from './lane.js';
import { documentId } from './stored.js';
import type { Stores } from './stores.js';

const BATCH = 500;
const POSITION_SAVED_EVERY_MS = 1_000;
const LONGEST_BACKOFF_MS = 5_000;
const LONGEST_DRAIN_MS = 5_000;
const CACHED_VIEWS = 500;
/** How long a projection rests for the time that a commit took, and at most. */
const REST_FOR_WORK = 4;
const LONGEST_REST_MS = 200;

class TooManyDeadLetters extends Error {
  override readonly name = 'TooManyDeadLetters';
}

/**
 * Keeps one edition of a projection up to date: one lane, in log order.
 *
 * What arrives while a batch commits, and in a rest of four times that time, is the next batch: under load many events
 * share a document and a commit, and commands have the machine. A full batch, and whoever waits for a position, end
 * the rest; after a pause in the log there is none. Documents, position and dead letters of a
 * batch stand or fall together, so a stop at any moment, a kill or a second delivery changes nothing. Whatever fails
 * other than a projector (a store that is down, a position that another writer moved) ends the lane, and it starts
 * again from the stored position after a wait that grows to five seconds; meanwhile the status is `stalled`.
 *
 * An event that a projector throws on, or that cannot be opened or is not known, becomes its stream's dead letter:
 * later events of that stream wait in the log behind it, other streams go on. Each start tries it again.
 */
export class ProjectionRunner<Doc> {
  private readonly store: ProjectionStore<Doc>;
  private readonly cache = new LRUCache<string, View<Doc>>({ max: CACHED_VIEWS });
  private readonly held = new Map<string, DeadLetter>();
  private readonly waiters = new Waiters();
  private restUntil = 0;
  private endRest: () => void = () => undefined;
  private committing = new Map<string, View<Doc>>();
  private state: ProjectionStatus['status'] = 'stopped';
  private position: bigint | null = null;
  private saved: { position: bigint | null; at: number } = { position: null, at: 0 };
  private newest = 0n;
  private received = 0;
  private applied = 0;
  private batches = 0;
  private readonly rate = new Rate();
  private allowedFrom = 0;
  private behindSince: number | undefined;
  private retried = false;
  private stopping = new AbortController();
  private running: Promise<void> | undefined;
  private looking: Promise<void> | undefined;

  constructor(
    private readonly projection: Projection<Doc>,
    private readonly stores: Stores,
    private readonly options: LaneOptions = {},
  ) {
    this.store = new ProjectionStore(projection, stores, options.edition);
  }

  /** Begins in the background, whether or not the stores answer yet. */
  start(): void {
    if (this.running) return;
    this.stopping = new AbortController();
    this.state = 'starting';
    this.retried = false;
    this.running = this.run(this.stopping.signal);
  }

  /** Ends after the batch under way, within five seconds; what was not committed is read again at the next start. */
  async stop(): Promise<void> {
    if (!this.running) return;
    this.stopping.abort();
    const waited = new AbortController();
    await Promise.race([
      this.running,
      delay(LONGEST_DRAIN_MS, undefined, { signal: waited.signal, ref: false }).catch(() => undefined),
    ]);
    waited.abort();
    await this.looking;
    this.running = undefined;
    this.state = 'stopped';
    this.waiters.giveUp();
  }

  status(): ProjectionStatus {
    const { name, version } = this.projection;
    const position = this.position ?? 0n;
    return {
      name,
      version,
      status: this.state,
      position,
      head: this.newest > position ? this.newest : position,
      lagEvents: this.received - this.applied,
      lagSeconds: this.behindSince === undefined ? 0 : Math.max(0, (Date.now() - this.behindSince) / 1_000),
      rate: this.rate.of(this.applied),
      deadLetters: this.held.size,
      batches: this.batches,
      events: this.applied,
    };
  }

  /** Whether the read model has reached a position of the log, waiting for it so many milliseconds at most. */
  waitFor(position: bigint, milliseconds: number): Promise<boolean> {
    if (this.position !== null && this.position >= position) return Promise.resolve(true);
    const over = this.state === 'standing-back' || this.state === 'failed';
    if (over || this.stopping.signal.aborted) return Promise.resolve(false);
    const reached = this.waiters.waitFor(position, milliseconds);
    this.endRest();
    void Promise.resolve(this.looking).then(() => this.look());
    return reached;
  }

  private async run(stop: AbortSignal): Promise<void> {
    for (let failures = 0; !stop.aborted; failures += 1) {
      const before = this.batches;
      try {
        await this.lane(stop);
      } catch (error) {
        if (stop.aborted) return;
        if (error instanceof EditionGone) return this.end('standing-back');
        if (error instanceof TooManyDeadLetters) return this.end('failed');
        if (this.batches > before) failures = 0;
        this.state = 'stalled';
        this.behindSince ??= Date.now();
        const retryInMs = Math.min(100 * 2 ** failures, LONGEST_BACKOFF_MS);
        const { name } = this.projection;
        this.stores.notice('a projection stalls', { projection: name, code: codeOf(error), retryInMs });
        await delay(retryInMs, undefined, { signal: stop }).catch(() => undefined);
      }
    }
  }

  /** For good: whoever waits is told that what was waited for will not come. */
  private end(state: 'standing-back' | 'failed'): void {
    this.state = state;
    this.waiters.giveUp();
  }

  private async lane(stop: AbortSignal): Promise<void> {
    await this.resume();
    const ended = new AbortController();
    const signal = AbortSignal.any([stop, ended.signal]);
    const after = this.position ?? 'start';
    const deliveries = this.stores.log.subscribe({ prefix: this.projection.prefix, after, signal });
    const buffer = new DeliveryBuffer(deliveries, BATCH, (delivery) => this.note(delivery));
    this.state = 'catching-up';
    try {
      await this.apply(buffer, stop);
      if (!stop.aborted) throw new Error('the subscription has ended');
    } finally {
      ended.abort();
      await buffer.close();
    }
  }

  /** Takes up where the store says: nothing held in memory outlives a failed lane. */
  private async resume(): Promise<void> {
    this.cache.clear();
    this.committing.clear();
    this.held.clear();
    const { position, deadLetters } = await this.store.open();
    this.position = position;
    this.saved = { position, at: Date.now() };
    this.received = this.applied;
    for (const letter of deadLetters) this.held.set(letter.stream, letter);
    if (!this.retried) for (const letter of deadLetters) await this.retry(letter);
    this.retried = true;
    const head = await this.stores.log.head();
    if (head > this.newest) this.newest = head;
    if (this.position !== null) this.reach(this.position);
  }

  private async apply(buffer: DeliveryBuffer, stop: AbortSignal): Promise<void> {
    let commit = Promise.resolve();
    try {
      for (;;) {
        await Promise.race([commit, buffer.full]);
        await this.rest(stop, buffer.full);
        await this.keepPace(stop);
        const intake = await buffer.take();
        if (!intake || stop.aborted) break;
        const batch = await this.fold(intake);
        await commit;
        commit = this.commit(intake, batch, buffer);
        commit.catch(() => 'thrown where it is awaited');
      }
    } finally {
      await Promise.allSettled([commit]);
    }
    await commit;
    await this.savePosition();
  }

  /** For whoever waits: events of other streams pass unheard, so the log is asked whether it holds any to wait for. */
  private look(): void {
    const idle = this.state === 'live' && this.received === this.applied;
    if (!idle || this.looking || this.waiters.size === 0) return;
    const { prefix } = this.projection;
    this.looking = this.stores.log
      .silentThrough({ prefix, after: this.position ?? 0n, signal: this.stopping.signal })
      .then((through) => this.reach(through))
      .catch((error: unknown) =>
        this.stores.notice('a look at the log failed', { prefix, code: codeOf(error) }),
      )
      .finally(() => (this.looking = undefined));
  }

  private async rest(stop: AbortSignal, full: Promise<void>): Promise<void> {
    const left = this.restUntil - performance.now();
    if (left <= 0 || this.waiters.size > 0 || stop.aborted) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        stop.removeEventListener('abort', end);
        resolve();
      };
      const timer = setTimeout(end, left);
      stop.addEventListener('abort', end);
      this.endRest = end;
      void full.then(end);
    });
  }

  private async keepPace(stop: AbortSignal): Promise<void> {
    const left = this.allowedFrom - performance.now();
    if (left > 0) await delay(left, undefined, { signal: stop }).catch(() => undefined);
  }

  /** Folds events per document, from the newest views: those being committed count as standing. */
  private async fold({ events, through }: Intake): Promise<Batch<Doc>> {
    const views = await this.current(events);
    const pace = this.options.pace?.() ?? null;
    if (pace !== null) this.allowedFrom = performance.now() + (1_000 * events.length) / pace;
    const { log } = this.stores;
    const opened = await Promise.all(events.map((event) => openFor(this.projection, log, event)));
    const changed = new Map<string, View<Doc>>();
    const setAside: DeadLetter[] = [];
    events.forEach((event, index) => {
      if (this.held.has(event.stream)) return;
      const _id = documentId(event.tenant, event.id);
      try {
        const open = opened[index]!;
        if ('failure' in open) throw open.failure;
        const view = project(this.projection, views.get(_id), open.readable);
        if (view === views.get(_id)) return;
        views.set(_id, view);
        changed.set(_id, view);
      } catch (error) {
        setAside.push(this.hold(event, codeOf(error)));
      }
    });
    const { mostDeadLetters = Infinity } = this.options;
    if (this.held.size > mostDeadLetters)
      throw new TooManyDeadLetters(`${this.projection.name} set ${this.held.size} streams aside`);
    const last = events.at(-1);
    return {
      views: [...changed.values()],
      setAside,
      released: [],
      through: through ?? this.position,
      ...(last && { last: placeOf(last) }),
    };
  }

  private async current(events: readonly Recorded[]): Promise<Map<string, View<Doc>>> {
    const views = new Map<string, View<Doc>>();
    const unknown = new Map<string, Recorded>();
    for (const event of events) {
      const _id = documentId(event.tenant, event.id);
      const view = this.committing.get(_id) ?? this.cache.get(_id);
      if (view) views.set(_id, view);
      else unknown.set(_id, event);
    }
    for (const view of await this.store.load([...unknown.values()]))
      views.set(documentId(view.tenant, view.id), view);
    return views;
  }

  private hold(event: Recorded, code: string, attempts = 1): DeadLetter {
    const { stream, tenant, id, revision, eventId } = event;
    const letter = {
      stream,
      tenant,
      id,
      revision,
      eventId,
      code,
      attempts,
      failedAt: new Date().toISOString(),
    };
    this.held.set(stream, letter);
    const projection = this.projection.name;
    this.stores.notice('an event is set aside', { projection, stream, revision, code, attempts });
    return letter;
  }

  private async commit(
    { events, caughtUp }: Intake,
    batch: Batch<Doc>,
    buffer: DeliveryBuffer,
  ): Promise<void> {
    this.committing = new Map(batch.views.map((view) => [documentId(view.tenant, view.id), view]));
    if (events.length > 0) {
      const began = performance.now();
      await this.store.commit(this.saved.position, batch);
      const ended = performance.now();
      this.restUntil = ended + Math.min(REST_FOR_WORK * (ended - began), LONGEST_REST_MS);
      this.saved = { position: batch.through, at: Date.now() };
      this.batches += 1;
      this.applied += events.length;
    }
    for (const [_id, view] of this.committing) this.cache.set(_id, view);
    if (batch.through !== null) this.reach(batch.through);
    if (caughtUp) this.state = 'live';
    this.behindSince = buffer.oldest && recordedAt(buffer.oldest);
    this.look();
    if (Date.now() - this.saved.at >= POSITION_SAVED_EVERY_MS) await this.savePosition();
  }

  private async savePosition(): Promise<void> {
    if (this.position === null || this.position === this.saved.position) return;
    await this.store.savePosition(this.saved.position, this.position);
    this.saved = { position: this.position, at: Date.now() };
  }

  /** Applies a held stream from its log again, up to the position reached, or counts another attempt. */
  private async retry(letter: DeadLetter): Promise<void> {
    const { stream, tenant, id } = letter;
    const [before] = await this.store.load([{ tenant, id }]);
    let view = before;
    let again: DeadLetter | undefined;
    const { log } = this.stores;
    for await (const event of log.read(stream, { from: view ? view.revision + 1n : 0n })) {
      if (this.position === null || event.position > this.position) break;
      const next = await advance(this.projection, log, view, event);
      if ('code' in next) {
        const attempts = event.revision === letter.revision ? letter.attempts + 1 : 1;
        again = this.hold(event, next.code, attempts);
        break;
      }
      view = next.view;
    }
    if (!again) this.held.delete(stream);
    await this.store.commit(this.position, {
      views: view && view !== before ? [view] : [],
      setAside: again ? [again] : [],
      released: again ? [] : [stream],
      through: this.position,
    });
  }

  private note(delivery: Delivery): void {
    if (delivery.kind === 'caught-up') return;
    const position = delivery.kind === 'event' ? delivery.event.position : delivery.position;
    if (position > this.newest) this.newest = position;
    if (delivery.kind === 'position') return;
    this.received += 1;
    this.behindSince ??= recordedAt(delivery.event);
  }

  private reach(position: bigint): void {
    if (this.position === null || position > this.position) this.position = position;
    this.waiters.reach(position);
  }
}

function placeOf({ stream, revision, eventId, position }: Recorded) {
  return { stream, revision, eventId, position };
}

function recordedAt(event: Recorded): number {
  return Date.parse(event.metadata.recordedAt) || Date.now();
}
