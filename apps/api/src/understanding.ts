import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { Clock } from '#apps/platform';
import { type Identity, TokenReader } from '#libs/access';
import { canonicalJson } from '#libs/canonical';
import { type TenantKeys, Vault } from '#libs/vault';
import { Call, type CommandIdentity } from './calls.js';
import { Problem } from './problems.js';
import { pathParameters, queryOf, type RouteSpec } from './routes.js';

const BEARER = /^Bearer ([A-Za-z0-9._~+/=-]+)$/i;
const KEY = /^[\x21-\x7e]{1,255}$/;
const REVISION = /^"(\d{1,19})"$/;
const POSITION = /^\d{1,19}$/;
const LEASE_TOKEN = /^[1-9]\d{0,14}\.[0-9a-f]{64}$/;

/**
 * The one place where a request becomes a call: the bearer's identity, then path, query, headers and body, each
 * checked against the route's specification before any store is asked.
 */
@Injectable()
export class Understanding {
  constructor(
    private readonly tokens: TokenReader,
    private readonly vault: Vault,
    private readonly clock: Clock,
  ) {}

  /** @throws Unauthenticated, KeysUnavailable */
  identify(request: FastifyRequest): Identity | Promise<Identity> {
    const [, token] = BEARER.exec(request.headers.authorization ?? '') ?? [];
    if (token === undefined)
      throw new Problem('unauthenticated', 'Send `Authorization: Bearer <token>`.', {}, CHALLENGE);
    return this.tokens.read(token);
  }

  /** @throws Problem naming what cannot be used. */
  async call(spec: RouteSpec, who: Identity, request: FastifyRequest, reply: FastifyReply): Promise<Call> {
    const params = parameters<string>(request.params, pathParameters, 'path');
    const query = queryIn(request.query as Record<string, unknown>, spec);
    const raw = spec.bodyOptional ? (request.body ?? {}) : request.body;
    const body = spec.body && bodyIn(raw, spec.body);
    const command = isCommand(spec)
      ? commandIn(request, await this.vault.tenant(who.tenant), raw, {
          sub: who.sub,
          route: `${request.method} ${request.routeOptions.url}`,
          params,
          named: spec.names === undefined ? undefined : (body as Record<string, unknown>)[spec.names],
        })
      : NO_COMMAND;
    const minPosition = header(request, 'waymark-min-position', POSITION, 'a position: digits');
    return new Call(
      spec,
      who,
      params,
      query,
      body,
      new Date(this.clock.now()).toISOString(),
      command,
      header(request, 'waymark-lease', LEASE_TOKEN, 'a lease token, as resuming the run answered it'),
      minPosition === undefined ? undefined : BigInt(minPosition),
      reply,
    );
  }
}

/** What makes a command the one that it is, beside its tenant and its key. */
export interface CommandPlace {
  readonly sub: string;
  /** Method and path, with the names of the parameters. */
  readonly route: string;
  readonly params: Readonly<Record<string, string>>;
  /** What the caller names the record that is made, if the caller does. */
  readonly named: unknown;
}

/**
 * The id of a command with an `Idempotency-Key`: the same for every repeat, in a namespace that only the tenant's
 * key gives, since a key may be a policy number and the id is stored.
 */
export function commandIdOf(
  keys: TenantKeys,
  { sub, route, params, named = null }: CommandPlace,
  key: string,
) {
  return keys.id('command', sub, route, canonicalJson(params), canonicalJson(named), key);
}

function commandIn(
  request: FastifyRequest,
  keys: TenantKeys,
  body: unknown,
  place: CommandPlace,
): CommandIdentity {
  const key = header(request, 'idempotency-key', KEY, '1 to 255 visible ASCII characters');
  const revision = header(request, 'if-match', REVISION, 'one revision in quotes, such as "12"');
  const commandId = key === undefined ? randomUUID() : commandIdOf(keys, place, key);
  return {
    commandId,
    bodyDigest: keys.hmac('command-body', canonicalJson(body ?? null)),
    keyed: key !== undefined,
    expectedRevision: revision === undefined ? undefined : BigInt(revision.slice(1, -1)),
    leaseSecret: () => keys.hmac('lease-secret', commandId),
  };
}

export const CHALLENGE = { 'www-authenticate': 'Bearer' };

const NO_COMMAND: CommandIdentity = {
  commandId: '',
  bodyDigest: '',
  keyed: false,
  expectedRevision: undefined,
  leaseSecret: () => {
    throw new Error('a read takes no lease');
  },
};

function isCommand({ kind }: RouteSpec): boolean {
  return kind === 'worker' || kind === 'command' || kind === 'aside';
}

/** The path of a request without its query, which may hold personal data. */
export function pathOf({ url }: FastifyRequest): string {
  const end = url.indexOf('?');
  // Two slashes at the beginning would name a host (RFC 3986, 4.2).
  return (end < 0 ? url : url.slice(0, end)).replace(/^\/{2,}/, '/');
}

export function header(
  request: FastifyRequest,
  name: string,
  form: RegExp,
  what: string,
): string | undefined {
  const value = request.headers[name];
  if (value === undefined) return undefined;
  if (typeof value === 'string' && form.test(value)) return value;
  throw new Problem('invalid-parameter', `The header ${name} must be ${what}.`, {
    errors: [{ field: name, message: `expected ${what}` }],
  });
}

function queryIn(given: Record<string, unknown>, spec: RouteSpec): Record<string, unknown> {
  const known = queryOf(spec);
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(known, name));
  if (unknown.length > 0) {
    const errors = unknown.map((name) => ({ field: name.slice(0, 100), message: 'unknown' }));
    throw new Problem('unknown-parameter', 'The route does not know this query parameter.', {
      errors,
      allowed: Object.keys(known),
    });
  }
  return parameters({ ...given }, known, 'query', Object.keys(known));
}

function parameters<Value>(
  given: unknown,
  known: Readonly<Record<string, z.ZodType>>,
  where: string,
  names = Object.keys(given as object),
): Record<string, Value> {
  const found: Record<string, Value> = {};
  for (const name of names) {
    const parsed = known[name]?.safeParse((given as Record<string, unknown>)[name]);
    if (!parsed?.success) {
      const message = parsed?.error.issues[0]?.message ?? 'unknown';
      throw new Problem('invalid-parameter', `The ${where} parameter ${name} cannot be used.`, {
        errors: [{ field: name, message }],
      });
    }
    if (parsed.data !== undefined) found[name] = parsed.data as Value;
  }
  return found;
}

const MOST_ERRORS = 20;

function bodyIn(raw: unknown, schema: z.ZodType): unknown {
  const parsed = schema.safeParse(raw);
  if (parsed.success) return parsed.data;
  const errors = parsed.error.issues.slice(0, MOST_ERRORS).flatMap(errorsOf);
  throw new Problem('invalid-body', 'The body has fields that cannot be used.', { errors });
}

function errorsOf(issue: z.core.$ZodIssue): { field: string; message: string }[] {
  const at = (path: readonly PropertyKey[]) => path.map((part) => String(part).slice(0, 100)).join('.');
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => ({ field: at([...issue.path, key]), message: 'unknown' }));
  return [{ field: at(issue.path), message: issue.message }];
}
