import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { type BeforeApplicationShutdown, Injectable, Module, type OnModuleInit } from '@nestjs/common';
import { Metrics, type Ordered, type ProjectionStatus, RunningProjections } from '#apps/platform';
import type { RebuildOrder } from '#libs/projecting';
import { Questions } from './questions.js';

/** What the thread is asked. */
export type Question =
  | { readonly of: 'names' }
  | { readonly of: 'status'; readonly name: string }
  | { readonly of: 'wait'; readonly name: string; readonly position: bigint; readonly milliseconds: number }
  | { readonly of: 'order'; readonly name: string; readonly order: RebuildOrder }
  | { readonly of: 'metrics' };

/**
 * Projections and reactions in a thread of their own, with connections of their own, so that commands and what
 * follows from them share neither event loop nor heap. The thread is as good as the process: when it fails, the
 * process ends, and is started again; what it was asked and has not answered fails as an unavailable read model.
 *
 * Others in the process reach the projections through `RunningProjections`, as if they ran beside them.
 */
@Injectable()
export class Background implements OnModuleInit, BeforeApplicationShutdown {
  private readonly thread: Worker;
  private readonly questions: Questions<Question>;
  private stopping = false;

  constructor(
    private readonly running: RunningProjections,
    metrics: Metrics,
  ) {
    this.thread = new Worker(new URL('./background-thread.js', import.meta.url));
    this.questions = new Questions(this.thread);
    this.thread.once('exit', (code) => {
      this.questions.end();
      if (!this.stopping)
        throw new Error(`the thread of the projections ended by itself (exit code ${code})`);
    });
    metrics.include(() => this.questions.ask<string>({ of: 'metrics' }));
  }

  /** Resolves when the thread runs; its stores may not answer yet. */
  async onModuleInit(): Promise<void> {
    const { questions } = this;
    for (const name of await questions.ask<string[]>({ of: 'names' })) {
      this.running.add(name, {
        status: () => questions.ask<ProjectionStatus>({ of: 'status', name }),
        waitFor: (position, milliseconds) =>
          questions.ask<boolean>({ of: 'wait', name, position, milliseconds }),
        order: (order) => questions.ask<Ordered>({ of: 'order', name, order }),
      });
    }
  }

  /** Drains the thread; whoever waits is answered that what was waited for did not come. */
  async beforeApplicationShutdown(): Promise<void> {
    this.stopping = true;
    const exited = once(this.thread, 'exit');
    this.thread.postMessage('stop');
    await exited;
  }
}

@Module({ providers: [Background] })
export class BackgroundModule {}
