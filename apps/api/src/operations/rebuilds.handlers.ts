import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { RunningProjections } from '#apps/platform';
import type { RebuildOrder, ShownRebuild } from '#libs/projecting';
import type { Call } from '../calls.js';
import { notFound, Problem, problems } from '../problems.js';

/** What an operator orders of the projection that the path names. */
export class OrderRebuild extends Command<ReturnType<typeof shown>> {
  constructor(
    readonly call: Call,
    readonly order: RebuildOrder,
  ) {
    super();
  }
}

@CommandHandler(OrderRebuild)
export class OrderRebuildHandler implements ICommandHandler<OrderRebuild> {
  constructor(private readonly running: RunningProjections) {}

  async execute({ call, order }: OrderRebuild) {
    call.demand({});
    const projection = this.running.find(call.param('name'));
    if (!projection) throw notFound();
    const ordered = await projection.order(order);
    if ('rebuild' in ordered) return shown(ordered.rebuild);
    const { refused, detail } = ordered;
    if (refused === 'not-found') throw notFound();
    const headers: Record<string, string> = problems[refused].status === 503 ? { 'retry-after': '1' } : {};
    throw new Problem(refused, `${detail[0]?.toUpperCase()}${detail.slice(1)}.`, {}, headers);
  }
}

function shown({ position, head, ...rebuild }: ShownRebuild) {
  return { ...rebuild, position: position.toString(), head: head.toString() };
}
