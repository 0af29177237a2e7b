import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { type BeforeApplicationShutdown, Injectable, Module, type OnModuleInit } from '@nestjs/common';
import { Metrics, type ProjectionStatus, RunningProjections } from '#apps/platform';

/** What the thread is asked. */
export type Question =
  | { readonly of: 'names' }
  | { readonly of: 'status'; readonly name: string }
  | { readonly of: 'wait'; readonly name: string; readonly position: bigint; readonly milliseconds: number }
  | { readonly of: 'metrics' };
export type ToThread = { readonly id: number; readonly question: Question } | 'stop';
export type FromThread = { readonly id: number; readonly answer: unknown };

/**
 * Projections and reactions in a thread of their own, with connections of their own, so that commands and what
 * follows from them share neither event loop nor heap. The thread is as good as the process: when it fails, the
 * process ends, and is started again.
 *
 * Others in the process reach the projections through `RunningProjections`, as if they ran beside them.
 */
@Injectable()
export class Background implements OnModuleInit, BeforeApplicationShutdown {
  private readonly thread: Worker;
  private readonly waiting = new Map<number, (answer: never) => void>();
  private asked = 0;

  constructor(
    private readonly running: RunningProjections,
    metrics: Metrics,
  ) {
    this.thread = new Worker(new URL('./background-thread.js', import.meta.url));
    this.thread.on('message', ({ id, answer }: FromThread) => {
      this.waiting.get(id)?.(answer as never);
      this.waiting.delete(id);
    });
    metrics.include(() => this.ask<string>({ of: 'metrics' }));
  }

  /** Resolves when the thread runs; its stores may not answer yet. */
  async onModuleInit(): Promise<void> {
    for (const name of await this.ask<string[]>({ of: 'names' })) {
      this.running.add(name, {
        status: () => this.ask<ProjectionStatus>({ of: 'status', name }),
        waitFor: (position, milliseconds) => this.ask<boolean>({ of: 'wait', name, position, milliseconds }),
      });
    }
  }

  /** Drains the thread; whoever waits is answered that what was waited for did not come. */
  async beforeApplicationShutdown(): Promise<void> {
    const exited = once(this.thread, 'exit');
    this.thread.postMessage('stop' satisfies ToThread);
    await exited;
  }

  private ask<Answer>(question: Question): Promise<Answer> {
    return new Promise((resolve) => {
      const id = ++this.asked;
      this.waiting.set(id, resolve);
      this.thread.postMessage({ id, question } satisfies ToThread);
    });
  }
}

@Module({ providers: [Background] })
export class BackgroundModule {}
