import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import type { Handled } from '#libs/event-store';
import type { Call } from '../calls.js';
import { byWorker } from './runs.handlers.js';
import type { StateBody } from './runs.schemas.js';
import { WorkerStates } from './worker-states.js';

export class SaveWorkerState extends Command<Handled<{ savedAt: string; label?: string }>> {
  constructor(
    readonly call: Call,
    readonly saved: StateBody & { patch: boolean },
  ) {
    super();
  }
}

@CommandHandler(SaveWorkerState)
export class SaveWorkerStateHandler implements ICommandHandler<SaveWorkerState> {
  constructor(private readonly states: WorkerStates) {}

  execute({ call, saved }: SaveWorkerState) {
    const command = { type: 'SaveWorkerState', ...byWorker(call), ...saved } as const;
    return this.states.save(call, command, ({ workerState }) => {
      const { savedAt = call.at, label } = workerState ?? {};
      return { savedAt, ...(label === undefined ? {} : { label }) };
    });
  }
}
