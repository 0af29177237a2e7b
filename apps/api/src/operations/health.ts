import { Injectable } from '@nestjs/common';
import { RunningProjections } from '#apps/platform';
import { EventStore } from '#libs/event-store';
import { ReadModels } from '#libs/projecting';

export interface Health {
  readonly ready: boolean;
  readonly eventStore: 'up' | 'down';
  readonly documentStore: 'up' | 'down';
  readonly projections: { readonly name: string; readonly status: string; readonly lagEvents: number }[];
}

/** Whether the process can do its work: both stores answer, and every projection it runs has caught up, or is kept by a newer build. */
@Injectable()
export class HealthCheck {
  constructor(
    private readonly store: EventStore,
    private readonly models: ReadModels,
    private readonly running: RunningProjections,
  ) {}

  async check(): Promise<Health> {
    const [eventStore, documentStore, statuses] = await Promise.all([
      up(this.store.ping()),
      up(this.models.ping()),
      this.running.statuses(),
    ]);
    const projections = statuses.map(({ name, status, lagEvents }) => ({ name, status, lagEvents }));
    const current = projections.every(({ status }) => status === 'live' || status === 'standing-back');
    return {
      ready: eventStore === 'up' && documentStore === 'up' && current,
      eventStore,
      documentStore,
      projections,
    };
  }
}

async function up(ping: Promise<void>): Promise<'up' | 'down'> {
  return ping.then(
    () => 'up',
    () => 'down',
  );
}
