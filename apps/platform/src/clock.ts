/** Where the time comes from. Commands carry it; rules never read it. Specs override this provider. */
export class Clock {
  /** Milliseconds since the epoch. */
  now(): number {
    return Date.now();
  }
}
