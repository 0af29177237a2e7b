import { type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import { RunningProjections } from '#apps/platform';
import type { Call } from '../calls.js';

interface ShownProjection {
  name: string;
  version: number;
  status: string;
  position: string;
  head: string;
  lagEvents: number;
  lagSeconds: number;
  rate: number;
  deadLetters: number;
}

export class ListProjections extends Query<{ items: ShownProjection[] }> {
  constructor(readonly call: Call) {
    super();
  }
}

@QueryHandler(ListProjections)
export class ListProjectionsHandler implements IQueryHandler<ListProjections> {
  constructor(private readonly running: RunningProjections) {}

  async execute({ call }: ListProjections) {
    call.demand({});
    const items = (await this.running.statuses()).map(({ position, head, ...status }) => ({
      name: status.name,
      version: status.version,
      status: status.status,
      position: position.toString(),
      head: head.toString(),
      lagEvents: status.lagEvents,
      lagSeconds: status.lagSeconds,
      rate: status.rate,
      deadLetters: status.deadLetters,
    }));
    return { items };
  }
}
