import { applyDecorators, Delete, Get, HttpCode, Patch, Post, Put } from '@nestjs/common';
import { RouteConfig } from '@nestjs/platform-fastify';
import type { FastifyInstance, RouteOptions } from 'fastify';
import { z } from 'zod';
import { policies, type PolicyName } from '#libs/access';

const METHODS = { GET: Get, POST: Post, PUT: Put, PATCH: Patch, DELETE: Delete };
export type Method = keyof typeof METHODS;

/** The most bytes that a body may have. */
export const BODY_LIMIT = 1024 * 1024;

type Shape = Readonly<Record<string, z.ZodType>>;

/** What a route is: who may use it, what it takes, what it answers. Validation and documentation are made of it. */
export interface RouteSpec {
  /** The policy that is asked; `open` is for everyone, `loopback` for this machine. A route without one stops the start. */
  readonly permit: PolicyName | 'open' | 'loopback';
  readonly summary: string;
  /**
   * What it has in common with others: a `worker`'s command shows a lease, what is `aside` of the streams appends nothing;
   * a `record` is as fresh as its stream, a `list` waits for its view, a `view` waits for nothing; a `watch` goes on; a `page` has no caller.
   */
  readonly kind: 'worker' | 'command' | 'aside' | 'record' | 'list' | 'view' | 'watch' | 'page';
  readonly query?: Shape;
  readonly body?: z.ZodType;
  /** The field of the body by which the caller names the record that is made: part of the command's identity. */
  readonly names?: string;
  /** Whether a body may be left out; `{}` stands for it. */
  readonly bodyOptional?: boolean;
  readonly answer?: z.ZodType;
  readonly status?: 200 | 201 | 202;
  /** The status where the record was there already; `status` by default. */
  readonly repeatedStatus?: 200;
}

/** A route, as a handler's only decorator. */
export function Route(method: Method, path: string, spec: RouteSpec): MethodDecorator {
  return applyDecorators(METHODS[method](path), RouteConfig({ waymark: spec }), HttpCode(spec.status ?? 200));
}

const uuid = z.uuid().toLowerCase();

/** Whom a token can name. */
export const subject = z
  .string()
  .regex(/^[A-Za-z0-9._@:|+-]{1,128}$/, '1 to 128 of A-Z, a-z, 0-9 and . _ @ : | + -');

/** Every parameter that a path can have. */
export const pathParameters: Shape = {
  runId: uuid,
  claimId: uuid,
  conversationId: uuid,
  draftId: z.string().regex(/^[a-z0-9-]{1,64}$/, 'up to 64 of a-z, 0-9 and -'),
  approvalId: z
    .string()
    .toLowerCase()
    .regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[1-9]\d{0,8}$/, 'an approval id'),
  sub: subject,
  customerId: uuid,
  proposalId: uuid,
  key: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'a key such as contact.channel'),
  name: z.string().regex(/^[a-z][a-z0-9-]{0,37}$/, 'the name of a projection'),
  rebuildId: uuid,
  code: z.string().regex(/^[a-z-]{1,64}$/, 'a problem code'),
};

const whole = (least: number, most: number, standard: number) =>
  z
    .string()
    .regex(/^\d{1,6}$/, `a whole number from ${least} to ${most}`)
    .transform(Number)
    .refine((number) => number >= least && number <= most, `a whole number from ${least} to ${most}`)
    .default(standard);

const waiting = { waitMs: whole(0, 10_000, 2000) };
/** The query parameters of a list; those of kind `list` have them already. */
export const paging = { limit: whole(1, 200, 50), cursor: z.string().min(1).max(1000).optional() };

/** The query parameters that a route knows, its own and those of its kind. */
export function queryOf(spec: RouteSpec): Shape {
  if (spec.kind === 'record') return { ...waiting, ...spec.query };
  if (spec.kind === 'list') return { ...waiting, ...paging, ...spec.query };
  return spec.query ?? {};
}

export interface Paging {
  readonly waitMs: number;
  readonly limit: number;
  readonly cursor?: string;
}

export interface KnownRoute {
  readonly method: string;
  readonly path: string;
  readonly spec: RouteSpec;
}

/** The routes of one app, gathered as they are registered, whoever registers them. */
export class Routes {
  readonly known: KnownRoute[] = [];
  private readonly denied: string[] = [];

  /** Must come before the first route. */
  gatherFrom(server: FastifyInstance): void {
    server.addHook('onRoute', (route) => this.add(route));
  }

  /** @throws Error naming every route that names no policy. */
  refuseUnpermitted(): void {
    if (this.denied.length > 0)
      throw new Error(`routes without a policy, which nobody may use: ${this.denied.join(', ')}`);
  }

  /** The methods that an address has, for one that was asked for with another. */
  methodsAt(path: string): string[] {
    const matching = this.known.filter((route) => patternOf(route.path).test(path));
    return [...new Set(matching.map(({ method }) => method))];
  }

  private add({ method, url, config }: RouteOptions): void {
    const spec = specOf(config);
    for (const name of Array.isArray(method) ? method : [method]) {
      if (spec) this.known.push({ method: name, path: url, spec });
      else this.denied.push(`${name} ${url}`);
    }
  }
}

/** The specification that a route carries, if it names a policy that exists. */
export function specOf(config: unknown): RouteSpec | undefined {
  const { waymark } = (config ?? {}) as { waymark?: RouteSpec };
  if (waymark === undefined) return undefined;
  const { permit } = waymark;
  return permit === 'open' || permit === 'loopback' || Object.hasOwn(policies, permit) ? waymark : undefined;
}

function patternOf(path: string): RegExp {
  const pattern = path
    .split('/')
    .map((part) => (part.startsWith(':') ? '[^/]+' : part.replaceAll('.', '\\.')))
    .join('/');
  return new RegExp(`^${pattern}$`);
}
