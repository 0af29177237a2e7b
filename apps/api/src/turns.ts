/**
 * Lets at most so many tasks begin in one turn of the event loop; the others begin, in their order, in the turns
 * after it. What the first have written leaves between two turns, so that a store works on it while the next tasks
 * are worked on here. A task that comes alone begins at once.
 */
export class Turns {
  private begun = 0;
  private readonly waiting: (() => void)[] = [];
  private turning = false;

  constructor(private readonly most: number) {}

  /** Resolves when the task may begin. */
  next(): Promise<void> {
    this.turn();
    if (this.begun < this.most && this.waiting.length === 0) {
      this.begun += 1;
      return Promise.resolve();
    }
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  private turn(): void {
    if (this.turning) return;
    this.turning = true;
    setImmediate(() => {
      this.turning = false;
      const now = this.waiting.splice(0, this.most);
      this.begun = now.length;
      if (now.length > 0) this.turn();
      for (const begin of now) begin();
    });
  }
}
