import { problems, type ProblemCode } from '../problems.js';
import type { KnownRoute } from '../routes.js';

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

/** The readable page of all routes. */
export function docsPage(routes: readonly KnownRoute[]): string {
  const rows = routes
    .filter(({ method }) => method !== 'HEAD')
    .map(
      ({ method, path, spec }) =>
        `<tr><td><code>${method}</code></td><td><code>${html(path)}</code></td><td>${html(spec.summary)}</td>` +
        `<td><code>${spec.permit}</code></td></tr>`,
    );
  const codes = Object.keys(problems).map((code) => `<a href="/problems/${code}">${code}</a>`);
  return page(
    'Waymark API',
    '<h1>Waymark API</h1><p>The whole contract, with every field, is in <a href="/openapi.json">openapi.json</a>.</p>' +
      `<table><tr><th>Method</th><th>Path</th><th>What it does</th><th>Policy</th></tr>${rows.join('')}</table>` +
      `<h2>Problems</h2><p>${codes.join(', ')}</p>`,
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
