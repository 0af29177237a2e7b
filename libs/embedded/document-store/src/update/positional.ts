import { StoreError } from '../errors.js';
import { ArrayNode, DocumentNode, nodeValue, Raw, toValue, type Node } from '../bson/encode.js';
import { render } from '../bson/render.js';
import { BsonType, field, fieldsOf, type Field, type Value } from '../bson/values.js';
import { branches, compileFilter, hasOperators, type Predicate } from '../query/match.js';

/** Tests of array elements by identifier. */
export type ArrayFilters = ReadonlyMap<string, Predicate>;

const identifierPart = /^\$\[([^\]]*)\]$/;

/** True for a path with `$`, `$[]` or `$[identifier]`. */
export const isPositional = (path: string): boolean =>
  path.split('.').some((part) => part === '$' || identifierPart.test(part));

/** Compiles `arrayFilters`: one test for each identifier, which is the first part of all its paths. */
export function arrayFiltersOf(filters: Value | undefined): ArrayFilters {
  const found = new Map<string, Predicate>();
  for (const filter of filters ? fieldsOf(filters) : []) {
    if (filter.type !== BsonType.object)
      throw new StoreError(14, "BSON field 'update.updates.arrayFilters' must hold objects");
    const names = new Set(topNames(filter));
    const [name] = names;
    if (name === undefined)
      throw new StoreError(9, 'Cannot use an expression without a top-level field name in arrayFilters');
    if (names.size > 1)
      throw new StoreError(
        9,
        `Error parsing array filter :: caused by :: Expected a single top-level field name, found ${[...names].map((each) => `'${each}'`).join(' and ')}`,
      );
    if (!/^[a-z][A-Za-z0-9]*$/.test(name))
      throw new StoreError(
        2,
        `Error parsing array filter :: caused by :: The top-level field name must be an alphanumeric string beginning with a lowercase letter, found '${name}'`,
      );
    if (found.has(name))
      throw new StoreError(9, `Found multiple array filters with the same top-level field name ${name}`);
    found.set(name, compileFilter(filter));
  }
  return found;
}

const topNames = (filter: Value): string[] =>
  fieldsOf(filter).flatMap((entry) =>
    ['$and', '$or', '$nor'].includes(entry.name)
      ? branches(entry).flatMap(topNames)
      : [entry.name.split('.')[0] ?? ''],
  );

/**
 * The places a positional path stands for in a document as it was before the update: `$` is the first element that
 * satisfied `filter`, `$[]` every element, `$[identifier]` those that pass its array filter.
 */
export function concretePaths(
  document: Value,
  path: string,
  arrayFilters: ArrayFilters,
  filter: Value,
): string[] {
  const parts = path.split('.');
  const at = parts.findIndex((part) => part === '$' || identifierPart.test(part));
  const part = parts[at];
  if (part === undefined) return [path];
  const holder = parts.slice(0, at);
  const rest = parts.slice(at + 1);
  if (part === '$') {
    if (at === 0)
      throw new StoreError(
        2,
        `Cannot have positional (i.e. '$') element in the first position in path '${path}'`,
      );
    if (rest.includes('$'))
      throw new StoreError(2, `Too many positional (i.e. '$') elements found in path '${path}'`);
    const position = matchedPosition(document, filter, holder);
    return concretePaths(document, [...holder, position, ...rest].join('.'), arrayFilters, filter);
  }
  const identifier = identifierPart.exec(part)?.[1] ?? '';
  const test = arrayFilters.get(identifier);
  if (identifier !== '' && !test)
    throw new StoreError(2, `No array filter found for identifier '${identifier}' in path '${path}'`);
  const array = valueAt(document, holder);
  if (!array)
    throw new StoreError(
      2,
      `The path '${holder.join('.')}' must exist in the document in order to apply array updates.`,
    );
  if (array.type !== BsonType.array)
    throw new StoreError(
      2,
      `Cannot apply array updates to non-array element ${holder.at(-1) ?? ''}: ${render(array)}`,
    );
  return fieldsOf(array).flatMap((element) =>
    test && !test(toValue({ [identifier]: new Raw(element) }))
      ? []
      : concretePaths(document, [...holder, element.name, ...rest].join('.'), arrayFilters, filter),
  );
}

function valueAt(document: Value, parts: readonly string[]): Value | undefined {
  let value: Value | undefined = document;
  for (const part of parts) {
    if (value?.type !== BsonType.object && value?.type !== BsonType.array) return undefined;
    value = field(value, part);
  }
  return value;
}

/** Conditions that an element can satisfy; the others say nothing about a position. */
const selecting = [
  '$eq',
  '$gt',
  '$gte',
  '$lt',
  '$lte',
  '$in',
  '$regex',
  '$options',
  '$mod',
  '$elemMatch',
  '$all',
  '$type',
];

/** The first element of the array at `holder` that satisfies what the filter says about that array. */
export function matchedPosition(document: Value, filter: Value, holder: readonly string[]): string {
  const notFound = (): StoreError =>
    new StoreError(2, 'The positional operator did not find the match needed from the query.');
  const array = valueAt(document, holder);
  if (array?.type !== BsonType.array) throw notFound();
  const positions = conditionsOn(document, filter, holder.join('.')).flatMap((condition) => {
    const test = compileFilter(toValue({ [condition.name]: new Raw(condition) }));
    return fieldsOf(array).find((element) => test(holding(holder, element)))?.name ?? [];
  });
  const [first] = positions;
  if (first === undefined) throw notFound();
  if (positions.some((other) => other !== first))
    throw new StoreError(
      238,
      `a positional operator on '${holder.join('.')}' with conditions that different elements satisfy is not supported by this document store: use $elemMatch`,
    );
  return first;
}

/** Conditions of the filter about an array or its elements; of `$or` those of the first branch that holds. */
function conditionsOn(document: Value, filter: Value, holder: string): Field[] {
  return fieldsOf(filter).flatMap((entry): Field[] => {
    if (entry.name === '$and') return branches(entry).flatMap((part) => conditionsOn(document, part, holder));
    if (entry.name === '$or') {
      const holds = branches(entry).find((part) => compileFilter(part)(document));
      return holds ? conditionsOn(document, holds, holder) : [];
    }
    if (entry.name !== holder && !entry.name.startsWith(`${holder}.`)) return [];
    if (!hasOperators(entry)) return [entry];
    return fieldsOf(entry).every(({ name }) => selecting.includes(name)) ? [entry] : [];
  });
}

/** A document with one element where the array was. */
function holding(holder: readonly string[], element: Value): Value {
  let node: Node = new ArrayNode([element]);
  for (const part of [...holder].reverse()) node = new DocumentNode([[part, node]]);
  return nodeValue(node);
}
