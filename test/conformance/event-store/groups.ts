import {
  type AllStreamResolvedEvent,
  type PersistentAction,
  type PersistentSubscriptionToAll,
  type PersistentSubscriptionToStream,
  type PersistentSubscriptionToStreamSettings,
  type ResolvedEvent,
  START,
  isCommandError,
  persistentSubscriptionToStreamSettingsFromDefaults,
} from '@eventstore/db-client';

export const GROUP = 'workers';

/** Settings under which a checkpoint follows every event at once. */
export const eager = { startFrom: START, checkPointLowerBound: 1, checkPointUpperBound: 1 } as const;

export const settings = (
  changes: Partial<PersistentSubscriptionToStreamSettings> = {},
): PersistentSubscriptionToStreamSettings =>
  persistentSubscriptionToStreamSettingsFromDefaults({ startFrom: START, ...changes });

type Delivery = (ResolvedEvent | AllStreamResolvedEvent) & { retryCount?: number };

/** A client of a group: what it was given, in order, and what it does with each. */
export class Worker {
  readonly given: Delivery[] = [];
  readonly log: string[] = [];
  private waiting: { until: () => boolean; resolve: () => void }[] = [];

  constructor(
    readonly subscription: PersistentSubscriptionToStream | PersistentSubscriptionToAll,
    readonly answer: 'ack' | 'nothing' | PersistentAction = 'ack',
  ) {
    subscription
      .on('confirmation', () => this.note('confirmation'))
      .on('error', (error) => this.note(isCommandError(error) ? error.type : error.message))
      .on('data', (delivery) => this.take(delivery));
  }

  /** `revision`, or `revision/retries` from the first retry on. */
  get revisions(): string[] {
    return this.given.map(({ event, link, retryCount }) => {
      const { revision } = (link ?? event)!;
      return retryCount ? `${revision}/${retryCount}` : String(revision);
    });
  }

  numbers(): number[] {
    return this.given.map(({ event }) => (event!.data as { n: number }).n);
  }

  until(condition: (worker: Worker) => boolean): Promise<void> {
    if (condition(this)) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push({ until: () => condition(this), resolve }));
  }

  count(count: number): Promise<void> {
    return this.until(({ given }) => given.length >= count);
  }

  ready(): Promise<void> {
    return this.until(({ log }) => log.length > 0);
  }

  async ack(...deliveries: Delivery[]): Promise<void> {
    await this.subscription.ack(...(deliveries as ResolvedEvent[]));
  }

  stop(): Promise<void> {
    return this.subscription.unsubscribe();
  }

  private take(delivery: Delivery): void {
    this.given.push(delivery);
    const events = [delivery as ResolvedEvent] as const;
    if (this.answer === 'ack') void this.subscription.ack(...events);
    else if (this.answer !== 'nothing') void this.subscription.nack(this.answer, 'as told', ...events);
    this.wake();
  }

  private note(what: string): void {
    this.log.push(what);
    this.wake();
  }

  private wake(): void {
    for (const one of this.waiting.filter(({ until }) => until())) one.resolve();
  }
}

const workers: Worker[] = [];

/** A worker that `stopWorkers` stops. */
export function working(subscription: Worker['subscription'], answer?: Worker['answer']): Worker {
  const worker = new Worker(subscription, answer);
  workers.push(worker);
  return worker;
}

export async function stopWorkers(): Promise<void> {
  await Promise.all(workers.splice(0).map((worker) => worker.stop()));
}
