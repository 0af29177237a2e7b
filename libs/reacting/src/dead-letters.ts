import type { DeadLetter } from '#libs/projecting';

/** How long a dead letter waits before it is tried again: twice as long after each attempt. */
export interface RetryWaits {
  readonly firstMs: number;
  readonly longestMs: number;
}

const WAITS: RetryWaits = { firstMs: 30_000, longestMs: 600_000 };

/** What one runner has set aside, each with the timer of its next attempt. Nothing here is durable. */
export class DeadLetters {
  private readonly held = new Map<string, DeadLetter>();
  private readonly timers = new Map<string, NodeJS.Timeout>();
  private stopped = false;

  constructor(
    private readonly retry: (letter: DeadLetter) => void,
    private readonly waits = WAITS,
  ) {}

  get size(): number {
    return this.held.size;
  }

  of(event: Place): DeadLetter | undefined {
    return this.held.get(keyOf(event));
  }

  /** Takes over what earlier runs set aside; whoever calls tries these at once, so no timer runs. */
  takeOver(letters: readonly DeadLetter[]): void {
    this.stop();
    this.stopped = false;
    this.held.clear();
    for (const letter of letters) this.held.set(keyOf(letter), letter);
  }

  /** Holds what failed just now. Gives the milliseconds until it is tried again, unless it is stopped before. */
  hold(letter: DeadLetter): number {
    const key = keyOf(letter);
    const { firstMs, longestMs } = this.waits;
    const wait = Math.min(firstMs * 2 ** (letter.attempts - 1), longestMs);
    this.held.set(key, letter);
    clearTimeout(this.timers.get(key));
    const timer = this.stopped ? undefined : setTimeout(() => this.retry(letter), wait);
    if (timer) this.timers.set(key, timer);
    return wait;
  }

  release(event: Place): void {
    const key = keyOf(event);
    clearTimeout(this.timers.get(key));
    this.timers.delete(key);
    this.held.delete(key);
  }

  /** Ends all timers; none is started until letters are taken over again. */
  stop(): void {
    this.stopped = true;
    for (const timer of this.timers.values()) clearTimeout(timer);
    this.timers.clear();
  }
}

type Place = Pick<DeadLetter, 'stream' | 'revision'>;

function keyOf({ stream, revision }: Place): string {
  return `${stream}@${revision}`;
}
