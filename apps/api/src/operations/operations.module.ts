import { Module, type OnModuleInit } from '@nestjs/common';
import { Gauge } from 'prom-client';
import { Metrics, RunningProjections } from '#apps/platform';
import { HealthCheck } from './health.js';
import { OperationsController } from './operations.controller.js';
import { ListProjectionsHandler } from './operations.handlers.js';
import { RebuildsController } from './rebuilds.controller.js';
import { OrderRebuildHandler } from './rebuilds.handlers.js';

@Module({
  controllers: [OperationsController, RebuildsController],
  providers: [HealthCheck, ListProjectionsHandler, OrderRebuildHandler],
})
export class OperationsModule implements OnModuleInit {
  constructor(
    private readonly metrics: Metrics,
    private readonly running: RunningProjections,
  ) {}

  /** What is measured when it is asked for. */
  onModuleInit(): void {
    this.metrics.observeProcess();
    this.gauge(
      'waymark_projection_lag_events',
      'Events in the log that are not in the view yet.',
      'lagEvents',
    );
    this.gauge('waymark_projection_lag_seconds', 'Age of the oldest such event.', 'lagSeconds');
    this.gauge(
      'waymark_projection_dead_letters',
      'Streams held back by an event that could not be applied.',
      'deadLetters',
    );
  }

  private gauge(name: string, help: string, field: 'lagEvents' | 'lagSeconds' | 'deadLetters'): void {
    const { running } = this;
    new Gauge({
      name,
      help,
      labelNames: ['projection'] as const,
      registers: [this.metrics],
      async collect() {
        for (const status of await running.statuses()) this.set({ projection: status.name }, status[field]);
      },
    });
  }
}
