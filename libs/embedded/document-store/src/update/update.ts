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
import { calculate, zeroLike } from './arithmetic.js';
import { placeOf, type Place } from './places.js';

/** A compiled update: a replacement, or operators in the order MongoDB applies them. */
export interface Update {
  readonly replacement?: Buffer;
  readonly steps: readonly Step[];
}

interface Step {
  readonly operator: string;
  readonly path: string;
  readonly operand: Value;
}

type Operator = (place: Place, operand: Value, path: string) => void;

const operators: Readonly<Record<string, Operator>> = {
  $set: (place, operand) => place.set(operand),
  $setOnInsert: (place, operand) => place.set(operand),
  $unset: (place) => place.remove(),
  $inc: (place, operand, path) => arithmetic('$inc', place, operand, path),
  $mul: (place, operand, path) => arithmetic('$mul', place, operand, path),
  $min: (place, operand) => keepExtreme(place, operand, -1),
  $max: (place, operand) => keepExtreme(place, operand, 1),
  $currentDate: (place) => place.set(toValue(new Date())),
  ...arrayOperators,
};

/** Names of the operators an update may use. */
export const updateOperators = [...Object.keys(operators), '$rename'];

/** These change nothing where their field is not. */
const needsField = new Set(['$unset', '$pop', '$pull']);

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

export function compileUpdate(update: Value): Update {
  if (update.type === BsonType.array) throw notSupported('an update with an aggregation pipeline');
  const fields = fieldsOf(update);
  if (!fields[0]?.name.startsWith('$')) {
    const dollar = fields.find(({ name }) => name.startsWith('$'));
    if (dollar)
      throw new StoreError(
        52,
        `The dollar ($) prefixed field '${dollar.name}' in '${dollar.name}' is not valid for storage.`,
      );
    return { replacement: valueBytes(update), steps: [] };
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
  refuseConflicts(steps);
  return { steps: steps.sort((a, b) => comparePaths(a.path, b.path)) };
}

function unknownModifier(name: string): StoreError {
  if (['$bit', '$pullAll', '$pushAll'].includes(name)) return notSupported(name);
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
  if (operator !== '$rename') return { operator, path, operand };
  if (operand.type !== BsonType.string)
    throw new StoreError(2, `The 'to' field for $rename must be a string: ${path}`);
  checkPath(textOf(operand));
  return { operator, path: textOf(operand), operand: toValue(path) };
}

function checkCurrentDate(operand: Value): void {
  if (operand.type === BsonType.boolean) return;
  const type = operand.type === BsonType.object ? field(operand, '$type') : undefined;
  if (type?.type === BsonType.string && textOf(type) === 'timestamp')
    throw notSupported('$currentDate of type timestamp');
  if (type?.type !== BsonType.string || textOf(type) !== 'date')
    throw new StoreError(2, '$currentDate needs true or {$type: "date"}');
}

function checkPath(path: string): void {
  for (const part of path.split('.')) {
    if (part === '')
      throw new StoreError(
        56,
        `The update path '${path}' contains an empty field name, which is not allowed.`,
      );
    if (part.startsWith('$[') || part === '$') throw notSupported(`the positional operator in '${path}'`);
    if (part.startsWith('$'))
      throw new StoreError(
        52,
        `The dollar ($) prefixed field '${part}' in '${path}' is not valid for storage.`,
      );
  }
}

function refuseConflicts(steps: readonly Step[]): void {
  const touched = steps.flatMap(({ operator, path, operand }) =>
    operator === '$rename' ? [path, textOf(operand)] : [path],
  );
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

function applySteps(document: DocumentNode, steps: readonly Step[], inserting: boolean): void {
  for (const { operator, path, operand } of steps) {
    if (operator === '$setOnInsert' && !inserting) continue;
    if (operator === '$rename') rename(document, textOf(operand), path);
    else {
      const place = placeOf(document, path, !needsField.has(operator));
      if (place) (operators[operator] as Operator)(place, operand, path);
    }
  }
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
export function applyUpdate(update: Update, current: Buffer): Buffer {
  const id = field(documentValue(current), '_id') as Value;
  if (update.replacement) {
    requireSameId(field(documentValue(update.replacement), '_id'), id, '_id');
    return withFirst('_id', id, update.replacement);
  }
  const document = openDocument(current);
  applySteps(document, update.steps, false);
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
  applySteps(seed, update.steps, true);
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
    if (operand?.type === BsonType.array && fieldsOf(operand).length === 1)
      throw notSupported(`an upsert by ${name} with one member`);
  }
  return undefined;
}
