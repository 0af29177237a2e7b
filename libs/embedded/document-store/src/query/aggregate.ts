import { StoreError, notSupported } from '../errors.js';
import { encodePlain } from '../bson/encode.js';
import { toInteger } from '../bson/numbers.js';
import {
  BsonType,
  documentValue,
  fieldsOf,
  isNumber,
  textOf,
  type Field,
  type Value,
} from '../bson/values.js';
import type { Collection } from '../storage/catalogue.js';
import type { Documents } from '../storage/cursors.js';
import type { View } from '../storage/layers.js';
import { find, slice, sorted, type FindOptions, type Found } from './find.js';
import { group } from './group.js';
import { compileFilter } from './match.js';
import { sortFields } from './planner.js';
import { compileProjection } from './project.js';

type Stage = (input: Documents) => Documents;

/** Makes the work of a stage from its operand. */
const stages: Readonly<Record<string, (operand: Field) => Stage>> = {
  $match: matchStage,
  $count: countStage,
  $group: (operand) => (input) => group(input, operand),
  $limit: (operand) => {
    const limit = wholeOf(operand, 1);
    return (input) => asDocuments(slice(asFound(input), 0, limit));
  },
  $skip: (operand) => {
    const skip = wholeOf(operand, 0);
    return (input) => asDocuments(slice(asFound(input), skip, Infinity));
  },
  $sort: (operand) => {
    const fields = sortFields(requireDocument(operand));
    if (fields.length === 0) throw new StoreError(2, '$sort stage must have at least one sort key');
    return (input) => asDocuments(sorted(asFound(input), fields, Infinity));
  },
  $project: (operand) => {
    const project = compileProjection(requireDocument(operand));
    if (!project) throw new StoreError(2, '$project specification must have at least one field');
    return (input) => mapped(input, project);
  },
};

/** Names of the stages a pipeline may use. */
export const aggregationStages = Object.keys(stages);

/**
 * Documents of a pipeline. Leading `$match`, `$sort`, `$skip` and `$limit` in this order are answered by the planner.
 * Every stage is compiled before the first document is read.
 */
export function aggregate(
  view: View,
  collection: Collection | undefined,
  pipeline: readonly Value[],
  hint: Value | undefined,
): Documents {
  const operands = pipeline.map(stageOperand);
  const compiled = operands.map((operand) => (stages[operand.name] as (typeof stages)[string])(operand));
  if (!collection) return compiled.reduce((input, stage) => stage(input), noDocuments());
  const { filter, options, taken } = leading(operands);
  const source = asDocuments(find(view, collection, filter, { ...options, ...(hint ? { hint } : {}) }));
  return compiled.slice(taken).reduce((input, stage) => stage(input), source);
}

function* noDocuments(): Documents {}

function stageOperand(stage: Value): Field {
  const [operand, ...more] = stage.type === BsonType.object ? fieldsOf(stage) : [];
  if (!operand || more.length > 0)
    throw new StoreError(2, 'A pipeline stage specification object must contain exactly one field.');
  if (Object.hasOwn(stages, operand.name)) return operand;
  if (operand.name.startsWith('$')) throw notSupported(`aggregation stage ${operand.name}`);
  throw new StoreError(40324, `Unrecognized pipeline stage name: '${operand.name}'`);
}

/** The part of a pipeline that is an ordinary find. */
function leading(operands: readonly Field[]): { filter: Value; options: FindOptions; taken: number } {
  let taken = 0;
  const next = (name: string): Field | undefined => {
    const operand = operands[taken];
    if (operand?.name !== name) return undefined;
    taken++;
    return operand;
  };
  const filter = next('$match');
  const sort = next('$sort');
  const skip = next('$skip');
  const limit = next('$limit');
  const options = {
    ...(sort ? { sort } : {}),
    ...(skip ? { skip: wholeOf(skip, 0) } : {}),
    ...(limit ? { limit: wholeOf(limit, 1) } : {}),
  };
  return { filter: filter ?? documentValue(Buffer.from([5, 0, 0, 0, 0])), options, taken };
}

function requireDocument(operand: Field): Value {
  if (operand.type !== BsonType.object)
    throw new StoreError(2, `the ${operand.name} specification must be an object`);
  return operand;
}

function wholeOf(operand: Field, least: number): number {
  const number = isNumber(operand) ? toInteger(operand) : undefined;
  if (number === undefined || number < BigInt(least))
    throw new StoreError(2, `the argument of ${operand.name} must be a whole number >= ${least}`);
  return Number(number);
}

function matchStage(operand: Field): Stage {
  const test = compileFilter(requireDocument(operand));
  return function* (input): Documents {
    for (const document of input) yield document && test(documentValue(document)) ? document : undefined;
  };
}

function countStage(operand: Field): Stage {
  const name = operand.type === BsonType.string ? textOf(operand) : '';
  if (name === '' || name.startsWith('$') || name.includes('.'))
    throw new StoreError(2, 'the count field must be a non-empty string without $ and .');
  return function* (input): Documents {
    let count = 0;
    for (const document of input) {
      if (document) count++;
      else yield undefined;
    }
    if (count > 0) yield encodePlain({ [name]: count });
  };
}

function* mapped(input: Documents, change: (document: Buffer) => Buffer): Documents {
  for (const document of input) yield document && change(document);
}

export function* asDocuments(found: Found): Documents {
  for (const document of found) yield document?.bytes;
}

function* asFound(documents: Documents): Found {
  for (const bytes of documents) yield bytes && { record: 0, bytes };
}
