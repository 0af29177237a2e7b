import type { z } from 'zod';
import { settings } from './config.js';

/** What no setting but free text may be: asking for it brings out what is allowed. */
const IMPOSSIBLE = '\0';

/** `docs/configuration.md`: every setting in the order of the schema. */
export function configurationPage(): string {
  const rows = Object.entries(settings.shape).map(([name, schema]) => [
    `\`${name}\``,
    standardOf(schema),
    cell(allowedOf(schema)),
    cell(schema.description ?? ''),
  ]);
  return [
    '# Configuration',
    '',
    'Written from the schema of the settings (`npm run docs:configuration`); a page that is stale fails a test.',
    '',
    'Settings come from the environment and are read once, at start. A variable set to nothing counts as not set. One that',
    'cannot be used stops the start with a line that names it and says what it may be.',
    '',
    ...table([['setting', 'default', 'may be', ''], ...rows]),
    '',
  ].join('\n');
}

function standardOf(schema: z.ZodType): string {
  const { data } = schema.safeParse(undefined);
  if (data === undefined) return '';
  const text =
    typeof data === 'object' && data !== null ? Object.values(data).join(' ') : JSON.stringify(data);
  return `\`${text.replaceAll('"', '')}\``;
}

function allowedOf(schema: z.ZodType): string {
  const { error } = schema.safeParse(IMPOSSIBLE);
  return error?.issues[0]?.message ?? 'text';
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
}

/** A table whose first row is the heading, with its columns aligned as the formatter wants them. */
function table(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[], fill = ' ') =>
    `| ${widths.map((width, column) => (cells[column] ?? '').padEnd(width, fill)).join(' | ')} |`;
  const [heading = '', ...body] = rows.map((row) => line(row));
  return [heading, line([], '-'), ...body];
}
