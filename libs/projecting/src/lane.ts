export interface ProjectionStatus {
  readonly name: string;
  readonly version: number;
  /**
   * Stalled: a store does not answer; it goes on by itself when it does. Failed: more dead letters than it may have.
   * Standing back: its edition was dropped, or is of a version that this build does not know.
   */
  readonly status: 'starting' | 'catching-up' | 'live' | 'stalled' | 'stopped' | 'failed' | 'standing-back';
  /** Everything up to here is in the read model. */
  readonly position: bigint;
  /** The newest position of the log that this runner knows of. */
  readonly head: bigint;
  /** Events received and not yet committed; while catching up there may be more in the log. */
  readonly lagEvents: number;
  /** Age of the oldest such event; 0 when caught up. */
  readonly lagSeconds: number;
  /** Events applied a second, of late. */
  readonly rate: number;
  readonly deadLetters: number;
  readonly batches: number;
  readonly events: number;
}

/** How a lane differs from the one of a projection's first edition. */
export interface LaneOptions {
  readonly edition?: string;
  /** Events a second at most, asked before each batch; null is as fast as it can. */
  readonly pace?: () => number | null;
  /** More dead letters than these end the lane as failed. */
  readonly mostDeadLetters?: number;
}

/** Whoever waits for a lane to reach a position. */
export class Waiters {
  private readonly waiting = new Set<{ position: bigint; settle: (reached: boolean) => void }>();

  get size(): number {
    return this.waiting.size;
  }

  waitFor(position: bigint, milliseconds: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => waiter.settle(false), milliseconds);
      const settle = (reached: boolean): void => {
        clearTimeout(timer);
        this.waiting.delete(waiter);
        resolve(reached);
      };
      const waiter = { position, settle };
      this.waiting.add(waiter);
    });
  }

  reach(position: bigint): void {
    for (const waiter of this.waiting) if (waiter.position <= position) waiter.settle(true);
  }

  giveUp(): void {
    for (const waiter of this.waiting) waiter.settle(false);
  }
}

const WINDOW_MS = 5_000;

/** How fast a count grows, a second, since it was asked five seconds ago or longer. */
export class Rate {
  private before = { at: performance.now(), count: 0 };
  private since = this.before;

  of(count: number): number {
    const at = performance.now();
    if (at - this.since.at >= WINDOW_MS) {
      this.before = this.since;
      this.since = { at, count };
    }
    const seconds = Math.max(at - this.before.at, 1) / 1_000;
    return Math.round((10 * (count - this.before.count)) / seconds) / 10;
  }
}
