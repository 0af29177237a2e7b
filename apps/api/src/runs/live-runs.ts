import { Injectable } from '@nestjs/common';
import { EventStore, type StoredEvent } from '#libs/event-store';

export type Hears = (event: StoredEvent) => void;

/**
 * Tells watchers of runs what is appended. All of them share one subscription, which is there while anybody watches;
 * nothing is kept for a watcher here, so one that falls behind costs nobody anything and reads the stream itself.
 */
@Injectable()
export class LiveRuns {
  private readonly watchers = new Map<string, Set<Hears>>();
  private shared: { ended: AbortController; begun: Promise<void>; running: Promise<void> } | undefined;

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
  async watch(stream: string, hears: Hears): Promise<() => void> {
    const watching = this.watchers.get(stream) ?? new Set();
    this.watchers.set(stream, watching.add(hears));
    this.shared ??= this.begin();
    const leave = () => this.leave(stream, hears);
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

  private leave(stream: string, hears: Hears): void {
    const watching = this.watchers.get(stream);
    watching?.delete(hears);
    if (watching?.size === 0) this.watchers.delete(stream);
    if (this.watchers.size > 0) return;
    this.shared?.ended.abort();
    this.shared = undefined;
  }

  private begin(): NonNullable<LiveRuns['shared']> {
    const ended = new AbortController();
    const head = this.store.head();
    const begun = head.then(() => undefined);
    const running = head.then(
      (after) => this.follow(after, ended.signal),
      () => undefined,
    );
    return { ended, begun, running };
  }

  private async follow(after: bigint, signal: AbortSignal): Promise<void> {
    for await (const delivery of this.store.subscribe({ prefix: 'run-', after, signal })) {
      if (delivery.kind !== 'event') continue;
      const { event } = delivery;
      for (const hears of this.watchers.get(event.stream) ?? []) hears(event);
    }
  }
}
