import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Histogram } from 'prom-client';
import { type Log, Metrics, nestLogger } from '#apps/platform';
import { type Identity, policyFaults } from '#libs/access';
import {
  answerUnreadable,
  nameless,
  PATIENCE,
  type Patience,
  serverOptions,
  targetOf,
} from './connections.js';
import { ProblemAnswers } from './problem-answers.js';
import { notFound, Problem } from './problems.js';
import { BODY_LIMIT, Routes, specOf } from './routes.js';
import { parseStrictly } from './strict-json.js';
import { Understanding } from './understanding.js';

const JSON_TYPES = ['application/json', 'application/merge-patch+json'];
const LONGEST_PARAMETER = 400;
const LOOPBACK = ['127.0.0.1', '::1', '::ffff:127.0.0.1'];

/**
 * Builds the app on Fastify, with everything that is common to all routes, and leaves listening to the caller.
 * `app.close()` refuses new connections, lets the requests in flight end, then closes the modules, once.
 *
 * @throws Error naming every route without a policy; nothing is left open then.
 */
export async function createHttpApp(
  rootModule: object,
  { log, patience = PATIENCE }: { log: Log; patience?: Patience },
): Promise<NestFastifyApplication> {
  const edge: { answers?: ProblemAnswers } = {};
  const adapter = new FastifyAdapter({
    bodyLimit: BODY_LIMIT,
    http: serverOptions(patience),
    requestTimeout: patience.requestMs,
    rewriteUrl: ({ url = '/' }) => targetOf(url),
    clientErrorHandler: (error, socket) => edge.answers?.count(answerUnreadable(error, socket)),
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    routerOptions: { maxParamLength: LONGEST_PARAMETER },
    skipMiddie: true,
    frameworkErrors: (_: Error, request: FastifyRequest, reply: FastifyReply) =>
      edge.answers?.answer(UNREADABLE, request, reply),
  });
  const options = { bodyParser: false, logger: nestLogger(log), abortOnError: false };
  const app = await NestFactory.create<NestFastifyApplication>(rootModule, adapter, options);
  try {
    edge.answers = await dress(app, adapter.getInstance<FastifyInstance>(), log);
  } catch (error) {
    await app.close();
    throw error;
  }
  return app;
}

const UNREADABLE = new Problem('invalid-parameter', 'The address cannot be read.', { errors: [] });

/** Everything around the routes; the order is that in which a request meets it. */
async function dress(
  app: NestFastifyApplication,
  server: FastifyInstance,
  log: Log,
): Promise<ProblemAnswers> {
  const routes = app.get(Routes);
  routes.gatherFrom(server);
  const answers = new ProblemAnswers(log, routes, app.get(Metrics));
  app.get(Metrics).registerMetric(policyFaults);
  app.useGlobalFilters(answers);
  measure(server, app, log);
  understand(server, app.get(Understanding));
  parseBodies(server);
  await app.init();
  routes.refuseUnpermitted();
  await server.ready();
  return answers;
}

function understand(server: FastifyInstance, understanding: Understanding): void {
  server.decorateRequest('identity', null);
  server.decorateRequest('call', null);
  server.addHook('onRequest', (request, _reply, done) => {
    const problem = nameless(request.raw);
    if (problem) return done(problem);
    const spec = specOf(request.routeOptions.config);
    if (spec === undefined || spec.permit === 'open') return done();
    if (spec.permit === 'loopback') return done(LOOPBACK.includes(request.ip) ? undefined : notFound());
    const keep = (identity: Identity) => {
      request.identity = identity;
      done();
    };
    try {
      const identity = understanding.identify(request);
      if (identity instanceof Promise) identity.then(keep, done);
      else keep(identity);
    } catch (error) {
      done(error as Error);
    }
  });
  server.addHook('preHandler', async (request, reply) => {
    const spec = specOf(request.routeOptions.config);
    if (!spec || !request.identity) return;
    reply.header('cache-control', 'no-store');
    request.call = await understanding.call(spec, request.identity, request, reply);
  });
}

function parseBodies(server: FastifyInstance): void {
  server.removeAllContentTypeParsers();
  server.addContentTypeParser<Buffer>(JSON_TYPES, { parseAs: 'buffer' }, (request, bytes, done) => {
    try {
      refuseCharset(request.headers['content-type']);
      if (bytes.length === 0) return done(null, undefined);
      done(null, parseStrictly(bytes));
    } catch (error) {
      done(error as Error);
    }
  });
}

const CHARSET = /;\s*charset\s*=\s*("?)([^";\s]*)\1/gi;

/** @throws Problem for a body that says that it is in anything but UTF-8. */
function refuseCharset(contentType = ''): void {
  for (const [, , charset = ''] of contentType.matchAll(CHARSET))
    if (!/^utf-?8$/i.test(charset)) throw new Problem('unsupported-media-type', 'Send the body in UTF-8.');
}

function measure(server: FastifyInstance, app: INestApplicationContext, log: Log): void {
  const seconds = new Histogram({
    name: 'waymark_http_request_duration_seconds',
    help: 'Time to answer, by route.',
    labelNames: ['method', 'route', 'status'] as const,
    buckets: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5],
    registers: [app.get(Metrics)],
  });
  server.addHook('onResponse', (request, reply, done) => {
    const { method } = request;
    const { url: route = 'unknown' } = request.routeOptions;
    const { statusCode: status, elapsedTime } = reply;
    seconds.observe({ method, route, status }, elapsedTime / 1000);
    log.debug({ method, route, status, milliseconds: elapsedTime }, 'answered');
    done();
  });
}
