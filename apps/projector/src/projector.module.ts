import {
  type BeforeApplicationShutdown,
  Injectable,
  Module,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { Gauge } from 'prom-client';
import { Log, Metrics, type Ordered, RunningProjections, noticeIn } from '#apps/platform';
import { EventStore } from '#libs/event-store';
import { type ProjectionStatus, ReadModels, Refused, VersionedProjection } from '#libs/projecting';
import { Vault } from '#libs/vault';
import { authoritativeClaims } from '#projections/authoritative-claims';
import { currentCheckpoints } from '#projections/current-checkpoints';
import { staffRegister } from '#projections/staff-register';
import { preferenceProfiles } from '#projections/preference-profiles';

/** The projections that this process keeps up to date: begun with it, drained before its stores are closed. */
@Injectable()
export class Projections implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly runners: Pick<
    VersionedProjection<unknown>,
    'start' | 'stop' | 'status' | 'waitFor' | 'order'
  >[];

  constructor(log: EventStore, vault: Vault, models: ReadModels, told: Log, running: RunningProjections) {
    const stores = { log, vault, models, notice: noticeIn(told) };
    this.runners = [
      new VersionedProjection(currentCheckpoints, stores),
      new VersionedProjection(authoritativeClaims, stores),
      new VersionedProjection(staffRegister, stores),
      new VersionedProjection(preferenceProfiles, stores),
    ];
    for (const runner of this.runners)
      running.add(runner.status().name, {
        status: () => runner.status(),
        waitFor: (position, milliseconds) => runner.waitFor(position, milliseconds),
        order: (order) => runner.order(order).then((rebuild) => ({ rebuild }), refusal),
      });
  }

  statuses(): ProjectionStatus[] {
    return this.runners.map((runner) => runner.status());
  }

  onApplicationBootstrap(): void {
    for (const runner of this.runners) runner.start();
  }

  async beforeApplicationShutdown(): Promise<void> {
    await Promise.all(this.runners.map((runner) => runner.stop()));
  }
}

function refusal(error: unknown): Ordered {
  if (!(error instanceof Refused)) throw error;
  return { refused: error.code, detail: error.message };
}

@Module({ providers: [Projections], exports: [Projections] })
export class ProjectorModule {
  constructor(projections: Projections, metrics: Metrics) {
    const gauge = (name: string, help: string, value: (status: ProjectionStatus) => number) =>
      new Gauge({
        name,
        help,
        labelNames: ['projection'] as const,
        registers: [metrics],
        collect() {
          for (const status of projections.statuses()) this.set({ projection: status.name }, value(status));
        },
      });
    gauge('waymark_projection_batches', 'Batches committed since the process began.', (it) => it.batches);
    gauge('waymark_projection_events', 'Events applied since the process began.', (it) => it.events);
    gauge('waymark_projection_rate', 'Events applied a second, of late.', (it) => it.rate);
    gauge('waymark_projection_version', 'The version that readers are given.', (it) => it.version);
    gauge('waymark_projection_stalled', '1 while a store it needs does not answer.', (it) =>
      it.status === 'stalled' ? 1 : 0,
    );
  }
}
