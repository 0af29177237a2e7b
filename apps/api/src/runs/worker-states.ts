import { Injectable } from '@nestjs/common';
import type { PresentedRun } from '#projections/current-checkpoints';
import { Config } from '#apps/platform';
import { digestOf, type Json } from '#libs/canonical';
import type { RunCommand, RunState } from '#libs/domain/runs';
import { type Handled, RefusedCommand, streamName } from '#libs/event-store';
import { type Payload, Payloads } from '#libs/payloads';
import { ReadModelUnavailable } from '#libs/projecting';
import type { Call } from '../calls.js';
import { Problem } from '../problems.js';
import { runIdOf, Runs } from './runs.js';

type Save = Extract<RunCommand, { type: 'SaveWorkerState' }>;

/** Each is needed once; the saved state may move away under a command, as others save. */
const ATTEMPTS = 6;

/**
 * The states of workers, with the payload store behind the large ones. Small ones never touch it. The rule says what
 * it lacks, the state saved before or a place for the new one, and is asked again with that: what is cited is durable
 * first, and what was put for a command that did not append is swept later.
 */
@Injectable()
export class WorkerStates {
  constructor(
    private readonly runs: Runs,
    private readonly payloads: Payloads,
    private readonly config: Config,
  ) {}

  async save<Answer>(
    call: Call,
    saved: Omit<Save, 'limitBytes' | 'inlineBytes'>,
    answer: (run: RunState) => Answer,
  ): Promise<Handled<Answer>> {
    const { workerStateLimit, stateLimit, inlineStateLimit } = this.config;
    const limitBytes = Math.min(workerStateLimit, stateLimit);
    let command: Save = { ...saved, limitBytes, inlineBytes: inlineStateLimit };
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.runs.handle(call, command, answer);
      } catch (error) {
        if (!(error instanceof RefusedCommand) || attempt === ATTEMPTS) throw error;
        const supplied = await reached(() => this.supply(call, error.refusal));
        if (!supplied) throw error;
        command = { ...command, ...supplied };
      }
    }
  }

  /** The run with the worker's state itself, wherever it lies. */
  async opened(run: PresentedRun): Promise<PresentedRun> {
    return reached(() => this.open(run));
  }

  /** As `opened`; while the payload store is down, with the reference, since a lease that was taken must be answered. */
  async openedIfReachable(run: PresentedRun): Promise<PresentedRun> {
    try {
      return await this.open(run);
    } catch (error) {
      if (error instanceof ReadModelUnavailable) return run;
      throw error;
    }
  }

  private async open(run: PresentedRun): Promise<PresentedRun> {
    const { tenant, workerState } = run;
    if (workerState?.payload === undefined) return run;
    const { payload, ...rest } = workerState;
    return { ...run, workerState: { ...rest, state: await this.payloads.open(tenant, payload) } };
  }

  private async supply(
    call: Call,
    { refused, extra }: RefusedCommand['refusal'],
  ): Promise<Partial<Save> | undefined> {
    const { tenant } = call.who;
    if (refused === 'payload-away') {
      const payload = extra as unknown as Payload;
      return { opened: { digest: payload.digest, state: await this.payloads.open(tenant, payload) } };
    }
    if (refused !== 'payload-required') return undefined;
    const { customerId, state } = extra as { customerId: string; state: Json };
    const stream = streamName('run', tenant, runIdOf(call));
    const put = await this.payloads.put(tenant, customerId, stream, state, new Date(call.at));
    return { payload: { ...put, of: digestOf(state) } };
  }
}

export async function reached<Result>(ask: () => Promise<Result>): Promise<Result> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof ReadModelUnavailable)) throw error;
    const detail = 'The document store cannot be reached, which holds large worker states.';
    throw new Problem('payloads-unavailable', detail, {}, { 'retry-after': '1' });
  }
}
