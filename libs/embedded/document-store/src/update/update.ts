import { StoreError, notSupported } from '../errors.js';
import {
  DocumentNode,
  encodeNode,
  newObjectId,
  nodeValue,
  toValue,
  withFirst,
  type Node,
} from '../bson/encode.js';
import { compareValues, equalValues } from '../bson/order.js';
import { render } from '../bson/render.js';
import {
  BsonType,
  documentValue,
  field,
  fieldsOf,
  isNumber,
  textOf,
  typeName,
  valueBytes,
  type Value,
} from '../bson/values.js';
import { branches, hasOperators } from '../query/match.js';
import { arrayOperators, openDocument } from './arrays.js';
import { bitwise, calculate, checkBits, currentTimestamp, zeroLike } from './arithmetic.js';
import { compileUpdatePipeline } from './pipeline.js';
import { arrayFiltersOf, concretePaths, isPositional, type ArrayFilters } from './positional.js';
import { placeOf, type Place } from './places.js';

/** A compiled update: a replacement, a pipeline, or operators in the order MongoDB applies them. */
export interface Update {
  readonly replacement?: Buffer;
  readonly pipeline?: (document: Buffer) => Buffer;
  readonly steps: readonly Step[];
  /** Tests by identifier, for `$[identifier]` in a path. */
  readonly arrayFilters: ArrayFilters;
}

interface Step {
  readonly operator: string;
  readonly path: string;
  readonly operand: Value;
}

const emptyDocument = documentValue(Buffer.from([5, 0, 0, 0, 0]));

type Operator = (place: Place, operand: Value, path: string) => void;

const operators: Readonly<Record<string, Operator>> = {
  $set: (place, operand) => place.set(operand),
  $setOnInsert: (place, operand) => place.set(operand),
  $unset: (place) => place.remove(),
  $inc: (place, operand, path) => arithmetic('$inc', place, operand, path),
  $mul: (place, operand, path) => arithmetic('$mul', place, operand, path),
  $min: (place, operand) => keepExtreme(place, operand, -1),
  $max: (place, operand) => keepExtreme(place, operand, 1),
  $bit: bitwise,
  $currentDate: (place, operand) => place.set(currentDate(operand)),
  ...arrayOperators,
};

/** Names of the operators an update may use. */
export const updateOperators = [...Object.keys(operators), '$rename'];

/** These change nothing where their field is not. */
const needsField = new Set(['$unset', '$pop', '$pull', '$pullAll']);

function arithmetic(operator: '$inc' | '$mul', place: Place, operand: Value, path: string): void {
  const known = place.get();
  if (!known) return place.set(operator === '$inc' ? operand : zeroLike(operand));
  const current = nodeValue(known);
  if (!isNumber(current))
    throw new StoreError(
      14,
      `Cannot apply ${operator} to a value of non-numeric type. The field '${path}' is of non-numeric type ${typeName(current.type)}`,
    );
  place.set(calculate(operator, current, operand));
}

function keepExtreme(place: Place, operand: Value, direction: 1 | -1): void {
  const known = place.get();
  if (!known || compareValues(operand, nodeValue(known)) * direction > 0) place.set(operand);
}

/** `filters` are the `arrayFilters` of the statement: each must be named by a path of the update. */
export function compileUpdate(update: Value, filters?: Value): Update {
  if (update.type === BsonType.array) {
    if (filters) throw new StoreError(9, 'arrayFilters may not be specified for pipeline-style updates');
    return { pipeline: compileUpdatePipeline(update), steps: [], arrayFilters: new Map() };
  }
  const arrayFilters = arrayFiltersOf(filters);
  const fields = fieldsOf(update);
  if (!fields[0]?.name.startsWith('$')) {
    const dollar = fields.find(({ name }) => name.startsWith('$'));
    if (dollar)
      throw new StoreError(
        52,
        `The dollar ($) prefixed field '${dollar.name}' in '${dollar.name}' is not valid for storage.`,
      );
    if (filters) throw new StoreError(9, 'arrayFilters may not be specified for replacement-style updates');
    return { replacement: valueBytes(update), steps: [], arrayFilters };
  }
  const steps = fields.flatMap((modifier) => {
    if (!updateOperators.includes(modifier.name)) throw unknownModifier(modifier.name);
    if (modifier.type !== BsonType.object)
      throw new StoreError(
        9,
        `Modifiers operate on fields but we found type ${typeName(modifier.type)} instead. For example: {$mod: {<field>: ...}} not {${modifier.name}: ...}`,
      );
    return fieldsOf(modifier).map((operand) => compileStep(modifier.name, operand.name, operand));
  });
  refuseConflicts(steps.flatMap(pathsOf));
  for (const identifier of arrayFilters.keys())
    if (!steps.some(({ path }) => path.split('.').includes(`$[${identifier}]`)))
      throw new StoreError(
        9,
        `The array filter for identifier '${identifier}' was not used in the update ${render(update)}`,
      );
  return { steps: steps.sort((a, b) => comparePaths(a.path, b.path)), arrayFilters };
}

function unknownModifier(name: string): StoreError {
  return new StoreError(
    9,
    `Unknown modifier: ${name}. Expected a valid update modifier or pipeline-style update specified as an array`,
  );
}

function compileStep(operator: string, path: string, operand: Value): Step {
  checkPath(path);
  if ((operator === '$inc' || operator === '$mul') && !isNumber(operand))
    throw new StoreError(
      14,
      `Cannot ${operator === '$inc' ? 'increment' : 'multiply'} with non-numeric argument: ${path}`,
    );
  if (operator === '$currentDate') checkCurrentDate(operand);
  if (operator === '$bit') checkBits(operand);
  if (operator !== '$rename') return { operator, path, operand };
  if (isPositional(path)) throw new StoreError(2, `The source field for $rename may not be dynamic: ${path}`);
  if (operand.type !== BsonType.string)
    throw new StoreError(2, `The 'to' field for $rename must be a string: ${path}`);
  if (isPositional(textOf(operand)))
    throw new StoreError(2, `The destination field for $rename may not be dynamic: ${textOf(operand)}`);
  checkPath(textOf(operand));
  return { operator, path: textOf(operand), operand: toValue(path) };
}

function checkCurrentDate(operand: Value): void {
  if (operand.type === BsonType.boolean) return;
  const type = operand.type === BsonType.object ? field(operand, '$type') : undefined;
  if (type?.type !== BsonType.string || !['date', 'timestamp'].includes(textOf(type)))
    throw new StoreError(
      2,
      "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: 'date'}}}",
    );
}

function currentDate(operand: Value): Value {
  const type = operand.type === BsonType.object ? field(operand, '$type') : undefined;
  return type && textOf(type) === 'timestamp' ? currentTimestamp() : toValue(new Date());
}

function checkPath(path: string): void {
  for (const part of path.split('.')) {
    if (part === '')
      throw new StoreError(
        56,
        `The update path '${path}' contains an empty field name, which is not allowed.`,
      );
    if (part.startsWith('$') && !isPositional(part))
      throw new StoreError(
        52,
        `The dollar ($) prefixed field '${part}' in '${path}' is not valid for storage.`,
      );
  }
}

const pathsOf = ({ operator, path, operand }: Step): string[] =>
  operator === '$rename' ? [path, textOf(operand)] : [path];

function refuseConflicts(touched: readonly string[]): void {
  const sorted = touched.map((path) => `${path}.`).sort();
  sorted.forEach((path, i) => {
    const next = sorted[i + 1];
    if (next?.startsWith(path))
      throw new StoreError(
        40,
        `Updating the path '${next.slice(0, -1)}' would create a conflict at '${path.slice(0, -1)}'`,
      );
  });
}

/** Fields in order of their names, array positions in order of their numbers: so new fields are appended. */
function comparePaths(a: string, b: string): number {
  const [x, y] = [a.split('.'), b.split('.')];
  for (let i = 0; i < Math.min(x.length, y.length); i++) {
    const [p, q] = [x[i] as string, y[i] as string];
    if (p === q) continue;
    if (/^\d+$/.test(p) && /^\d+$/.test(q)) return Number(p) - Number(q);
    return Buffer.compare(Buffer.from(p), Buffer.from(q));
  }
  return x.length - y.length;
}

/** `filter` is what found the document: it says where `$` points. */
function applySteps(
  document: DocumentNode,
  { steps, arrayFilters }: Update,
  filter: Value,
  inserting: boolean,
): void {
  const concrete = steps.some(({ path }) => isPositional(path))
    ? resolved(document, steps, arrayFilters, filter)
    : steps;
  for (const { operator, path, operand } of concrete) {
    if (operator === '$setOnInsert' && !inserting) continue;
    if (operator === '$rename') rename(document, textOf(operand), path);
    else {
      const place = placeOf(document, path, !needsField.has(operator));
      if (place) (operators[operator] as Operator)(place, operand, path);
    }
  }
}

function resolved(
  document: DocumentNode,
  steps: readonly Step[],
  arrayFilters: ArrayFilters,
  filter: Value,
): Step[] {
  const before = nodeValue(document);
  const all = steps.flatMap((step) =>
    isPositional(step.path)
      ? concretePaths(before, step.path, arrayFilters, filter).map((path) => ({ ...step, path }))
      : [step],
  );
  refuseConflicts(all.flatMap(pathsOf));
  return all.sort((a, b) => comparePaths(a.path, b.path));
}

function rename(document: DocumentNode, from: string, to: string): void {
  const source = placeOf(document, from, false);
  const moved = source?.get();
  if (!source || !moved) return;
  if (source.isElement) throw new StoreError(2, `The source field cannot be an array element, '${from}'`);
  source.remove();
  const target = placeOf(document, to, true) as Place;
  if (target.isElement) throw new StoreError(2, `The destination field cannot be an array element, '${to}'`);
  target.set(moved);
}

/** The document after the update. Its `_id` cannot change (66). */
export function applyUpdate(update: Update, current: Buffer, filter = emptyDocument): Buffer {
  const id = field(documentValue(current), '_id') as Value;
  if (update.replacement) {
    requireSameId(field(documentValue(update.replacement), '_id'), id, '_id');
    return withFirst('_id', id, update.replacement);
  }
  if (update.pipeline) return withId(update.pipeline(current), id);
  const document = openDocument(current);
  applySteps(document, update, filter, false);
  const kept = document.get('_id');
  if (
    update.steps.some(
      ({ path, operator, operand }) =>
        touchesId(path) || (operator === '$rename' && touchesId(textOf(operand))),
    )
  )
    requireSameId(kept ? nodeValue(kept) : toValue(null), id, '_id');
  return encodeNode(document);
}

function withId(made: Buffer, id: Value): Buffer {
  requireSameId(field(documentValue(made), '_id'), id, '_id');
  return withFirst('_id', id, made);
}

const touchesId = (path: string): boolean => path === '_id' || path.startsWith('_id.');

function requireSameId(id: Value | undefined, kept: Value, path: string): void {
  if (id && !equalValues(id, kept))
    throw new StoreError(
      66,
      `Performing an update on the path '${path}' would modify the immutable field '_id'`,
    );
}

/** The document an upsert inserts: the equalities of the filter, then the update. */
export function upsertDocument(update: Update, filter: Value): Buffer {
  const seed = new DocumentNode();
  seedFrom(filter, seed, new Set());
  const id = seed.get('_id');
  if (update.replacement) {
    const own = field(documentValue(update.replacement), '_id');
    if (id) requireSameId(own, nodeValue(id), '_id');
    return withFirst('_id', own ?? (id ? nodeValue(id) : newObjectId()), update.replacement);
  }
  if (update.pipeline) {
    const result = update.pipeline(encodeNode(seed));
    return withId(result, id ? nodeValue(id) : (field(documentValue(result), '_id') ?? newObjectId()));
  }
  applySteps(seed, update, emptyDocument, true);
  const made = seed.get('_id');
  if (id) requireSameId(made && nodeValue(made), nodeValue(id), '_id');
  return withFirst('_id', made ? nodeValue(made) : newObjectId(), encodeNode(seed));
}

function seedFrom(filter: Value, seed: DocumentNode, given: Set<string>): void {
  for (const entry of fieldsOf(filter)) {
    if (entry.name === '$and') branches(entry).forEach((part) => seedFrom(part, seed, given));
    if (entry.name === '$or' && branches(entry).length === 1)
      branches(entry).forEach((part) => seedFrom(part, seed, given));
    const value = entry.name.startsWith('$') ? undefined : equality(entry);
    if (!value) continue;
    if (given.has(entry.name))
      throw new StoreError(54, `cannot infer query fields to set, path '${entry.name}' is matched twice`);
    if (entry.name.startsWith('_id.')) throw notSupported(`an upsert by '${entry.name}'`);
    given.add(entry.name);
    (placeOf(seed, entry.name, true) as Place).set(value);
  }
}

function equality(entry: Value): Node | undefined {
  if (entry.type === BsonType.regex) return undefined;
  if (!hasOperators(entry)) return entry;
  const equal = field(entry, '$eq');
  if (equal) return equal;
  for (const name of ['$in', '$all']) {
    const operand = field(entry, name);
    const [only, ...more] = operand?.type === BsonType.array ? fieldsOf(operand) : [];
    if (only && more.length === 0 && only.type !== BsonType.regex && !hasOperators(only)) return only;
  }
  return undefined;
}
