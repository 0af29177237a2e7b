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

/** Runs to the end, letting others in after every slice; `check` may throw to stop it. */
export async function run<T>(work: Work<T>, check: () => void = () => undefined): Promise<T> {
  let until = performance.now() + slice;
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
    if (performance.now() < until) continue;
    await new Promise<void>((resolve) => setImmediate(resolve));
    check();
    until = performance.now() + slice;
  }
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
