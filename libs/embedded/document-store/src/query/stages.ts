import { StoreError } from '../errors.js';
import { DocumentNode, encodeNode, encodePlain, Raw, toValue } from '../bson/encode.js';
import { int64Value, toInteger } from '../bson/numbers.js';
import { truth } from '../bson/options.js';
import { compareValues } from '../bson/order.js';
import {
  BsonType,
  documentValue,
  field,
  fieldsOf,
  isNumber,
  textOf,
  typeName,
  valueBytes,
  type Field,
  type Value,
} from '../bson/values.js';
import type { Documents } from '../storage/cursors.js';
import { isDue } from '../work.js';
import { placeOf } from '../update/places.js';
import { isNullish, nullValue } from './expressions.js';
import { slice, sorted } from './find.js';
import { compileGroup } from './group.js';
import { compileExpression } from './language.js';
import { compileFilter } from './match.js';
import { compileAssignments, compileProjection, compileRemovals } from './project.js';
import { sortFields } from './sort-keys.js';
import { asDocuments, asFound, held, mapped } from './streams.js';
import { scopeOf, type Variables } from './variables.js';
import { joiningStages } from './stages-joining.js';
import { requireDocument, textMember, type MakeStage, type Stage } from './pipelines.js';

export function wholeOf(operand: Field, least: number): number {
  const number = isNumber(operand) ? toInteger(operand) : undefined;
  if (number === undefined || number < BigInt(least))
    throw new StoreError(
      operand.name === '$limit' && number === 0n ? 15958 : 2107201,
      `the argument of ${operand.name} must be a whole number >= ${least}`,
    );
  return Number(number);
}

const match: MakeStage = (operand, _sources, variables) => {
  const test = compileFilter(requireDocument(operand, 15959), variables);
  return function* (input): Documents {
    for (const document of input) yield document && test(documentValue(document)) ? document : undefined;
  };
};

const count: MakeStage = (operand) => {
  const name = operand.type === BsonType.string ? textOf(operand) : '';
  if (name === '' || name.startsWith('$') || name.includes('.'))
    throw new StoreError(40156, 'the count field must be a non-empty string without $ and .');
  return function* (input): Documents {
    let counted = 0;
    for (const document of input) {
      if (document) counted++;
      if (!document || isDue()) yield undefined;
    }
    if (counted > 0) yield encodePlain({ [name]: counted });
  };
};

const sort: MakeStage = (operand) => {
  const fields = sortFields(requireDocument(operand, 15973));
  if (fields.length === 0) throw new StoreError(15976, '$sort stage must have at least one sort key');
  return (input) => asDocuments(sorted(asFound(input), fields, Infinity));
};

const project: MakeStage = (operand, _sources, variables) => {
  const change = compileProjection(requireDocument(operand, 15969), { variables });
  if (!change) throw new StoreError(51272, '$project specification must have at least one field');
  return (input) => mapped(input, change);
};

const addFields: MakeStage = (operand, _sources, variables) => {
  const change = compileAssignments(requireDocument(operand), variables);
  return (input) => mapped(input, change);
};

const unset: MakeStage = (operand) => {
  const list = operand.type === BsonType.array ? fieldsOf(operand) : [operand];
  if (list.length === 0 || list.some(({ type }) => type !== BsonType.string))
    throw new StoreError(31002, '$unset specification must be a string or an array of strings');
  const change = compileRemovals(list.map(textOf));
  return (input) => mapped(input, change);
};

const replaceRoot: MakeStage = (operand, _sources, variables) => {
  const fresh = operand.name === '$replaceWith' ? operand : field(requireDocument(operand, 40229), 'newRoot');
  if (!fresh)
    throw new StoreError(40414, "BSON field '$replaceRoot.newRoot' is missing but a required field");
  const root = compileExpression(fresh, variables.names);
  return (input) =>
    mapped(input, (document) => {
      const value = root(scopeOf(documentValue(document), variables));
      if (value.type !== BsonType.object)
        throw new StoreError(
          40228,
          `'newRoot' expression must evaluate to an object, but resulting value was of type: ${typeName(value.type)}`,
        );
      return valueBytes(value);
    });
};

const unwind: MakeStage = (operand) => {
  const wide = operand.type === BsonType.object;
  if (!wide && operand.type !== BsonType.string)
    throw new StoreError(15981, 'expected either a string or an object as specification for $unwind stage');
  const path = textMember(wide ? field(operand, 'path') : operand, '$unwind path');
  if (!path.startsWith('$') || path.length < 2)
    throw new StoreError(28818, `path option to $unwind stage should be prefixed with a '$': ${path}`);
  const preserve = wide ? field(operand, 'preserveNullAndEmptyArrays') : undefined;
  const index = wide ? field(operand, 'includeArrayIndex') : undefined;
  return unwound(
    path.slice(1),
    preserve !== undefined && truth(preserve),
    index && textMember(index, 'includeArrayIndex'),
  );
};

/** One document for each element. What is no array counts as an array of one, without an index. */
const unwound = (path: string, preserve: boolean, indexName: string | undefined): Stage =>
  function* (input): Documents {
    const parts = path.split('.');
    const changed = (document: Buffer, value: Value | undefined, position: bigint | null): Buffer => {
      const root = DocumentNode.of(documentValue(document));
      if (value) placeOf(root, path, true)?.set(value);
      else placeOf(root, path, false)?.remove();
      if (indexName !== undefined)
        placeOf(root, indexName, true)?.set(position === null ? nullValue : int64Value(position));
      return encodeNode(root);
    };
    for (const document of input) {
      if (!document) {
        yield undefined;
        continue;
      }
      const value = straight(documentValue(document), parts);
      if (value?.type === BsonType.array) {
        const items = fieldsOf(value);
        for (const [i, item] of items.entries()) {
          yield changed(document, item, BigInt(i));
          if (isDue()) yield undefined;
        }
        if (items.length === 0 && preserve) yield changed(document, undefined, null);
      } else if (value && !isNullish(value)) yield changed(document, value, null);
      else if (preserve) yield changed(document, value, null);
    }
  };

/** The value at the end of a path that meets no array before. */
function straight(document: Value, parts: readonly string[]): Value | undefined {
  let value: Value | undefined = document;
  for (const part of parts) value = value?.type === BsonType.object ? field(value, part) : undefined;
  return value;
}

const sortByCount: MakeStage = (operand, _sources, variables) => {
  const key = operand.type === BsonType.object || operand.type === BsonType.string ? operand : undefined;
  if (!key) throw new StoreError(40149, 'the sortByCount field must be specified as a string or an object');
  const grouped = groupBy(new Raw(key), { count: { $sum: 1 } }, variables);
  const order = sortFields(toValue({ count: -1 }));
  return (input) => asDocuments(sorted(asFound(grouped(input)), order, Infinity));
};

function groupBy(id: Raw, outputs: object, variables: Variables): Stage {
  return compileGroup(
    { ...toValue({ _id: id, ...(outputs as Record<string, Raw>) }), name: '$group' },
    variables,
  );
}

const bucket: MakeStage = (operand, _sources, variables) => {
  const [by, bounds, otherwise, output] = ['groupBy', 'boundaries', 'default', 'output'].map((name) =>
    field(requireDocument(operand, 40201), name),
  );
  if (!by || bounds?.type !== BsonType.array)
    throw new StoreError(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified.");
  const limits = fieldsOf(bounds);
  if (limits.length < 2)
    throw new StoreError(40192, "The $bucket 'boundaries' field must have at least 2 values");
  if (limits.some((limit, i) => i > 0 && compareValues(limits[i - 1] as Value, limit) >= 0))
    throw new StoreError(40194, "The 'boundaries' option to $bucket must be sorted");
  const branches = limits.slice(0, -1).map((low, i) => ({
    case: {
      $and: [
        { $gte: [new Raw(by), { $literal: new Raw(low) }] },
        { $lt: [new Raw(by), { $literal: new Raw(limits[i + 1] as Value) }] },
      ],
    },
    then: { $literal: new Raw(low) },
  }));
  const id = { $switch: { branches, ...(otherwise ? { default: { $literal: new Raw(otherwise) } } : {}) } };
  const outputs = output
    ? Object.fromEntries(fieldsOf(output).map((entry) => [entry.name, new Raw(entry)]))
    : { count: { $sum: 1 } };
  const grouped = groupBy(new Raw(toValue(id)), outputs, variables);
  const order = sortFields(toValue({ _id: 1 }));
  return (input) => asDocuments(sorted(asFound(grouped(input)), order, Infinity));
};

const sample: MakeStage = (operand) => {
  const size = field(requireDocument(operand, 28745), 'size');
  if (!size) throw new StoreError(28749, '$sample stage must specify a size');
  const wanted = wholeOf({ ...size, name: '$sample' }, 1);
  return function* (input): Documents {
    const documents = yield* held(input, '$sample');
    for (let i = 0; i < Math.min(wanted, documents.length); i++) {
      const other = i + Math.floor(Math.random() * (documents.length - i));
      [documents[i], documents[other]] = [documents[other] as Buffer, documents[i] as Buffer];
      yield documents[i];
    }
  };
};

/** Makes the work of a stage from its operand. */
export const stages: Readonly<Record<string, MakeStage>> = {
  $match: match,
  $project: project,
  $addFields: addFields,
  $set: addFields,
  $unset: unset,
  $replaceRoot: replaceRoot,
  $replaceWith: replaceRoot,
  $unwind: unwind,
  $group: (operand, _sources, variables) => compileGroup(operand, variables),
  $sortByCount: sortByCount,
  $bucket: bucket,
  $count: count,
  $sort: sort,
  $skip: (operand) => {
    const skip = wholeOf(operand, 0);
    return (input) => asDocuments(slice(asFound(input), skip, Infinity));
  },
  $limit: (operand) => {
    const limit = wholeOf(operand, 1);
    return (input) => asDocuments(slice(asFound(input), 0, limit));
  },
  $sample: sample,
  ...joiningStages,
};

/** Stages MongoDB has and this store does not. */
export const leftOutStages: ReadonlySet<string> = new Set(
  `$bucketAuto $changeStream $changeStreamSplitLargeEvent $collStats $currentOp $densify $documents $fill $geoNear
  $graphLookup $indexStats $listLocalSessions $listSampledQueries $listSearchIndexes $listSessions $merge $out
  $planCacheStats $querySettings $queryStats $redact $search $searchMeta $setWindowFields $shardedDataDistribution
  $vectorSearch`.split(/\s+/),
);
