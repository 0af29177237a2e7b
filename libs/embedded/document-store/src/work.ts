import { Blocked } from './storage/sessions.js';

/** A computation that pauses wherever others may be given a turn. */
export type Work<T> = Generator<undefined, T, void>;

/** Work that does not pause. */
export function* atOnce<T>(body: () => T): Work<T> {
  yield undefined;
  return body();
}

/** Longest a computation keeps the event loop, in milliseconds. */
const slice = 10;

let sliceEnd = 0;

/** Whether others are to be given a turn: asked in every loop that has no end of its own, which then yields. */
export const isDue = (): boolean => performance.now() >= sliceEnd;

/** How long computations kept the event loop since the process began. */
export const slices = { count: 0, longestMillis: 0 };

/** Runs to the end, letting others in after every slice; `check` may throw to stop it. */
export async function run<T>(work: Work<T>, check: () => void = () => undefined): Promise<T> {
  for (;;) {
    const begun = performance.now();
    sliceEnd = begun + slice;
    const step = untilDue(work);
    slices.count++;
    slices.longestMillis = Math.max(slices.longestMillis, performance.now() - begun);
    if (step.done) return step.value;
    await new Promise<void>((resolve) => setImmediate(resolve));
    check();
  }
}

function untilDue<T>(work: Work<T>): IteratorResult<undefined, T> {
  let step = work.next();
  while (!step.done && !isDue()) step = work.next();
  return step;
}

interface Job {
  readonly start: () => Work<unknown>;
  readonly check: () => void;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Writes one at a time, in the order they came, so that each is judged against the outcome of those before it.
 * A write that meets a transaction's lock steps aside and is started again when the transaction has ended.
 */
export class Writer {
  private readonly queue: Job[] = [];
  private running: Promise<void> | undefined;

  async run<T>(start: () => Work<T>, check: () => void = () => undefined): Promise<T> {
    for (;;) {
      try {
        return await this.enqueue(start, check);
      } catch (error) {
        if (!(error instanceof Blocked)) throw error;
        await error.until;
      }
    }
  }

  private enqueue<T>(start: () => Work<T>, check: () => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.queue.push({ start, check, resolve: resolve as (value: unknown) => void, reject });
      this.running ??= this.drain();
    });
  }

  private async drain(): Promise<void> {
    for (let job = this.queue.shift(); job; job = this.queue.shift()) {
      try {
        job.resolve(await run(job.start(), job.check));
      } catch (error) {
        job.reject(error);
      }
    }
    this.running = undefined;
  }
}
