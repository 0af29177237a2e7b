import { Injectable } from '@nestjs/common';
import { runStream } from '#libs/domain/runs';
import { EventStore, streamName } from '#libs/event-store';
import { Leases } from '#libs/leases';
import type { Call } from '../calls.js';
import { notFound, Problem } from '../problems.js';
import { leaseShown, runIdOf } from './runs.js';
import type { LeaseBody } from './runs.schemas.js';

export const ATTEMPTS = 5;

/** Heartbeats of the newest lease of a run. They never touch the stream. */
@Injectable()
export class HeldLeases {
  constructor(
    private readonly store: EventStore,
    private readonly leases: Leases,
  ) {}

  /**
   * The lease that the token of a call is of.
   *
   * @throws Problem when there is a newer one, or the token is another caller's; when the run has ended.
   */
  async newest(call: Call<LeaseBody>) {
    const fold = await this.store.fold(runStream, call.who.tenant, runIdOf(call));
    if (!fold?.state.started) throw notFound();
    call.demand(fold.state.started);
    const { lease, ended } = fold.state;
    const shown = leaseShown(call.body.leaseToken, call.who);
    const same = lease?.number === shown?.number && lease?.secretDigest === shown?.secretDigest;
    if (!lease || !same || lease.holder !== call.who.sub) throw stale();
    if (ended) throw new Problem('run-ended', `The run has ${ended.status}.`);
    return lease;
  }

  /** @throws Problem when the lease was closed meanwhile. */
  async extend(call: Call, number: number, expiresAt: string): Promise<string> {
    const record = await this.leases.extend(streamOf(call), number, expiresAt);
    if (record.closed || record.number !== number) throw stale();
    return record.expiresAt;
  }

  async giveBack(call: Call, number: number): Promise<void> {
    const stream = streamOf(call);
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const seen = await this.leases.read(stream);
      const gone = seen !== undefined && (seen.number > number || (seen.number === number && seen.closed));
      if (gone || (await this.leases.close(stream, number, seen))) return;
    }
    throw new Problem(
      'concurrent-change',
      'The lease was extended at the same time.',
      {},
      { 'retry-after': '1' },
    );
  }
}

export function streamOf(call: Call): string {
  return streamName('run', call.who.tenant, runIdOf(call));
}

function stale(): Problem {
  return new Problem('stale-lease', 'This is not the newest lease of the run, or it is not yours.');
}
