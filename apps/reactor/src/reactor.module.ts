import {
  type BeforeApplicationShutdown,
  Injectable,
  Module,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { Gauge } from 'prom-client';
import { Clock, Config, Log, Metrics, noticeIn, Rechecks } from '#apps/platform';
import { EventStore } from '#libs/event-store';
import { ReadModels } from '#libs/projecting';
import { ReactionRunner, type ReactionStatus } from '#libs/reacting';
import { Vault } from '#libs/vault';
import { fileApprovedClaim } from './file-approved-claim.js';
import { notifyApprovers } from './notify-approvers.js';
import { PayloadSweep } from './payload-sweep.js';

/** The reactions that this process carries out: begun with it, drained before its stores are closed. */
@Injectable()
export class Reactions implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly runners: ReactionRunner[];
  private readonly stopping = new AbortController();

  constructor(
    events: EventStore,
    vault: Vault,
    models: ReadModels,
    rechecks: Rechecks,
    told: Log,
    clock: Clock,
    { webhooks }: Config,
  ) {
    const notice = noticeIn(told);
    const now = () => clock.now();
    const reactions = [
      fileApprovedClaim({ events, vault, rechecks, now, notice }),
      notifyApprovers({ webhooks, now, notice, signal: this.stopping.signal }),
    ];
    const stores = { log: events, models, notice };
    this.runners = reactions.map((reaction) => new ReactionRunner(reaction, stores));
  }

  statuses(): ReactionStatus[] {
    return this.runners.map((runner) => runner.status());
  }

  /** Whether a reaction is done with everything up to a position, waiting so many milliseconds at most. */
  async waitFor(name: string, position: bigint, milliseconds: number): Promise<boolean> {
    const runner = this.runners.find((each) => each.status().name === name);
    return runner !== undefined && runner.waitFor(position, milliseconds);
  }

  onApplicationBootstrap(): void {
    for (const runner of this.runners) runner.start();
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopping.abort();
    await Promise.all(this.runners.map((runner) => runner.stop()));
  }
}

@Module({ providers: [Reactions, PayloadSweep], exports: [Reactions] })
export class ReactorModule {
  constructor(reactions: Reactions, metrics: Metrics, rechecks: Rechecks) {
    rechecks.countIn(metrics, 'waymark_reaction_fact_unanswered_total');
    const gauge = (name: string, help: string, value: (status: ReactionStatus) => number) =>
      new Gauge({
        name,
        help,
        labelNames: ['reaction'] as const,
        registers: [metrics],
        collect() {
          for (const status of reactions.statuses()) this.set({ reaction: status.name }, value(status));
        },
      });
    gauge('waymark_reaction_unfinished', 'Events heard and not done with.', (it) => it.unfinished);
    gauge('waymark_reaction_dead_letters', 'Events set aside, to be tried later.', (it) => it.deadLetters);
    gauge(
      'waymark_reaction_retried',
      'Attempts of dead letters since the process began.',
      (it) => it.retried,
    );
    gauge('waymark_reaction_handled', 'Events carried out since the process began.', (it) => it.handled);
  }
}
