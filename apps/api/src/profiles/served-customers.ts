import { Injectable } from '@nestjs/common';
import { RunningProjections } from '#apps/platform';
import { CheckpointQueries } from '#projections/current-checkpoints';
import { runStream } from '#libs/domain/runs';
import { EventStore } from '#libs/event-store';
import type { Call } from '../calls.js';
import { Problem } from '../problems.js';

const PATIENCE_MS = 2000;

/** Which customers an assistant serves at present: those of whose runs it holds the newest lease, until they end. */
@Injectable()
export class ServedCustomers {
  constructor(
    private readonly store: EventStore,
    private readonly queries: CheckpointQueries,
    private readonly projections: RunningProjections,
  ) {}

  /**
   * Asks the policy of the route about the profile that the path names. An assistant serves its customer by the run
   * named, or by any.
   *
   * @throws Problem where the policy says no, or the view of runs is behind; ReadModelUnavailable where it is down
   * and no run is named.
   */
  async demand(call: Call, runId?: string): Promise<void> {
    const { roles } = call.who;
    const customerId = call.param('customerId');
    const serves =
      roles.includes('assistant') &&
      (runId === undefined ? await this.byAny(call, customerId) : await this.byRun(call, customerId, runId));
    call.demand({ customerId, assigned: serves });
  }

  /** Whether the run is the customer's and the caller has its newest lease. @throws Problem where it has ended. */
  private async byRun({ who }: Call, customerId: string, runId: string): Promise<boolean> {
    const run = await this.store.fold(runStream, who.tenant, runId);
    const { started, lease, ended } = run?.state ?? {};
    if (started?.customerId !== customerId || lease?.holder !== who.sub) return false;
    if (ended) throw new Problem('run-ended', `The run has ${ended.status}.`);
    return true;
  }

  /** From the view of runs, once it is as far as the log was when the call came. */
  private async byAny({ who }: Call, customerId: string): Promise<boolean> {
    const running = this.projections.find('current-checkpoints');
    const reached = await running?.waitFor(await this.store.head(), PATIENCE_MS);
    if (reached === false)
      throw new Problem('read-model-behind', 'The view of runs is behind.', {}, { 'retry-after': '1' });
    return this.queries.holds({ tenant: who.tenant, customerId }, who.sub);
  }
}
