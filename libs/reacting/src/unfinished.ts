/**
 * The positions of a log that are not done with. Events enter in log order and finish in any; `done` is the last
 * position before which everything has finished, which is where a reaction must take up again after a stop.
 */
export class Unfinished {
  /** From an event's position to that of the delivery before it; in log order, as a map keeps it. */
  private readonly open = new Map<bigint, bigint | undefined>();

  /** @param seen the position taken up from; `undefined` at the start of the log. */
  constructor(private seen: bigint | undefined) {}

  get size(): number {
    return this.open.size;
  }

  get newest(): bigint | undefined {
    return this.seen;
  }

  get done(): bigint | undefined {
    const [oldest] = this.open.values();
    return this.open.size === 0 ? this.seen : oldest;
  }

  begin(position: bigint): void {
    this.open.set(position, this.seen);
    this.seen = position;
  }

  finish(position: bigint): void {
    this.open.delete(position);
  }

  /** Nothing at this position concerns the reaction. */
  pass(position: bigint): void {
    this.seen = position;
  }
}
