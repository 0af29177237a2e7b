import { problems, type ProblemCode } from '../problems.js';
import type { KnownRoute } from '../routes.js';
import { openApi } from './openapi.js';

const STYLE =
  'body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}' +
  'code{font:14px ui-monospace,monospace}td,th{text-align:left;vertical-align:top;padding:.3rem .8rem .3rem 0}';

/** Text as HTML, with what stands in backquotes as code. */
function html(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replace(/`([^`]*)`/g, '<code>$1</code>');
}

function page(title: string, content: string): string {
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>${html(title)}</title><style>${STYLE}</style>${content}</html>`;
}

interface Described {
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  format?: string;
  properties?: Record<string, Described>;
  required?: string[];
  items?: Described;
  anyOf?: Described[];
  oneOf?: Described[];
}

/** A JSON schema in the shortest form that names every field: `{ name: string, note?: string }`. */
function form(schema: Described): string {
  const { type, properties, required = [], items, anyOf, oneOf, format } = schema;
  const choices = anyOf ?? oneOf;
  if (choices) return [...new Set(choices.map(form))].join(' | ');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if (properties) {
    const fields = Object.entries(properties).map(
      ([name, field]) => `${name}${required.includes(name) ? '' : '?'}: ${form(field)}`,
    );
    return `{ ${fields.join(', ')} }`;
  }
  if (items) return `[${form(items)}]`;
  return format ?? [type ?? 'any'].flat().join(' | ');
}

interface Media {
  schema?: Described;
}

interface Operation {
  summary: string;
  'x-policy': string;
  parameters: { name: string; in: string; schema: Described }[];
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, { content: Record<string, Media> }>;
}

function routeOf(method: string, path: string, operation: Operation): string {
  const query = operation.parameters.filter((parameter) => parameter.in === 'query');
  const line = (what: string, text: string) => `<br>${what} <code>${html(text)}</code>`;
  const schemaIn = (content: Record<string, Media> = {}) => Object.values(content)[0]?.schema;
  const body = schemaIn(operation.requestBody?.content);
  const [answered] = Object.entries(operation.responses);
  const answer = schemaIn(answered?.[1].content);
  return (
    `<p><b><code>${method.toUpperCase()} ${html(path)}</code></b> ${html(operation.summary)}. ` +
    `Policy: <code>${operation['x-policy']}</code>` +
    (query.length > 0
      ? line('query', query.map(({ name, schema }) => `${name}: ${form(schema)}`).join(', '))
      : '') +
    (body ? line('body', form(body)) : '') +
    (answer ? line(`answer ${answered?.[0]}`, form(answer)) : '') +
    '</p>'
  );
}

/** The readable page of all routes, made of the same document as `/openapi.json`. */
export function docsPage(routes: readonly KnownRoute[]): string {
  const paths = openApi(routes).paths as Record<string, Record<string, Operation>>;
  const described = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => routeOf(method, path, operation)),
  );
  const codes = Object.keys(problems).map((code) => `<a href="/problems/${code}">${code}</a>`);
  return page(
    'Waymark API',
    '<h1>Waymark API</h1><p>Headers and the limits of each field are in <a href="/openapi.json">openapi.json</a>.</p>' +
      `${described.join('')}<h2>Problems</h2><p>${codes.join(', ')}</p>`,
  );
}

/** The page of one code, to which the `type` of an answer leads. */
export function problemPage(code: ProblemCode): string {
  const { status, title, meaning, advice } = problems[code];
  return page(
    `${code}: ${title}`,
    `<h1>${html(title)}</h1><p><code>${code}</code>, HTTP ${status}</p><p>${html(meaning)}</p>` +
      `<p>What to do: ${html(advice)}</p><p><a href="/docs">All routes</a></p>`,
  );
}

/** The whole of `docs/problems.md`. */
export function problemsPage(): string {
  const parts = Object.entries(problems).map(
    ([code, { status, title, meaning, advice }]) =>
      `## ${code}\n\n**${status}, ${title}.** ${meaning}\n\nWhat to do: ${advice}\n`,
  );
  const opening =
    '# Problems\n\nEvery answer that is no result is `application/problem+json` (RFC 9457) and carries one of these ' +
    'codes. `type` leads to its page. Made from `apps/api/src/problems.ts`; a test compares the two.\n';
  return [opening, ...parts].join('\n');
}
