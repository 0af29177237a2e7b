import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Counter } from 'prom-client';
import type { Log, Metrics } from '#apps/platform';
import { ConversationGone } from '#libs/conversations';
import { KeysUnavailable, Unauthenticated } from '#libs/access';
import {
  AppendTooLarge,
  ConcurrentChange,
  IdempotencyKeyReused,
  NotPermitted,
  PayloadMissing,
  RefusedCommand,
  RevisionMismatch,
  StoreUnavailable,
  StreamNotFound,
  UnknownStoredEvent,
  UnreadableEvent,
} from '#libs/event-store';
import { InvalidCursor, ReadModelUnavailable } from '#libs/projecting';
import { isProblemCode, keyReused, notFound, notPermitted, Problem, problems } from './problems.js';
import { BODY_LIMIT, type Routes } from './routes.js';
import { BadJson } from './strict-json.js';
import { CHALLENGE, pathOf } from './understanding.js';

const RETRY = { 'retry-after': '1' };

/** The one place where anything thrown becomes an answer. What is no answer of ours is logged, and told to nobody. */
@Catch()
export class ProblemAnswers implements ExceptionFilter {
  private readonly counted: Counter<'code'>;

  constructor(
    private readonly log: Log,
    private readonly routes: Routes,
    metrics: Metrics,
  ) {
    this.counted = new Counter({
      name: 'waymark_problems_total',
      help: 'Answers that were no result, by code.',
      labelNames: ['code'] as const,
      registers: [metrics],
    });
  }

  catch(error: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    this.answer(error, http.getRequest<FastifyRequest>(), http.getResponse<FastifyReply>());
  }

  answer(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    const problem = this.problemOf(error, request);
    this.count(problem);
    if (problem.status === 500) this.report(error, problem, request);
    if (reply.sent) return;
    reply
      .code(problem.status)
      .headers(problem.headers)
      .header('content-type', 'application/problem+json; charset=utf-8')
      .send(JSON.stringify(problem.body(pathOf(request))));
  }

  /** Counts an answer; one that was given elsewhere as well. */
  count(problem: Problem | undefined): void {
    if (problem) this.counted.inc({ code: problem.code });
  }

  private problemOf(error: unknown, request: FastifyRequest): Problem {
    if (error instanceof Problem) return error;
    return ofAccess(error) ?? ofStore(error) ?? ofReading(error) ?? this.ofHttp(error, request) ?? UNEXPECTED;
  }

  /** What Fastify and Nest refuse by themselves. */
  private ofHttp(error: unknown, request: FastifyRequest): Problem | undefined {
    if (error instanceof BadJson)
      return new Problem('invalid-body', `${error.message}.`, {
        errors: [{ field: error.place, message: error.message }],
      });
    const status = statusOf(error);
    if (status === 404) return this.wrongMethod(request) ?? notFound();
    if (status === 413) return tooLarge(request);
    if (status === 415)
      return new Problem('unsupported-media-type', 'Send the body as `Content-Type: application/json`.');
    if (status === 400 || status === 414)
      return new Problem('invalid-parameter', 'The address or the body cannot be read.', { errors: [] });
    return undefined;
  }

  private wrongMethod(request: FastifyRequest): Problem | undefined {
    const allow = this.routes.methodsAt(pathOf(request)).join(', ');
    if (allow === '') return undefined;
    return new Problem('method-not-allowed', `The address takes ${allow}.`, {}, { allow });
  }

  /** Without the error's message, which may repeat what was sent. */
  private report(error: unknown, { code }: Problem, request: FastifyRequest): void {
    const { name = 'unknown', stack = '' } = error instanceof Error ? error : {};
    const frames = stack.split('\n').filter((line) => line.startsWith('    at '));
    const { method, routeOptions } = request;
    this.log.error({ code, error: name, frames, method, route: routeOptions.url }, 'request failed');
  }
}

const UNEXPECTED = new Problem('internal-error', 'The request failed for a reason that is not yours.');

function statusOf(error: unknown): number | undefined {
  if (error instanceof HttpException) return error.getStatus();
  return (error as { statusCode?: number } | undefined)?.statusCode;
}

function tooLarge(request: FastifyRequest): Problem {
  const size = Number(request.headers['content-length']);
  const known = Number.isSafeInteger(size) ? { size } : {};
  return new Problem('payload-too-large', `A body may have ${BODY_LIMIT} bytes.`, {
    limit: BODY_LIMIT,
    ...known,
  });
}

function ofAccess(error: unknown): Problem | undefined {
  if (error instanceof Unauthenticated)
    return new Problem('unauthenticated', `${error.message}.`, {}, CHALLENGE);
  if (error instanceof KeysUnavailable)
    return new Problem('keys-unavailable', `${error.message}.`, {}, RETRY);
  if (error instanceof StreamNotFound) return notFound();
  if (error instanceof NotPermitted) return notPermitted();
  return undefined;
}

/** An approval that the run does not have is one that does not exist. */
const SAME_AS_MISSING = ['approval-unknown', 'not-found'];

function ofStore(error: unknown): Problem | undefined {
  if (error instanceof RefusedCommand) {
    const { refused, detail, extra } = error.refusal;
    if (SAME_AS_MISSING.includes(refused)) return notFound();
    if (!isProblemCode(refused)) return undefined;
    return new Problem(refused, detail, extra, problems[refused].status === 503 ? RETRY : {});
  }
  if (error instanceof RevisionMismatch)
    return new Problem('revision-mismatch', `The record is at revision ${error.current}.`, {
      current: error.current.toString(),
    });
  if (error instanceof IdempotencyKeyReused) return keyReused();
  if (error instanceof ConcurrentChange)
    return new Problem('concurrent-change', 'Other commands changed the record each time.', {}, RETRY);
  if (error instanceof StoreUnavailable)
    return new Problem('store-unavailable', 'The event store cannot be reached.', {}, RETRY);
  if (error instanceof AppendTooLarge) {
    const { limit, size, field } = error;
    const detail = `What would be stored takes ${size} bytes; ${limit} are allowed.`;
    return new Problem('payload-too-large', detail, { limit, size, field });
  }
  return undefined;
}

function ofReading(error: unknown): Problem | undefined {
  if (error instanceof ReadModelUnavailable)
    return new Problem('read-model-unavailable', 'The document store cannot be reached.', {}, RETRY);
  if (error instanceof ConversationGone)
    return new Problem('conversation-deleted', 'The conversation was deleted, or its retention has ended.');
  if (error instanceof InvalidCursor)
    return new Problem('invalid-parameter', 'The cursor is not one that this list answered.', {
      errors: [{ field: 'cursor', message: 'expected what `nextCursor` was' }],
    });
  if (error instanceof UnknownStoredEvent || error instanceof UnreadableEvent)
    return new Problem('unreadable-record', 'The record holds an event that cannot be read.');
  if (error instanceof PayloadMissing)
    return new Problem('unreadable-record', 'The record cites a payload that cannot be read.');
  return undefined;
}
