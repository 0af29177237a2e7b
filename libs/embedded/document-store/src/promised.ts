import { commands, refusedCommands } from './commands/dispatch.js';
import { accumulators } from './query/accumulators.js';
import { aggregationStages } from './query/aggregate.js';
import { schemaKeywords } from './query/json-schema.js';
import { expressionOperators } from './query/language.js';
import { queryOperators } from './query/match.js';
import { leftOutStages } from './query/stages.js';
import { updateStages } from './update/pipeline.js';
import { updateOperators } from './update/update.js';

const coded = (names: Iterable<string>): string => [...names].map((name) => `\`${name}\``).join(' ');

const table = (head: [string, string], rows: readonly (readonly [string, string])[]): string =>
  [head, ['---', '---'], ...rows].map(([left, right]) => `| ${left} | ${right} |`).join('\n');

/** The page of what the document store promises, made from the registries that its commands are answered by. */
export function promisedPage(): string {
  const byNeed = ['nothing', 'session', 'read', 'write', 'admin', 'root'].map((need): [string, string] => [
    need,
    coded(Object.keys(commands).filter((name) => commands[name]?.needs === need)),
  ]);
  return `# What the embedded document store promises

Made from the registries of the store by \`npm run docs:documents\`; a test holds it to them. What stands here is
answered as MongoDB answers it. Everything else is refused, never ignored: commands with code 59, stages, operators and
options that MongoDB has with code 238 and their name, what MongoDB does not know either with MongoDB's own code.

## Commands, by what they need of a user

While the folder holds no users nothing is asked.

${table(['Needs', 'Commands'], byNeed)}

## Operators

${table(
  ['Where', 'Operators'],
  [
    ['Filters', coded(queryOperators)],
    ['Updates', coded(updateOperators)],
    ['Places in updates', coded(['$', '$[]', '$[identifier]'])],
    ['Pipelines as updates', coded(updateStages)],
    ['Projections of a find', `fields in or out, expressions, ${coded(['$slice', '$elemMatch', 'path.$'])}`],
    ['Stages', coded(aggregationStages)],
    ['Accumulators', coded(Object.keys(accumulators))],
    ['Expressions', coded(expressionOperators())],
    ['`$jsonSchema`', coded(Object.keys(schemaKeywords))],
  ],
)}

## Refused by name

${table(
  ['What', 'Names'],
  [
    ['Stages', coded(leftOutStages)],
    ['Commands', coded(refusedCommands.keys())],
    ['Indexes', 'text, geo, hashed and wildcard'],
    ['Strings', `collations other than \`simple\`, time zones other than UTC`],
    ['JavaScript', coded(['$where', '$function', '$accumulator'])],
  ],
)}

Unproved against a real server as yet: \`WAYMARK_MONGODB_URL=… npm test -- test/conformance/document-store\` asks one the
same questions.
`;
}
