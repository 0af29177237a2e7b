import type { Delivery } from './event-log.js';
import type { Recorded } from './projection.js';

/** What arrived together: events in log order, and the position that is reached once they are applied. */
export interface Intake {
  readonly events: readonly Recorded[];
  readonly through: bigint | undefined;
  /** The subscription has nothing older left. */
  readonly caughtUp: boolean;
}

/**
 * Takes deliveries off a subscription while whoever applies them is busy. Holds at most `limit` events and then
 * lets the subscription wait, so that a slow reader costs no memory.
 */
export class DeliveryBuffer {
  private events: Recorded[] = [];
  private through: bigint | undefined;
  private caughtUp = false;
  private ended = false;
  private failure: unknown;
  private readonly arrived = new Signal();
  private readonly taken = new Signal();
  private filled = new Latch();
  private readonly filling: Promise<void>;

  constructor(
    deliveries: AsyncIterable<Delivery>,
    private readonly limit: number,
    private readonly onDelivery: (delivery: Delivery) => void,
  ) {
    this.filling = this.fill(deliveries);
  }

  /** Whether `take` would wait. */
  get empty(): boolean {
    return this.events.length === 0 && this.through === undefined && !this.caughtUp && !this.ended;
  }

  /** Resolves when it holds all that it may, or the subscription has ended. */
  get full(): Promise<void> {
    return this.filled.opened;
  }

  /** The oldest event not taken yet. */
  get oldest(): Recorded | undefined {
    return this.events[0];
  }

  /**
   * Everything that arrived, as soon as anything did; `undefined` when the subscription has ended.
   * @throws what the subscription threw, once what arrived before is taken.
   */
  async take(): Promise<Intake | undefined> {
    while (this.empty) await this.arrived.next();
    const { events, through, caughtUp } = this;
    if (events.length === 0 && through === undefined && !caughtUp) {
      if (this.failure !== undefined) throw this.failure as Error;
      return undefined;
    }
    this.events = [];
    this.through = undefined;
    this.caughtUp = false;
    if (!this.ended) this.filled = new Latch();
    this.taken.give();
    return { events, through, caughtUp };
  }

  /** Drops what was not taken, and resolves when the subscription, aborted before, is closed. */
  async close(): Promise<void> {
    this.end();
    this.taken.give();
    await this.filling;
  }

  private async fill(deliveries: AsyncIterable<Delivery>): Promise<void> {
    try {
      for await (const delivery of deliveries) {
        this.keep(delivery);
        if (this.events.length >= this.limit) this.filled.open();
        while (this.events.length >= this.limit && !this.ended) await this.taken.next();
      }
    } catch (error) {
      this.failure = error;
    }
    this.end();
    this.arrived.give();
  }

  private end(): void {
    this.ended = true;
    this.filled.open();
  }

  private keep(delivery: Delivery): void {
    if (this.ended) return;
    if (delivery.kind === 'event') {
      this.events.push(delivery.event);
      this.through = delivery.event.position;
    } else if (delivery.kind === 'position') {
      this.through = delivery.position;
    } else {
      this.caughtUp = true;
    }
    this.onDelivery(delivery);
    this.arrived.give();
  }
}

/** Wakes whoever waits at the moment it is given. */
class Signal {
  private waiting: (() => void)[] = [];

  next(): Promise<void> {
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  give(): void {
    const woken = this.waiting;
    this.waiting = [];
    for (const wake of woken) wake();
  }
}

/** Opens once. */
class Latch {
  open: () => void = () => undefined;
  readonly opened = new Promise<void>((resolve) => (this.open = resolve));
}
