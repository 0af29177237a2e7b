import { type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import {
  CheckpointQueries,
  present,
  type PresentedRun,
  type RunStatus,
} from '#projections/current-checkpoints';
import { type Identity, scopeOf } from '#libs/access';
import { EventStore, streamName } from '#libs/event-store';
import type { Call } from '../calls.js';
import type { Read } from '../dispatch.js';
import { notFound } from '../problems.js';
import type { Paging } from '../routes.js';
import { CitedMessages } from './cited-messages.js';
import { runIdOf } from './runs.js';
import { timelineFrom, type TimelinePage } from './timeline.js';
import { WorkerStates } from './worker-states.js';

export interface RunFilters {
  readonly status?: RunStatus;
  readonly phase?: string;
  readonly customerId?: string;
  readonly updatedSince?: string;
}

const STAFF: readonly string[] = ['assistant', 'adjuster', 'supervisor'];

/** A customer is shown where their run stands, and nothing of how it is worked on. */
function shownTo({ roles }: Identity, run: PresentedRun): Partial<PresentedRun> {
  if (roles.some((role) => STAFF.includes(role))) return run;
  const { runId, customerId, workflow, status, phase, startedAt, updatedAt, revision } = run;
  return {
    runId,
    customerId,
    workflow,
    status,
    ...(phase === undefined ? {} : { phase }),
    startedAt,
    updatedAt,
    revision,
  };
}

/** The run that a call is about, for those whom the policy of the route lets see it. */
export async function runFor(call: Call, queries: CheckpointQueries) {
  const view = await queries.run({ tenant: call.who.tenant }, runIdOf(call));
  if (!view) throw notFound();
  call.demand({ customerId: view.doc.customerId });
  return view;
}

export class ReadRun extends Query<Read<Partial<PresentedRun>>> {
  constructor(readonly call: Call) {
    super();
  }
}

@QueryHandler(ReadRun)
export class ReadRunHandler implements IQueryHandler<ReadRun> {
  constructor(private readonly queries: CheckpointQueries) {}

  async execute({ call }: ReadRun) {
    const view = await runFor(call, this.queries);
    const { revision, position } = view;
    return { answer: shownTo(call.who, present(view, call.at)), revision, position };
  }
}

export class ReadCheckpoint extends Query<Read<PresentedRun>> {
  constructor(readonly call: Call) {
    super();
  }
}

@QueryHandler(ReadCheckpoint)
export class ReadCheckpointHandler implements IQueryHandler<ReadCheckpoint> {
  constructor(
    private readonly queries: CheckpointQueries,
    private readonly states: WorkerStates,
  ) {}

  async execute({ call }: ReadCheckpoint) {
    const view = await runFor(call, this.queries);
    const { revision, position } = view;
    return { answer: await this.states.opened(present(view, call.at)), revision, position };
  }
}

export class ListRuns extends Query<{ items: Partial<PresentedRun>[]; nextCursor: string | null }> {
  constructor(readonly call: Call<undefined, RunFilters & Paging>) {
    super();
  }
}

@QueryHandler(ListRuns)
export class ListRunsHandler implements IQueryHandler<ListRuns> {
  constructor(private readonly queries: CheckpointQueries) {}

  async execute({ call }: ListRuns) {
    call.demand({});
    const { query, who, at } = call;
    const { items, ...rest } = await this.queries.list(
      { tenant: who.tenant, ...scopeOf('runs.list', who) },
      query,
      query,
      at,
    );
    return { items: items.map((item) => shownTo(who, item)), ...rest };
  }
}

export class ReadTimeline extends Query<Read<TimelinePage>> {
  constructor(readonly call: Call<undefined, Paging>) {
    super();
  }
}

@QueryHandler(ReadTimeline)
export class ReadTimelineHandler implements IQueryHandler<ReadTimeline> {
  constructor(
    private readonly queries: CheckpointQueries,
    private readonly store: EventStore,
    private readonly messages: CitedMessages,
  ) {}

  async execute({ call }: ReadTimeline) {
    const { doc, revision, position } = await runFor(call, this.queries);
    const stream = streamName('run', call.who.tenant, runIdOf(call));
    const page = await timelineFrom(this.store, stream, call.query);
    const answer = { ...page, items: await this.messages.told(call, doc, page.items) };
    return { answer, revision, position };
  }
}
