/**
 * How many bytes are held for clients: what has arrived and is not done with, and what they do not take. One for each
 * connection, within one for all of them, so that no client has the memory of the others.
 */
export class Budget {
  private held = 0;

  constructor(
    private readonly limit: number,
    private readonly whole?: Budget,
  ) {}

  /** False if that would be too much; nothing is taken then. */
  take(bytes: number): boolean {
    if (this.held + bytes > this.limit || this.whole?.take(bytes) === false) return false;
    this.held += bytes;
    return true;
  }

  give(bytes: number): void {
    this.held -= bytes;
    this.whole?.give(bytes);
  }
}

/** What one call has taken of its connection's budget; all of it is given back when the call is over. */
export class Share {
  private held = 0;
  private over = false;

  constructor(private readonly budget: Budget) {}

  take(bytes: number): boolean {
    if (this.over) return true;
    if (!this.budget.take(bytes)) return false;
    this.held += bytes;
    return true;
  }

  give(bytes: number): void {
    if (this.over) return;
    this.held -= bytes;
    this.budget.give(bytes);
  }

  close(): void {
    this.give(this.held);
    this.over = true;
  }
}
