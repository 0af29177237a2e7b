import { Controller, Header, Param, Redirect, Res } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import { Metrics } from '#apps/platform';
import { type Call as Of, Called } from '../calls.js';
import { isProblemCode, notFound } from '../problems.js';
import { Route, Routes } from '../routes.js';
import { HealthCheck } from './health.js';
import { openApi } from './openapi.js';
import { ListProjections } from './operations.handlers.js';
import { docsPage, problemPage } from './pages.js';

const HTML = 'text/html; charset=utf-8';

const live = z.object({ status: z.literal('live') });
const health = z.object({
  ready: z.boolean(),
  eventStore: z.enum(['up', 'down']),
  documentStore: z.enum(['up', 'down']),
  projections: z.array(z.object({ name: z.string(), status: z.string(), lagEvents: z.number() })),
});
const projection = z.object({
  name: z.string(),
  version: z.int(),
  status: z.string(),
  position: z.string(),
  head: z.string(),
  lagEvents: z.number(),
  lagSeconds: z.number(),
  rate: z.number(),
  deadLetters: z.number(),
});

@Controller()
export class OperationsController {
  constructor(
    private readonly health: HealthCheck,
    private readonly metrics: Metrics,
    private readonly routes: Routes,
    private readonly queries: QueryBus,
  ) {}

  @Route('GET', '/health/live', {
    kind: 'page',
    permit: 'open',
    summary: 'Whether the process runs',
    answer: live,
  })
  live() {
    return { status: 'live' };
  }

  @Route('GET', '/health/ready', {
    kind: 'page',
    permit: 'open',
    summary: 'Whether the process can do its work; 503 while it cannot',
    answer: health,
  })
  async ready(@Res({ passthrough: true }) reply: FastifyReply) {
    const found = await this.health.check();
    if (!found.ready) reply.code(503).header('retry-after', '1');
    return found;
  }

  @Route('GET', '/metrics', {
    kind: 'page',
    permit: 'loopback',
    summary: 'Metrics in the Prometheus text format, for this machine alone',
  })
  async scrape(@Res({ passthrough: true }) reply: FastifyReply) {
    reply.type(this.metrics.contentType);
    return this.metrics.metrics();
  }

  @Route('GET', '/openapi.json', { kind: 'page', permit: 'open', summary: 'This contract, as OpenAPI 3.1' })
  document() {
    return openApi(this.routes.known);
  }

  @Route('GET', '/docs', { kind: 'page', permit: 'open', summary: 'This contract, as a page' })
  @Header('content-type', HTML)
  docs() {
    return docsPage(this.routes.known);
  }

  @Route('GET', '/', { kind: 'page', permit: 'open', summary: 'Leads to the page of routes' })
  @Redirect('/docs', 302)
  root() {
    return undefined;
  }

  @Route('GET', '/problems/:code', {
    kind: 'page',
    permit: 'open',
    summary: 'What a problem means, and what to do',
  })
  @Header('content-type', HTML)
  problem(@Param('code') code: string) {
    if (!isProblemCode(code)) throw notFound();
    return problemPage(code);
  }

  @Route('GET', '/v1/projections', {
    kind: 'view',
    permit: 'projections.read',
    summary: 'How the projections of this process stand',
    answer: z.object({ items: z.array(projection) }),
  })
  projections(@Called() call: Of) {
    return this.queries.execute(new ListProjections(call));
  }
}
