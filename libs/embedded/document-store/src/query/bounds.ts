import { truth } from '../bson/options.js';
import { keyOf, nullRank } from '../bson/order.js';
import { toDouble } from '../bson/numbers.js';
import { BsonType, field, fieldsOf, isNumber, type Field, type Value } from '../bson/values.js';
import { toValue } from '../bson/encode.js';
import { hasOperators } from './match.js';
import { literalPrefix } from './regex.js';

export interface Limit {
  readonly key: Buffer;
  readonly inclusive: boolean;
}

/**
 * What a filter says about one path, as far as an index can use it: every document the filter matches has at least
 * one index key inside. The filter itself still decides.
 */
export interface Bounds {
  /** Keys, one of which must be present. */
  points?: Buffer[];
  low?: Limit;
  high?: Limit;
  exists?: boolean;
}

/** Bounds by path, from the conditions that must all hold. */
export function boundsOf(filter: Value, found = new Map<string, Bounds>()): Map<string, Bounds> {
  for (const entry of fieldsOf(filter)) {
    if (entry.name === '$and') fieldsOf(entry).forEach((part) => boundsOf(part, found));
    if (entry.name.startsWith('$')) continue;
    let bounds = found.get(entry.name);
    if (!bounds) found.set(entry.name, (bounds = {}));
    if (entry.type === BsonType.regex) prefixBounds(bounds, entry);
    else if (!hasOperators(entry)) pointBounds(bounds, [entry]);
    else for (const operator of fieldsOf(entry)) operatorBounds(bounds, operator, entry);
  }
  return found;
}

function operatorBounds(bounds: Bounds, operator: Field, whole: Value): void {
  switch (operator.name) {
    case '$eq':
      return pointBounds(bounds, [operator]);
    case '$in':
      return pointBounds(bounds, fieldsOf(operator));
    case '$gt':
    case '$gte':
      if (ordered(operator)) bounds.low ??= { key: keyOf(operator), inclusive: operator.name === '$gte' };
      return;
    case '$lt':
    case '$lte':
      if (ordered(operator)) bounds.high ??= { key: keyOf(operator), inclusive: operator.name === '$lte' };
      return;
    case '$regex':
      return prefixBounds(bounds, operator, field(whole, '$options'));
    case '$exists':
      bounds.exists ||= truth(operator);
  }
}

/** Arrays match as elements too, and expressions match texts: neither is a point of an index. */
function pointBounds(bounds: Bounds, operands: readonly Value[]): void {
  const plain = operands.every(({ type }) => type !== BsonType.array && type !== BsonType.regex);
  if (plain && !bounds.points) bounds.points = unique(operands.map(keyOf));
}

const unique = (keys: Buffer[]): Buffer[] =>
  keys.sort((a, b) => a.compare(b)).filter((key, i) => i === 0 || !key.equals(keys[i - 1] as Buffer));

const ordered = ({ type }: Value): boolean =>
  type === BsonType.int32 ||
  type === BsonType.double ||
  type === BsonType.int64 ||
  type === BsonType.decimal ||
  type === BsonType.string ||
  type === BsonType.date ||
  type === BsonType.objectId ||
  type === BsonType.binary ||
  type === BsonType.boolean ||
  type === BsonType.timestamp;

/** A stored expression equal to the operand matches too, and lies outside the texts: only `$regex` strings bound. */
function prefixBounds(bounds: Bounds, operand: Value, flags?: Value): void {
  if (operand.type !== BsonType.string || bounds.low || bounds.high) return;
  const prefix = literalPrefix(operand, flags);
  if (prefix === '') return;
  const key = keyOf(toValue(prefix));
  const open = key.subarray(0, key.length - 2);
  bounds.low = { key: open, inclusive: true };
  bounds.high = { key: following(open), inclusive: false };
}

/** True when no missing field can satisfy the bounds, so that a sparse index holds every match. */
export const excludesMissing = (bounds: Bounds | undefined): boolean =>
  bounds !== undefined &&
  (bounds.exists === true ||
    bounds.low !== undefined ||
    bounds.high !== undefined ||
    (bounds.points !== undefined && bounds.points.every((key) => key[0] !== nullRank)));

/**
 * True when every document that satisfies the bounds satisfies the filter of a partial index too, so that the index
 * holds every match. A filter that cannot be compared is taken as not implied.
 */
export function implies(bounds: ReadonlyMap<string, Bounds>, filter: Value): boolean {
  return fieldsOf(filter).every((entry) => {
    if (entry.name === '$and') return fieldsOf(entry).every((part) => implies(bounds, part));
    const known = bounds.get(entry.name);
    if (!known || entry.name.startsWith('$') || entry.type === BsonType.regex) return false;
    if (!hasOperators(entry)) return within(known, [entry]);
    return fieldsOf(entry).every((operator) => impliesOperator(known, operator));
  });
}

function impliesOperator(bounds: Bounds, operator: Field): boolean {
  switch (operator.name) {
    case '$eq':
      return within(bounds, [operator]);
    case '$in':
      return operator.type === BsonType.array && within(bounds, fieldsOf(operator));
    case '$exists':
      return truth(operator) && excludesMissing(bounds);
    case '$gt':
    case '$gte':
    case '$lt':
    case '$lte':
      return ordered(operator) && !isNaN(operator) && inside(bounds, operator);
    default:
      return false;
  }
}

const isNaN = (value: Value): boolean => isNumber(value) && Number.isNaN(toDouble(value));

const within = ({ points }: Bounds, allowed: readonly Value[]): boolean => {
  if (!points || allowed.some(({ type }) => type === BsonType.array || type === BsonType.regex)) return false;
  const keys = allowed.map(keyOf);
  return points.every((point) => keys.some((key) => key.equals(point)));
};

/** Points or a limit beyond the operand, of its type: comparisons never match across types. */
function inside({ points, low, high }: Bounds, operator: Field): boolean {
  const key = keyOf(operator);
  const upwards = operator.name.startsWith('$gt');
  const orEqual = operator.name.endsWith('e');
  const beyond = (other: Limit): boolean => {
    const order = upwards ? other.key.compare(key) : key.compare(other.key);
    return other.key[0] === key[0] && (order > 0 || (order === 0 && (orEqual || !other.inclusive)));
  };
  if (points) return points.every((point) => beyond({ key: point, inclusive: true }));
  const limit = upwards ? low : high;
  return limit !== undefined && beyond(limit);
}

/** The first key after every key that begins with `prefix`. */
export function following(prefix: Buffer): Buffer {
  const next = Buffer.from(prefix);
  for (let i = next.length - 1; i >= 0; i--) {
    if (next[i] !== 0xff) {
      next[i] = (next[i] as number) + 1;
      return next.subarray(0, i + 1);
    }
  }
  return Buffer.concat([prefix, Buffer.alloc(8, 0xff)]);
}

export function complement(key: Buffer): Buffer {
  const inverted = Buffer.allocUnsafe(key.length);
  for (let i = 0; i < key.length; i++) inverted[i] = ~(key[i] as number) & 0xff;
  return inverted;
}
