import { Controller } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import { derivedId } from '#libs/canonical';
import type { RebuildOrder } from '#libs/projecting';
import { z } from 'zod';
import { type Call as Of, Called } from '../calls.js';
import { Dispatch } from '../dispatch.js';
import { Route, type RouteSpec } from '../routes.js';
import { OrderRebuild } from './rebuilds.handlers.js';

const startBody = z.strictObject({
  version: z.int().min(1).max(1_000_000).optional(),
  autoSwitch: z.boolean().default(false),
});
const throttleBody = z.strictObject({ eventsPerSecond: z.int().min(1).max(1_000_000).nullable() });
const switchBody = z.strictObject({ reason: z.string().min(1).max(1000).optional() });

const rebuild = z.object({
  rebuildId: z.uuid(),
  version: z.int(),
  edition: z.string(),
  phase: z.string(),
  autoSwitch: z.boolean(),
  eventsPerSecond: z.int().nullable(),
  startedBy: z.string(),
  startedAt: z.string(),
  code: z.string().optional(),
  position: z.string(),
  head: z.string(),
  percent: z.number(),
  rate: z.number(),
  etaSeconds: z.number().nullable(),
  deadLetters: z.number(),
  comparison: z
    .object({
      compared: z.number(),
      missing: z.number(),
      extra: z.number(),
      differing: z.number(),
      expected: z.number(),
      examples: z.array(z.object({ id: z.string(), kind: z.string(), fields: z.array(z.string()) })),
    })
    .optional(),
  override: z.object({ by: z.string(), reason: z.string(), at: z.string() }).optional(),
});

const ordered: Pick<RouteSpec, 'kind' | 'permit' | 'answer'> = {
  kind: 'aside',
  permit: 'projections.rebuild',
  answer: rebuild,
};

/** What an operator does with the rebuilds of a projection. */
@Controller()
export class RebuildsController {
  constructor(
    private readonly dispatch: Dispatch,
    private readonly commands: CommandBus,
  ) {}

  @Route('POST', '/v1/projections/:name/rebuilds', {
    ...ordered,
    summary: 'Build a version beside the live one; without `version` the current one afresh',
    body: startBody,
    bodyOptional: true,
    answer: z.object({ rebuildId: z.uuid() }),
    status: 202,
  })
  async start(@Called() call: Of<z.output<typeof startBody>>) {
    const asked = derivedId('rebuild', call.command.commandId);
    const { rebuildId } = await this.order(call, {
      do: 'start',
      rebuildId: asked,
      ...call.body,
      ...by(call),
    });
    return { rebuildId };
  }

  @Route('GET', '/v1/projections/:name/rebuilds/:rebuildId', {
    ...ordered,
    kind: 'view',
    summary: 'How far a rebuild is, and once compared, how the documents differ',
  })
  show(@Called() call: Of) {
    return this.commands.execute(new OrderRebuild(call, { do: 'show', ...of(call) }));
  }

  @Route('POST', '/v1/projections/:name/rebuilds/:rebuildId/pause', {
    ...ordered,
    summary: 'Pause a rebuild',
  })
  pause(@Called() call: Of) {
    return this.order(call, { do: 'pause', ...of(call), ...by(call) });
  }

  @Route('POST', '/v1/projections/:name/rebuilds/:rebuildId/resume', {
    ...ordered,
    summary: 'Let a paused rebuild go on',
  })
  resume(@Called() call: Of) {
    return this.order(call, { do: 'resume', ...of(call), ...by(call) });
  }

  @Route('POST', '/v1/projections/:name/rebuilds/:rebuildId/throttle', {
    ...ordered,
    summary: 'Limit how many events a second a rebuild applies; null lifts the limit',
    body: throttleBody,
  })
  throttle(@Called() call: Of<z.output<typeof throttleBody>>) {
    return this.order(call, { do: 'throttle', ...of(call), ...call.body, ...by(call) });
  }

  @Route('POST', '/v1/projections/:name/rebuilds/:rebuildId/switch', {
    ...ordered,
    summary: 'Give readers the new version; where documents differ a reason is needed, and recorded',
    body: switchBody,
    bodyOptional: true,
  })
  switch(@Called() call: Of<z.output<typeof switchBody>>) {
    return this.order(call, { do: 'switch', ...of(call), ...call.body, ...by(call) });
  }

  @Route('POST', '/v1/projections/:name/rebuilds/:rebuildId/abort', {
    ...ordered,
    summary: 'End a rebuild, and drop what it built',
  })
  abort(@Called() call: Of) {
    return this.order(call, { do: 'abort', ...of(call), ...by(call) });
  }

  @Route('POST', '/v1/projections/:name/rollback', {
    ...ordered,
    summary: 'Give readers the version before again, while it is kept',
  })
  rollback(@Called() call: Of) {
    return this.order(call, { do: 'rollback', ...by(call) });
  }

  private order(call: Of, order: RebuildOrder) {
    return this.dispatch.aside(call, new OrderRebuild(call, order));
  }
}

function of(call: Of) {
  return { rebuildId: call.param('rebuildId') };
}

function by({ who }: Of) {
  return { by: who.sub };
}
