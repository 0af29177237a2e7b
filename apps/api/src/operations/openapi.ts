import { z } from 'zod';
import { problems } from '../problems.js';
import { type KnownRoute, pathParameters, queryOf, type RouteSpec } from '../routes.js';

type Schema = Record<string, unknown>;

const HEADERS: Record<string, { schema: Schema; description: string; required?: boolean }> = {
  'Idempotency-Key': {
    schema: { type: 'string', minLength: 1, maxLength: 255 },
    description: 'The same key and body answer what was answered first; for 24 hours.',
  },
  'If-Match': {
    schema: { type: 'string' },
    description: 'The revision, in quotes, that the record must be at.',
  },
  'Waymark-Lease': { schema: { type: 'string' }, description: 'The lease token.', required: true },
  'Last-Event-ID': {
    schema: { type: 'string', pattern: '^\\d+$' },
    description: 'The revision after which to go on; from the beginning without it.',
  },
  'Waymark-Min-Position': {
    schema: { type: 'string', pattern: '^\\d+$' },
    description: 'The answer must reflect at least this position.',
  },
};

const HEADERS_OF: Record<RouteSpec['kind'], string[]> = {
  worker: ['Waymark-Lease', 'Idempotency-Key', 'If-Match'],
  command: ['Idempotency-Key', 'If-Match'],
  aside: ['Idempotency-Key'],
  record: ['Waymark-Min-Position'],
  list: ['Waymark-Min-Position'],
  view: [],
  watch: ['Last-Event-ID'],
  page: [],
};

/** The OpenAPI 3.1 document, made from the very schemas that requests are validated with. */
export function openApi(routes: readonly KnownRoute[]): Schema {
  const paths: Record<string, Schema> = {};
  for (const { method, path, spec } of routes) {
    if (method === 'HEAD') continue;
    const address = path.replace(/:(\w+)/g, '{$1}');
    paths[address] = { ...paths[address], [method.toLowerCase()]: operation(method, path, spec) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Waymark',
      version: '1',
      description: 'Durable state for long-running assistants that do regulated work.',
    },
    servers: [{ url: '/' }],
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } },
      schemas: { Problem: problemSchema },
    },
  };
}

/** Such as `postRunsByRunIdSteps`: as unique as method and path are. */
function operationId(method: string, path: string): string {
  const words = path
    .replace(/^\/v1/, '')
    .split(/[/.-]/)
    .map((part) => part.replace(/^:(\w)/, (_, first: string) => `By${first.toUpperCase()}`))
    .map((part) => part.charAt(0).toUpperCase() + part.slice(1));
  return method.toLowerCase() + words.join('');
}

function operation(method: string, path: string, spec: RouteSpec): Schema {
  const { summary, permit, body, bodyOptional, answer, status = 200, kind } = spec;
  const types = [
    kind === 'watch' ? 'text/event-stream' : kind === 'page' && !answer ? 'text/plain' : 'application/json',
  ];
  const content = Object.fromEntries(
    types.map((type) => [type, answer ? { schema: jsonSchema(answer, 'output') } : {}]),
  );
  return {
    operationId: operationId(method, path),
    summary,
    'x-policy': permit,
    security: permit === 'open' || permit === 'loopback' ? [] : [{ bearer: [] }],
    parameters: [...inPath(path), ...inQuery(spec), ...inHeaders(spec)],
    ...(body && {
      requestBody: {
        required: !bodyOptional,
        content: { 'application/json': { schema: jsonSchema(body, 'input') } },
      },
    }),
    responses: { [status]: { description: summary, content }, default: problemResponse },
  };
}

function inPath(path: string): Schema[] {
  const names = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name);
  return names.map((name) => {
    const schema = jsonSchema(pathParameters[name] ?? z.string(), 'input');
    return { name, in: 'path', required: true, schema };
  });
}

function inQuery(spec: RouteSpec): Schema[] {
  return Object.entries(queryOf(spec)).map(([name, schema]) => ({
    name,
    in: 'query',
    required: false,
    schema: jsonSchema(schema, 'input'),
  }));
}

function inHeaders({ kind }: RouteSpec): Schema[] {
  return HEADERS_OF[kind].map((name) => ({ name, in: 'header', required: false, ...HEADERS[name] }));
}

function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): Schema {
  const made = z.toJSONSchema(schema, {
    io,
    target: 'draft-2020-12',
    unrepresentable: 'any',
    override: ({ jsonSchema: each }) => {
      delete each['personal'];
      delete each['plain'];
    },
  });
  const { $schema: _, ...rest } = made;
  return rest;
}

const problemSchema = {
  type: 'object',
  required: ['type', 'title', 'status', 'detail', 'code', 'instance'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    code: { type: 'string', enum: Object.keys(problems) },
    instance: { type: 'string' },
  },
};

const problemResponse = {
  description: 'Why not. `code` says which page at `/problems/<code>` explains it.',
  content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
};
