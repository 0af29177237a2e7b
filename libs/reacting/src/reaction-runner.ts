import { setTimeout as delay } from 'node:timers/promises';
import {
  type DeadLetter,
  type EventLog,
  type Notice,
  type ReadModels,
  ReadModelUnavailable,
  type Recorded,
  codeOf,
} from '#libs/projecting';
import { DeadLetters, type RetryWaits } from './dead-letters.js';
import { ReactionStore } from './reaction-store.js';
import { Unfinished } from './unfinished.js';

/** What is done when an event is heard. */
export interface Reaction {
  readonly name: string;
  /** Streams `<category>-…` are heard. */
  readonly category: string;
  readonly hears: readonly string[];
  /**
   * Carries it out, and may be called again for the same event, also after it succeeded: every effect must be one
   * whose repetition changes nothing. The event is as stored; its personal fields are sealed.
   */
  react(event: Recorded): Promise<void>;
  /**
   * Whether trying again soon can help; an error of the operating system or of the read models always counts as
   * such. Anything else becomes a dead letter.
   */
  isTransient(error: unknown): boolean;
}

export interface ReactionStatus {
  readonly name: string;
  readonly status: 'starting' | 'running' | 'stalled' | 'stopped';
  /** Everything up to here is done. */
  readonly position: bigint;
  readonly newest: bigint;
  /** Events heard and not done, those that wait to be tried again among them. */
  readonly unfinished: number;
  readonly deadLetters: number;
  /** Attempts of dead letters since the process began. */
  readonly retried: number;
  readonly handled: number;
}

export interface ReactionStores {
  readonly log: EventLog;
  readonly models: ReadModels;
  readonly notice: Notice;
}

const AT_ONCE = 8;
const MOST_UNFINISHED = 1_000;
const POSITION_SAVED_EVERY_MS = 250;
const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 5_000;
const LONGEST_DRAIN_MS = 5_000;

/**
 * Hears events and issues commands, at least once each: what was not done when a process ended is done by the next.
 *
 * Events of one stream are handled in order, those of different streams at once, eight at most. A transient failure
 * is tried again for as long as it takes, with a wait that grows to five seconds and holds up its own stream only.
 * The stored position never passes an event that is neither done nor set aside as a dead letter. Dead letters are
 * tried again at each start and then after 30 seconds, a minute, two, up to ten minutes, in the queue of their stream.
 */
export class ReactionRunner {
  private readonly store: ReactionStore;
  private readonly slots = new Slots(AT_ONCE);
  private readonly tails = new Map<string, Promise<void>>();
  private readonly letters: DeadLetters;
  private readonly waiters = new Set<Waiter>();
  private unfinished = new Unfinished(undefined);
  private saved: { position: bigint | undefined; at: number } = { position: undefined, at: 0 };
  private saving: Promise<void> | undefined;
  private state: ReactionStatus['status'] = 'stopped';
  private handled = 0;
  private retried = 0;
  private stopping = new AbortController();
  private running: Promise<void> | undefined;
  private looking: Promise<void> | undefined;

  constructor(
    private readonly reaction: Reaction,
    private readonly stores: ReactionStores,
    waits?: RetryWaits,
  ) {
    this.letters = new DeadLetters((letter) => this.retry(letter, this.stopping.signal), waits);
    this.store = new ReactionStore(reaction.name, stores.models);
  }

  /** Begins in the background, whether or not the stores answer yet. */
  start(): void {
    if (this.running) return;
    this.stopping = new AbortController();
    this.state = 'starting';
    this.running = this.run(this.stopping.signal);
  }

  /** Ends when what is being carried out has ended, within five seconds; what is left is done at the next start. */
  async stop(): Promise<void> {
    if (!this.running) return;
    this.stopping.abort();
    this.letters.stop();
    const drained = new AbortController();
    const ended = Promise.all([this.running, ...this.tails.values()]).then(() => this.savePosition());
    await Promise.race([
      ended,
      delay(LONGEST_DRAIN_MS, undefined, { signal: drained.signal }).catch(() => undefined),
    ]);
    drained.abort();
    await this.looking;
    this.running = undefined;
    this.state = 'stopped';
    for (const waiter of this.waiters) waiter.settle(false);
  }

  status(): ReactionStatus {
    const { size, newest, done } = this.unfinished;
    return {
      name: this.reaction.name,
      status: this.state,
      position: done ?? 0n,
      newest: newest ?? 0n,
      unfinished: size,
      deadLetters: this.letters.size,
      retried: this.retried,
      handled: this.handled,
    };
  }

  /** Whether everything up to a position is done or set aside, waiting so many milliseconds at most. */
  waitFor(position: bigint, milliseconds: number): Promise<boolean> {
    if ((this.unfinished.done ?? -1n) >= position) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = setTimeout(() => waiter.settle(false), milliseconds);
      const waiter: Waiter = {
        position,
        settle: (reached) => {
          clearTimeout(timer);
          this.waiters.delete(waiter);
          resolve(reached);
        },
      };
      this.waiters.add(waiter);
      void Promise.resolve(this.looking).then(() => this.look());
    });
  }

  private async run(stop: AbortSignal): Promise<void> {
    for (let failures = 0; !stop.aborted; failures += 1) {
      try {
        await this.listen(stop);
        if (!stop.aborted) throw new Error('the subscription has ended');
      } catch (error) {
        if (stop.aborted) return;
        this.state = 'stalled';
        await this.pause(failures, 'a reaction stalls', { code: codeOf(error) }, stop);
      }
    }
  }

  private async listen(stop: AbortSignal): Promise<void> {
    const { position, deadLetters } = await this.store.open();
    this.unfinished = new Unfinished(position);
    this.saved = { position, at: Date.now() };
    this.letters.takeOver(deadLetters);
    for (const letter of deadLetters) this.retry(letter, stop);
    this.state = 'running';
    this.advanced();
    const { category, hears } = this.reaction;
    const heard = { prefix: `${category}-`, types: hears, signal: stop };
    for await (const delivery of this.stores.log.subscribe({ ...heard, after: position ?? 'start' })) {
      if (delivery.kind === 'position') this.pass(delivery.position);
      else if (delivery.kind === 'event') await this.enqueue(delivery.event, stop);
      else this.look();
    }
  }

  /** For whoever waits: what is not heard passes untold, so the log is asked whether it holds anything to wait for. */
  private look(): void {
    const idle = this.state === 'running' && this.unfinished.size === 0;
    if (!idle || this.looking || this.waiters.size === 0) return;
    const { category, hears } = this.reaction;
    const heard = { prefix: `${category}-`, types: hears, signal: this.stopping.signal };
    const { unfinished } = this;
    this.looking = this.stores.log
      .silentThrough({ ...heard, after: unfinished.newest ?? 0n })
      .then((through) => {
        if (through > (unfinished.newest ?? 0n)) this.pass(through);
      })
      .catch((error: unknown) => this.stores.notice('a look at the log failed', { code: codeOf(error) }))
      .finally(() => (this.looking = undefined));
  }

  private retry(letter: DeadLetter, stop: AbortSignal): void {
    this.retried += 1;
    this.chain(letter, stop, () => undefined);
  }

  /** Hands an event to its stream's queue; waits while too many are unfinished. */
  private async enqueue(event: Recorded, stop: AbortSignal): Promise<void> {
    const { unfinished } = this;
    unfinished.begin(event.position);
    this.chain(event, stop, () => {
      unfinished.finish(event.position);
      this.advanced();
    });
    while (unfinished.size >= MOST_UNFINISHED && !stop.aborted) await Promise.race(this.tails.values());
  }

  private chain(event: Heard, stop: AbortSignal, finished: () => void): void {
    const { stream } = event;
    const turn = (this.tails.get(stream) ?? Promise.resolve())
      .then(() => this.carryOut(event, stop))
      .then((done) => {
        if (done) finished();
        if (this.tails.get(stream) === turn) this.tails.delete(stream);
      });
    this.tails.set(stream, turn);
  }

  /** Whether the event is done with, carried out or set aside; not so only when the runner stops. */
  private async carryOut(event: Heard, stop: AbortSignal): Promise<boolean> {
    const { stream, revision } = event;
    for (let failures = 0; !stop.aborted; failures += 1) {
      const leave = await this.slots.enter();
      let failure: unknown;
      try {
        await this.attempt(event);
        return true;
      } catch (error) {
        failure = error;
      } finally {
        leave();
      }
      await this.pause(failures, 'a reaction tries again', { stream, revision, code: codeOf(failure) }, stop);
    }
    return false;
  }

  /** @throws what is worth trying again soon; everything else is set aside. */
  private async attempt(heard: Heard): Promise<void> {
    try {
      const event = 'data' in heard ? heard : await this.reread(heard);
      if (event) await this.reaction.react(event);
      if (this.letters.of(heard)) await this.store.release(heard);
      this.letters.release(heard);
      if (event) this.handled += 1;
    } catch (error) {
      if (this.isTransient(error)) throw error;
      await this.setAside(heard, codeOf(error));
    }
  }

  /** The event of a dead letter; `undefined` when its stream no longer has it, so that nothing is left to do. */
  private async reread({ stream, revision }: DeadLetter): Promise<Recorded | undefined> {
    const range = { from: revision, to: revision };
    for await (const event of this.stores.log.read(stream, range)) return event;
    return undefined;
  }

  private isTransient(error: unknown): boolean {
    const ofSystem = error instanceof Error && 'syscall' in error;
    return ofSystem || error instanceof ReadModelUnavailable || this.reaction.isTransient(error);
  }

  private async setAside(heard: Heard, code: string): Promise<void> {
    const { stream, tenant, id, revision, eventId } = heard;
    const attempts = (this.letters.of(heard)?.attempts ?? 0) + 1;
    const failedAt = new Date().toISOString();
    const letter = { stream, tenant, id, revision, eventId, code, attempts, failedAt };
    await this.store.setAside(letter);
    const retryInMs = this.letters.hold(letter);
    const reaction = this.reaction.name;
    const fields = { reaction, stream, revision, code, attempts, retryInMs };
    this.stores.notice('an event is set aside', fields);
  }

  private async pause(
    failures: number,
    text: string,
    fields: Readonly<Record<string, unknown>>,
    stop: AbortSignal,
  ): Promise<void> {
    const retryInMs = Math.min(FIRST_BACKOFF_MS * 2 ** failures, LONGEST_BACKOFF_MS);
    this.stores.notice(text, { reaction: this.reaction.name, ...fields, retryInMs });
    await delay(retryInMs, undefined, { signal: stop }).catch(() => undefined);
  }

  private pass(position: bigint): void {
    this.unfinished.pass(position);
    this.advanced();
  }

  private advanced(): void {
    const done = this.unfinished.done ?? -1n;
    for (const waiter of this.waiters) if (waiter.position <= done) waiter.settle(true);
    this.look();
    if (Date.now() - this.saved.at < POSITION_SAVED_EVERY_MS || this.saving) return;
    this.saving = this.savePosition().finally(() => (this.saving = undefined));
  }

  /** A position that could not be saved is saved later; until then a restart repeats more than it had to. */
  private async savePosition(): Promise<void> {
    const position = this.unfinished.done;
    if (position === undefined || position === this.saved.position) return;
    this.saved = { position, at: Date.now() };
    try {
      await this.store.savePosition(position);
    } catch (error) {
      this.saved = { position: undefined, at: Date.now() };
      const reaction = this.reaction.name;
      this.stores.notice('a position is not saved', { reaction, code: codeOf(error) });
    }
  }
}

interface Waiter {
  readonly position: bigint;
  readonly settle: (reached: boolean) => void;
}

/** An event as it was told, or the dead letter that stands for it. */
type Heard = Recorded | DeadLetter;

/** So many at once; the others wait in the order they came. */
class Slots {
  private readonly waiting: (() => void)[] = [];

  constructor(private free: number) {}

  /** Gives the way out. */
  async enter(): Promise<() => void> {
    if (this.free > 0) this.free -= 1;
    else await new Promise<void>((resolve) => this.waiting.push(resolve));
    return () => {
      const next = this.waiting.shift();
      if (next) next();
      else this.free += 1;
    };
  }
}
