import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { CheckpointQueries, present, type PresentedRun } from '#projections/current-checkpoints';
import { Rechecks } from '#apps/platform';
import { sha256 } from '#libs/canonical';
import { isRefusal } from '#libs/decider';
import { type FactReading, run as rules, type RunState, runStream } from '#libs/domain/runs';
import { EventStore, type Handled } from '#libs/event-store';
import { type LeaseRecord, Leases } from '#libs/leases';
import type { Call } from '../calls.js';
import { notFound, Problem } from '../problems.js';
import { ATTEMPTS, HeldLeases, streamOf } from './held-leases.js';
import { contextOf, runIdOf } from './runs.js';
import type { LeaseBody, ResumeBody } from './runs.schemas.js';
import { WorkerStates } from './worker-states.js';

interface Resumed {
  run: PresentedRun;
  leaseToken: string;
  leaseExpiresAt: string;
  recheck: ReturnType<typeof recheckOf>;
}

export class ResumeRun extends Command<Handled<Resumed>> {
  constructor(readonly call: Call<ResumeBody>) {
    super();
  }
}

/** What of the command does not come from the caller. */
interface Taken {
  readonly secretDigest: string;
  readonly readings: readonly FactReading[];
  readonly seen?: LeaseRecord;
}

const ON_RESUME = { kind: 'resume', lease: 1 } as const;

/** Thrown out of the rule: the lease may be taken, once the heartbeats of the one that stands are closed. */
class CloseFirst extends Error {
  constructor(readonly number: number) {
    super('the heartbeats must be closed first');
  }
}

/**
 * Takes the lease. The record of heartbeats is closed first, and only then is the new lease appended: a crash
 * between the two leaves the run free and the old token valid until a newer one stands. A repeat of a command that
 * is known is answered before either, with the run as of the lease's event: the first answer, however late.
 */
@CommandHandler(ResumeRun)
export class ResumeRunHandler implements ICommandHandler<ResumeRun> {
  constructor(
    private readonly store: EventStore,
    private readonly leases: Leases,
    private readonly queries: CheckpointQueries,
    private readonly states: WorkerStates,
    private readonly rechecks: Rechecks,
  ) {}

  async execute({ call }: ResumeRun): Promise<Handled<Resumed>> {
    const secret = call.command.leaseSecret();
    const run = { tenant: call.who.tenant, runId: runIdOf(call) };
    const handled = await this.rechecks.with(run, ON_RESUME, (readings) =>
      this.take(call, sha256(secret), readings),
    );
    const { number, expiresAt, recheck } = handled.answer;
    const view = await this.queries.run({ tenant: call.who.tenant }, runIdOf(call), handled.revision);
    if (!view) throw notFound();
    const answer = {
      run: await this.states.openedIfReachable(present(view, view.doc.updatedAt)),
      leaseToken: `${number}.${secret}`,
      leaseExpiresAt: expiresAt,
      recheck,
    };
    return { ...handled, answer };
  }

  private async take(call: Call<ResumeBody>, secretDigest: string, readings: FactReading[]) {
    const stream = streamOf(call);
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const seen = await this.leases.read(stream);
      try {
        return await this.append(call, { secretDigest, readings, ...(seen && { seen }) });
      } catch (error) {
        if (!(error instanceof CloseFirst)) throw error;
        const behind = seen !== undefined && seen.number > error.number;
        if (behind) await this.store.fold(runStream, call.who.tenant, runIdOf(call));
        else await this.leases.close(stream, error.number, seen);
      }
    }
    throw new Problem(
      'concurrent-change',
      'Others resumed the run at the same time.',
      {},
      { 'retry-after': '1' },
    );
  }

  private append(call: Call<ResumeBody>, taken: Taken) {
    const { who, at, body } = call;
    const { seen } = taken;
    const decide: typeof rules.decide = (command, state) => {
      const outcome = rules.decide(command, state);
      const number = state.lease?.number;
      const closed = number === undefined || (seen?.number === number && seen.closed);
      if (!closed && !isRefusal(outcome)) throw new CloseFirst(number);
      return outcome;
    };
    return this.store.handle(
      { ...runStream, decider: { ...rules, decide } },
      {
        tenant: who.tenant,
        id: runIdOf(call),
        context: contextOf(call),
        command: { type: 'TakeLease', at, holder: who.sub, ...taken, ...body },
        permit: ({ started }) => call.judge({ customerId: started?.customerId, takeOver: body.takeOver }),
        answer: ({ lease, recheck }) => {
          const { number = 0, expiresAt = at } = lease ?? {};
          return { number, expiresAt, recheck: recheckOf(recheck, number) };
        },
      },
    );
  }
}

/** What was found when a lease was taken; nothing, where nothing was due then. */
function recheckOf(last: RunState['recheck'], lease: number) {
  if (last?.on.kind !== 'resume' || last.on.lease !== lease)
    return { unchanged: [], changed: [], unavailable: [] };
  const { unchanged, changed, unavailable } = last;
  return {
    unchanged,
    changed: changed.map(({ name, was, now = null }) => ({ name, was, now })),
    unavailable,
  };
}

export class ExtendLease extends Command<{ leaseExpiresAt: string }> {
  constructor(readonly call: Call<LeaseBody>) {
    super();
  }
}

@CommandHandler(ExtendLease)
export class ExtendLeaseHandler implements ICommandHandler<ExtendLease> {
  constructor(private readonly held: HeldLeases) {}

  async execute({ call }: ExtendLease) {
    const { number, leaseSeconds } = await this.held.newest(call);
    const leaseExpiresAt = new Date(Date.parse(call.at) + leaseSeconds * 1000).toISOString();
    return { leaseExpiresAt: await this.held.extend(call, number, leaseExpiresAt) };
  }
}

export class ReturnLease extends Command<{ returned: true }> {
  constructor(readonly call: Call<LeaseBody>) {
    super();
  }
}

@CommandHandler(ReturnLease)
export class ReturnLeaseHandler implements ICommandHandler<ReturnLease> {
  constructor(private readonly held: HeldLeases) {}

  async execute({ call }: ReturnLease) {
    const { number } = await this.held.newest(call);
    await this.held.giveBack(call, number);
    return { returned: true as const };
  }
}
