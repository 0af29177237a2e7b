import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { Config } from '#apps/platform';
import { judge } from '#libs/access';
import { derivedId, digestOf, type Json } from '#libs/canonical';
import { type Run, type RunCommand, runStream } from '#libs/domain/runs';
import { EventStore, type Handled, RefusedCommand, streamName } from '#libs/event-store';
import { Payloads } from '#libs/payloads';
import type { Call } from '../calls.js';
import { notFound, Problem } from '../problems.js';
import { byWorker } from './runs.handlers.js';
import { contextOf, runIdOf } from './runs.js';
import type { ForkBody } from './runs.schemas.js';
import { StateLimit } from './state-limit.js';
import { reached } from './worker-states.js';

interface Forked {
  runId: string;
  forkedFrom: { runId: string; revision: string };
}
type Fork = Extract<RunCommand, { type: 'ForkRun' }>;

export class ForkRun extends Command<Handled<Forked>> {
  constructor(readonly call: Call<ForkBody>) {
    super();
  }
}

/**
 * Begins a stream of its own with the state that another run had; that run is only read. The id derives from the
 * command's, so a repeat finds the fork it made. Payloads that the fork will cite are kept for it, or put, first.
 */
@CommandHandler(ForkRun)
export class ForkRunHandler implements ICommandHandler<ForkRun> {
  constructor(
    private readonly store: EventStore,
    private readonly payloads: Payloads,
    private readonly limit: StateLimit,
    private readonly config: Config,
  ) {}

  async execute({ call }: ForkRun): Promise<Handled<Forked>> {
    const command = await this.commandOf(call);
    const { tenant } = call.who;
    const { source, runId } = command;
    const stream = streamName('run', tenant, runId);
    const at = new Date(call.at);
    const { payload } = source.workerState ?? {};
    if (payload) await reached(() => this.payloads.keep(tenant, payload, stream, at));
    try {
      return await this.append(call, command);
    } catch (error) {
      if (!(error instanceof RefusedCommand && error.refusal.refused === 'payload-required')) throw error;
      const { customerId, state } = error.refusal.extra as { customerId: string; state: Json };
      const put = await reached(() => this.payloads.put(tenant, customerId, stream, state, at));
      return this.append(call, { ...command, payload: { ...put, of: digestOf(state) } });
    }
  }

  private async commandOf(call: Call<ForkBody>): Promise<Fork> {
    const { tenant, roles } = call.who;
    const { atRevision } = call.body;
    const forked = runIdOf(call);
    const now = await this.store.fold(runStream, tenant, forked);
    if (!now?.state.started) throw notFound();
    call.demand(now.state.started);
    if (atRevision > now.revision) throw unknownRevision(now.revision);
    const then = await this.store.fold(runStream, tenant, forked, { upTo: atRevision });
    if (!then?.state.started) throw notFound();
    return {
      type: 'ForkRun',
      ...byWorker(call),
      runId: derivedId('fork', call.command.commandId),
      forkedFrom: { runId: forked, revision: atRevision.toString() },
      source: then.state as Run,
      openAt: await this.timeOf(streamName('run', tenant, forked), atRevision),
      heldLease: now.state.lease,
      endedNow: now.state.ended,
      bySupervisor: roles.includes('supervisor'),
      inlineBytes: this.config.inlineStateLimit,
    };
  }

  private async timeOf(stream: string, revision: bigint): Promise<string> {
    for await (const { metadata } of this.store.read(stream, { from: revision, to: revision }))
      return metadata.recordedAt;
    throw notFound();
  }

  private append(call: Call, command: Fork): Promise<Handled<Forked>> {
    const { runId, forkedFrom } = command;
    return this.store.handle(this.limit.kind, {
      tenant: call.who.tenant,
      id: runId,
      context: contextOf(call),
      command,
      creates: true,
      permit: ({ started }) => (started ? judge('runs.read', call.who, started) : 'yes'),
      answer: () => ({ runId, forkedFrom }),
    });
  }
}

function unknownRevision(revision: bigint): Problem {
  const message = `the run is at revision ${revision}`;
  return new Problem('invalid-body', 'The run has no such revision.', {
    errors: [{ field: 'atRevision', message }],
  });
}
