import { claimEvents } from '#libs/domain/claims';
import { profileEvents } from '#libs/domain/profiles';
import { runEvents } from '#libs/domain/runs';
import { staffEvents } from '#libs/domain/staff';
import { z } from 'zod';

type JsonSchema = z.core.JSONSchema.BaseSchema;
interface Row {
  field: string;
  value: string;
  kept: string;
}

const introduction = `# Stored events

Generated from the schemas in \`libs/domain/*/src/events.ts\` by \`npm run docs:events\`; a test compares the two.

These shapes are stored. Fields may be added; nothing is changed or removed, and no stored event is rewritten.
Examples of every version are kept in \`test/conformance/events\`. A field followed by \`?\` may be absent. A sealed
field is encrypted wherever it rests, with the key of the customer for that kind of data; all others are stored as
they are. Where a \`kind\` stands several times, the fields that follow it belong to that kind.

Beside its data every event carries the envelope: \`tenant\`, \`commandId\`, \`bodyDigest\`,
\`actor {sub, roles, actFor, customerId?}\`, \`recordedAt\`, \`schemaVersion\` and \`previousDigest\`.
\`bodyDigest\` is keyed with the customer's key for the stream's own kind of data, so that it tells nothing once that
is erased.
`;

const streams: [string, string, Record<string, z.ZodType>][] = [
  ['Runs', 'run-<tenant>.<runId>', runEvents],
  ['Claims', 'claim-<tenant>.<claimId>', claimEvents],
  ['Staff', 'staff-<tenant>.<sub>', staffEvents],
  ['Preference profiles', 'profile-<tenant>.<customerId>', profileEvents],
];

/** The page about every stored event, as Markdown. */
export function eventsPage(): string {
  const sections = streams.map(([title, stream, schemas]) => {
    const events = Object.entries(schemas).map(([type, schema]) => eventSection(type, schema));
    return `## ${title}\n\nStreams \`${stream}\`.\n\n${events.join('\n')}`;
  });
  return [introduction, ...sections].join('\n');
}

function eventSection(type: string, schema: z.ZodType): string {
  const shape = z.toJSONSchema(schema, { unrepresentable: 'any' });
  const rows = [...rowsOf(shape, '')];
  const width = (key: keyof Row) => Math.max(key.length, ...rows.map((row) => row[key].length));
  const line = (row: Row) =>
    `| ${row.field.padEnd(width('field'))} | ${row.value.padEnd(width('value'))} | ${row.kept.padEnd(width('kept'))} |`;
  const rule = (key: keyof Row) => '-'.repeat(width(key));
  const table = [
    line({ field: 'field', value: 'value', kept: 'kept' }),
    `| ${rule('field')} | ${rule('value')} | ${rule('kept')} |`,
    ...rows.map(line),
  ];
  return `### ${type}\n\n${shape.description ?? ''}\n\n${table.join('\n')}\n`;
}

function* rowsOf(schema: JsonSchema, path: string, optional = false): Generator<Row> {
  const sealed = typeof schema.personal === 'string' ? schema.personal : undefined;
  const cases = casesOf(schema);
  if (sealed === undefined && schema.type === 'object') {
    yield* fieldsOf(schema, path === '' ? '' : `${path}${optional ? '?' : ''}.`);
  } else if (sealed === undefined && schema.type === 'array' && itemsOf(schema).type === 'object') {
    yield* rowsOf(itemsOf(schema), `${path}${optional ? '?' : ''}[]`);
  } else if (sealed === undefined && cases.some(({ type }) => type === 'object')) {
    for (const one of cases) yield* rowsOf(one, path, optional);
  } else {
    const kept = sealed === undefined ? 'plain' : `sealed (${sealed})`;
    yield { field: `\`${path}${optional ? '?' : ''}\``, value: valueOf(schema), kept };
  }
}

function* fieldsOf(schema: JsonSchema, prefix: string): Generator<Row> {
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    if (typeof field === 'boolean') throw new Error(`the field ${prefix}${name} has no schema`);
    yield* rowsOf(field, `${prefix}${name}`, !schema.required?.includes(name));
  }
}

function casesOf({ anyOf, oneOf }: JsonSchema): JsonSchema[] {
  return (anyOf ?? oneOf ?? []).filter((one): one is JsonSchema => typeof one === 'object');
}

function itemsOf({ items }: JsonSchema): JsonSchema {
  if (typeof items !== 'object' || Array.isArray(items)) throw new Error('a list of what has no schema');
  return items;
}

function valueOf(schema: JsonSchema): string {
  const { type, const: only, enum: several, properties } = schema;
  if (schema.$ref !== undefined) return 'any JSON';
  if (only !== undefined) return code(only);
  if (several) return several.map(code).join(', ');
  const cases = casesOf(schema);
  if (cases.length > 0) return cases.map(valueOf).join(', ');
  if (type === 'object')
    return `object: ${Object.keys(properties ?? {})
      .map(code)
      .join(', ')}`;
  if (type === 'array') return `list of: ${valueOf(itemsOf(schema))}`;
  if (type === 'integer') return schema.minimum === 1 ? 'whole number from 1' : 'whole number';
  if (type === 'boolean') return '`true`, `false`';
  if (type === 'string') return textOf(schema);
  throw new Error(`no words for a value: ${JSON.stringify(schema)}`);
}

function textOf({ format, pattern, minLength = 0, maxLength }: JsonSchema): string {
  if (format === 'uuid') return 'UUID';
  if (format === 'date-time') return 'time, UTC with milliseconds';
  if (pattern !== undefined) return `text, ${code(pattern).replaceAll('|', '\\|')}`;
  return maxLength === undefined ? 'text' : `text, ${minLength} to ${maxLength} characters`;
}

function code(value: unknown): string {
  return `\`${String(value)}\``;
}
