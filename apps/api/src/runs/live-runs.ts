import { Injectable } from '@nestjs/common';
import { EventStore, type StoredEvent } from '#libs/event-store';

export interface Watcher {
  hears(event: StoredEvent): void;
  /** Nothing more is heard, though nobody asked for that: the subscription failed, or `hears` threw. Called once. */
  cutOff(error: Error): void;
}

interface Shared {
  readonly ended: AbortController;
  readonly begun: Promise<void>;
  readonly running: Promise<void>;
}

/**
 * Tells watchers of runs what is appended. All of them share one subscription, which is there while anybody watches;
 * nothing is kept for a watcher here, so one that falls behind costs nobody anything and reads the stream itself. One
 * that throws is cut off alone. A subscription that fails cuts off all of its watchers; the next one begins another.
 */
@Injectable()
export class LiveRuns {
  private readonly watchers = new Map<string, Set<Watcher>>();
  private shared: Shared | undefined;

  constructor(private readonly store: EventStore) {}

  /** How many subscriptions there are: one, or none. */
  get subscriptions(): number {
    return this.shared ? 1 : 0;
  }

  /**
   * Hears a stream from now on: every event that is appended after this has returned, in order, each at least once.
   *
   * @returns what stops it.
   * @throws StoreUnavailable
   */
  async watch(stream: string, watcher: Watcher): Promise<() => void> {
    const watching = this.watchers.get(stream) ?? new Set();
    this.watchers.set(stream, watching.add(watcher));
    this.shared ??= this.begin();
    const leave = () => this.leave(stream, watcher);
    try {
      await this.shared.begun;
    } catch (error) {
      leave();
      throw error;
    }
    return leave;
  }

  /** Resolves once nothing is heard any more. */
  async close(): Promise<void> {
    const { shared } = this;
    this.watchers.clear();
    shared?.ended.abort();
    await shared?.running;
  }

  private leave(stream: string, watcher: Watcher): void {
    const watching = this.watchers.get(stream);
    watching?.delete(watcher);
    if (watching?.size === 0) this.watchers.delete(stream);
    if (this.watchers.size > 0) return;
    this.shared?.ended.abort();
    this.shared = undefined;
  }

  private begin(): Shared {
    const ended = new AbortController();
    const head = this.store.head();
    const begun = head.then(() => undefined);
    const running = head
      .then((after) => this.follow(after, ended.signal))
      .catch((error: unknown) => {
        if (!ended.signal.aborted) this.fail(asError(error));
      });
    return { ended, begun, running };
  }

  private async follow(after: bigint, signal: AbortSignal): Promise<void> {
    for await (const delivery of this.store.subscribe({ prefix: 'run-', after, signal })) {
      if (delivery.kind !== 'event') continue;
      const { event } = delivery;
      for (const watcher of this.watchers.get(event.stream) ?? []) this.tell(event, watcher);
    }
    throw new Error('the subscription has ended');
  }

  private tell(event: StoredEvent, watcher: Watcher): void {
    try {
      watcher.hears(event);
    } catch (error) {
      this.leave(event.stream, watcher);
      watcher.cutOff(asError(error));
    }
  }

  private fail(error: Error): void {
    const lost = [...this.watchers.values()].flatMap((watching) => [...watching]);
    this.watchers.clear();
    this.shared = undefined;
    for (const watcher of lost) watcher.cutOff(error);
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
