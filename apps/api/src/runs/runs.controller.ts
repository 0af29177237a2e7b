import { Controller, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Call as Of, Called } from '../calls.js';
import { Dispatch } from '../dispatch.js';
import { type Paging, Route } from '../routes.js';
import {
  CancelRun,
  CompleteRun,
  EnterPhase,
  FailRun,
  RecordFacts,
  RecordStep,
  RequestApproval,
  SaveDraft,
  StartRun,
} from './runs.handlers.js';
import { ExtendLease, ResumeRun, ReturnLease } from './leases.handlers.js';
import { ListRuns, ReadCheckpoint, ReadRun, ReadTimeline, type RunFilters } from './runs.queries.js';
import { ForkRun } from './fork.handlers.js';
import * as of from './runs.schemas.js';
import { header } from '../understanding.js';
import { Watching } from './watching.js';
import { SaveWorkerState } from './worker-state.handlers.js';

@Controller()
export class RunsController {
  constructor(
    private readonly dispatch: Dispatch,
    private readonly watching: Watching,
  ) {}

  @Route('POST', '/v1/runs', {
    kind: 'command',
    permit: 'runs.start',
    summary: 'Start a run',
    body: of.startBody,
    names: 'runId',
    answer: of.started,
    status: 201,
    repeatedStatus: 200,
  })
  start(@Called() call: Of<of.StartBody>) {
    return this.dispatch.command(call, new StartRun(call));
  }

  @Route('POST', '/v1/runs/:runId/resume', {
    kind: 'command',
    permit: 'runs.resume',
    summary: 'Resume a run: take its lease, and see where it stands',
    body: of.resumeBody,
    answer: of.resumed,
  })
  resume(@Called() call: Of<of.ResumeBody>) {
    return this.dispatch.command(call, new ResumeRun(call));
  }

  @Route('POST', '/v1/runs/:runId/lease', {
    kind: 'aside',
    permit: 'runs.work',
    summary: 'Extend the lease',
    body: of.leaseBody,
    answer: of.extended,
  })
  extend(@Called() call: Of<of.LeaseBody>) {
    return this.dispatch.aside(call, new ExtendLease(call));
  }

  @Route('DELETE', '/v1/runs/:runId/lease', {
    kind: 'aside',
    permit: 'runs.work',
    summary: 'Give the lease back',
    body: of.leaseBody,
    answer: of.returned,
  })
  giveBack(@Called() call: Of<of.LeaseBody>) {
    return this.dispatch.aside(call, new ReturnLease(call));
  }

  @Route('POST', '/v1/runs/:runId/phase', {
    kind: 'worker',
    permit: 'runs.work',
    summary: 'Enter a phase',
    body: of.phaseBody,
    answer: of.entered,
  })
  enter(@Called() call: Of<of.PhaseBody>) {
    return this.dispatch.command(call, new EnterPhase(call));
  }

  @Route('POST', '/v1/runs/:runId/steps', {
    kind: 'worker',
    permit: 'runs.work',
    summary: 'Record a step',
    body: of.stepBody,
    answer: of.recorded,
  })
  record(@Called() call: Of<of.StepBody>) {
    return this.dispatch.command(call, new RecordStep(call));
  }

  @Route('POST', '/v1/runs/:runId/facts', {
    kind: 'worker',
    permit: 'runs.work',
    summary: 'Record facts that the run rests on; another value invalidates open approvals that rest on it',
    body: of.factsBody,
    answer: of.factsRecorded,
  })
  facts(@Called() call: Of<of.FactsBody>) {
    return this.dispatch.command(call, new RecordFacts(call));
  }

  @Route('PUT', '/v1/runs/:runId/drafts/:draftId', {
    kind: 'worker',
    permit: 'runs.work',
    summary: 'Save a draft of a claim; a new version invalidates the open approval of the old one',
    body: of.draftBody,
    answer: of.drafted,
  })
  draft(@Called() call: Of<of.DraftBody>) {
    return this.dispatch.command(call, new SaveDraft(call));
  }

  @Route('POST', '/v1/runs/:runId/approvals', {
    kind: 'worker',
    permit: 'runs.work',
    summary: 'Ask for an approval of a draft',
    body: of.approvalBody,
    answer: of.requested,
    status: 201,
  })
  ask(@Called() call: Of<of.ApprovalBody>) {
    return this.dispatch.command(call, new RequestApproval(call));
  }

  @Route('PUT', '/v1/runs/:runId/checkpoint', {
    kind: 'worker',
    permit: 'runs.work',
    summary: 'Save the worker’s own state',
    body: of.stateBody,
    answer: of.saved,
  })
  save(@Called() call: Of<of.StateBody>) {
    return this.dispatch.command(call, new SaveWorkerState(call, { ...call.body, patch: false }));
  }

  @Route('PATCH', '/v1/runs/:runId/checkpoint', {
    kind: 'worker',
    permit: 'runs.work',
    summary: 'Change the worker’s own state by a merge patch',
    body: of.statePatch,
    answer: of.saved,
  })
  patch(@Called() call: Of<of.StateBody['state']>) {
    return this.dispatch.command(call, new SaveWorkerState(call, { state: call.body, patch: true }));
  }

  @Route('POST', '/v1/runs/:runId/fork', {
    kind: 'worker',
    permit: 'runs.fork',
    summary: 'Begin another run with the state of an earlier revision; a supervisor needs no lease',
    body: of.forkBody,
    answer: of.forked,
    status: 201,
  })
  fork(@Called() call: Of<of.ForkBody>) {
    return this.dispatch.command(call, new ForkRun(call));
  }

  @Route('POST', '/v1/runs/:runId/complete', {
    kind: 'worker',
    permit: 'runs.work',
    summary: 'End the run: its work is done',
    body: of.endBody,
    bodyOptional: true,
    answer: of.ended,
  })
  complete(@Called() call: Of<of.EndBody>) {
    return this.dispatch.command(call, new CompleteRun(call));
  }

  @Route('POST', '/v1/runs/:runId/fail', {
    kind: 'worker',
    permit: 'runs.work',
    summary: 'End the run: it cannot go on',
    body: of.endBody,
    bodyOptional: true,
    answer: of.ended,
  })
  fail(@Called() call: Of<of.EndBody>) {
    return this.dispatch.command(call, new FailRun(call));
  }

  @Route('POST', '/v1/runs/:runId/cancel', {
    kind: 'command',
    permit: 'runs.cancel',
    summary: 'End the run: a person calls it off',
    body: of.endBody,
    bodyOptional: true,
    answer: of.ended,
  })
  cancel(@Called() call: Of<of.EndBody>) {
    return this.dispatch.command(call, new CancelRun(call));
  }

  @Route('GET', '/v1/runs', {
    kind: 'list',
    permit: 'runs.list',
    summary: 'Runs, newest first',
    query: of.runQuery,
    answer: of.page(of.plainRun),
  })
  list(@Called() call: Of<undefined, RunFilters & Paging>) {
    return this.dispatch.list(call, 'current-checkpoints', new ListRuns(call));
  }

  @Route('GET', '/v1/runs/:runId', {
    kind: 'record',
    permit: 'runs.read',
    summary: 'Where a run stands; to its customer, its plain status',
    answer: of.plainRun,
  })
  read(@Called() call: Of) {
    return this.dispatch.record(call, new ReadRun(call));
  }

  @Route('GET', '/v1/runs/:runId/checkpoint', {
    kind: 'record',
    permit: 'runs.read-checkpoint',
    summary: 'All that a worker needs to go on',
    answer: of.runView,
  })
  checkpoint(@Called() call: Of) {
    return this.dispatch.record(call, new ReadCheckpoint(call));
  }

  @Route('GET', '/v1/runs/:runId/timeline', {
    kind: 'list',
    permit: 'runs.read-checkpoint',
    summary: 'What happened, in words, newest last',
    answer: of.page(of.timelineEntry),
  })
  timeline(@Called() call: Of<undefined, Paging>) {
    return this.dispatch.record(call, new ReadTimeline(call));
  }

  @Route('GET', '/v1/runs/:runId/events', {
    kind: 'watch',
    permit: 'runs.read-checkpoint',
    summary: 'What happened and happens, as server-sent events; the id of each is its revision',
  })
  async watch(@Called() call: Of, @Req() request: FastifyRequest, @Res() reply: FastifyReply) {
    const last = header(request, 'last-event-id', /^\d{1,18}$/, 'a revision: digits');
    await this.watching.begin(call, last === undefined ? -1n : BigInt(last), request, reply);
  }
}
