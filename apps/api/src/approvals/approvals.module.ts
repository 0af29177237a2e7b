import { Module } from '@nestjs/common';
import { Gauge } from 'prom-client';
import { CheckpointQueries } from '#projections/current-checkpoints';
import { Clock, Metrics } from '#apps/platform';
import { ReadModelUnavailable } from '#libs/projecting';
import { RunsModule } from '../runs/runs.module.js';
import { ApprovalsController } from './approvals.controller.js';
import {
  DecideApprovalHandler,
  DelegateApprovalHandler,
  WithdrawApprovalHandler,
} from './approvals.handlers.js';
import { ListApprovalsHandler, ReadApprovalHandler } from './approvals.queries.js';

@Module({
  imports: [RunsModule],
  controllers: [ApprovalsController],
  providers: [
    DecideApprovalHandler,
    DelegateApprovalHandler,
    WithdrawApprovalHandler,
    ReadApprovalHandler,
    ListApprovalsHandler,
  ],
})
export class ApprovalsModule {
  constructor(queries: CheckpointQueries, clock: Clock, metrics: Metrics) {
    new Gauge({
      name: 'waymark_approvals_not_executed',
      help: 'Approvals granted and not executed: in time still, or lapsed. Absent while the view cannot be read.',
      labelNames: ['state'] as const,
      registers: [metrics],
      async collect() {
        this.reset();
        try {
          const counts = await queries.notExecuted(new Date(clock.now()).toISOString());
          for (const [state, count] of Object.entries(counts)) this.set({ state }, count);
        } catch (error) {
          if (!(error instanceof ReadModelUnavailable)) throw error;
        }
      },
    });
  }
}
