import { Module } from '@nestjs/common';
import { Metrics, Rechecks } from '#apps/platform';
import { CitedMessages } from './cited-messages.js';
import { ForkRunHandler } from './fork.handlers.js';
import { HeldLeases } from './held-leases.js';
import { ExtendLeaseHandler, ResumeRunHandler, ReturnLeaseHandler } from './leases.handlers.js';
import { RunsController } from './runs.controller.js';
import * as handlers from './runs.handlers.js';
import {
  ListRunsHandler,
  ReadCheckpointHandler,
  ReadRunHandler,
  ReadTimelineHandler,
} from './runs.queries.js';
import { Runs } from './runs.js';
import { StateLimit } from './state-limit.js';
import { SaveWorkerStateHandler } from './worker-state.handlers.js';
import { LiveRuns } from './live-runs.js';
import { Watching } from './watching.js';
import { WorkerStates } from './worker-states.js';

@Module({
  controllers: [RunsController],
  providers: [
    Runs,
    StateLimit,
    HeldLeases,
    CitedMessages,
    handlers.StartRunHandler,
    handlers.EnterPhaseHandler,
    handlers.RecordStepHandler,
    handlers.RecordFactsHandler,
    handlers.SaveDraftHandler,
    handlers.RequestApprovalHandler,
    WorkerStates,
    ForkRunHandler,
    LiveRuns,
    Watching,
    SaveWorkerStateHandler,
    handlers.CompleteRunHandler,
    handlers.FailRunHandler,
    handlers.CancelRunHandler,
    ResumeRunHandler,
    ExtendLeaseHandler,
    ReturnLeaseHandler,
    ReadRunHandler,
    ReadCheckpointHandler,
    ListRunsHandler,
    ReadTimelineHandler,
  ],
  exports: [Runs],
})
export class RunsModule {
  constructor(rechecks: Rechecks, metrics: Metrics) {
    rechecks.countIn(metrics, 'waymark_resume_fact_unanswered_total');
  }
}
