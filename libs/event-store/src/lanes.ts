/**
 * One lane for each name: tasks of a lane run one after another, in the order they came; lanes run side by side.
 * A lane without tasks takes no memory. A task that fails does not stop those behind it.
 */
export class Lanes {
  private readonly tails = new Map<string, Promise<unknown>>();

  run<Result>(name: string, task: () => Promise<Result>): Promise<Result> {
    const before = this.tails.get(name);
    const running = before ? before.then(task) : task();
    const tail: Promise<unknown> = running.then(
      () => this.leave(name, tail),
      () => this.leave(name, tail),
    );
    this.tails.set(name, tail);
    return running;
  }

  /** Resolves when no task is left, also of those that came meanwhile. */
  async idle(): Promise<void> {
    while (this.tails.size > 0) await Promise.all(this.tails.values());
  }

  get size(): number {
    return this.tails.size;
  }

  private leave(name: string, tail: Promise<unknown>): void {
    if (this.tails.get(name) === tail) this.tails.delete(name);
  }
}
