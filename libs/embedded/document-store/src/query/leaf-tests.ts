import { StoreError, notSupported } from '../errors.js';
import { toDouble, toInteger } from '../bson/numbers.js';
import { compareToKey, keyOf, keyText, rankOf } from '../bson/order.js';
import {
  BsonType,
  fieldsOf,
  isNumber,
  textOf,
  typeName,
  typeNamed,
  valueBytes,
  type Value,
} from '../bson/values.js';
import { toRegExp } from './regex.js';

/** Tests one candidate value of a path; `isElement` is true for elements of the array the path ends in. */
export type LeafTest = (value: Value, isElement: boolean) => boolean;

const isNullish = (value: Value): boolean => value.type === BsonType.null || value.type === BsonType.missing;

export function equalTo(operand: Value): LeafTest {
  if (operand.type === BsonType.null) return isNullish;
  const key = keyOf(operand);
  const rank = rankOf(operand.type);
  return (value) =>
    value.type !== BsonType.missing && rankOf(value.type) === rank && compareToKey(value, key) === 0;
}

/** Range operators compare inside one type only; MinKey and MaxKey stand outside all. */
export function comparison(operator: string, operand: Value): LeafTest {
  if (operand.type === BsonType.regex)
    throw new StoreError(2, `Can't have RegEx as arg to predicate over field '${operator}'.`);
  const holds = comparators[operator] as (order: number) => boolean;
  const orEqual = operator.length === 4;
  if (operand.type === BsonType.null) return orEqual ? isNullish : () => false;
  const key = keyOf(operand);
  const rank = rankOf(operand.type);
  const anyType = operand.type === BsonType.minKey || operand.type === BsonType.maxKey;
  const isNaN = isNumber(operand) && Number.isNaN(toDouble(operand));
  return (value) => {
    if (value.type === BsonType.missing) return false;
    if (!anyType && rankOf(value.type) !== rank) return false;
    if (isNumber(operand) && Number.isNaN(toDouble(value)) !== isNaN) return false;
    return holds(compareToKey(value, key));
  };
}

const comparators: Readonly<Record<string, (order: number) => boolean>> = {
  $gt: (order) => order > 0,
  $gte: (order) => order >= 0,
  $lt: (order) => order < 0,
  $lte: (order) => order <= 0,
};

export function oneOf(operand: Value): LeafTest {
  if (operand.type !== BsonType.array) throw new StoreError(2, '$in needs an array');
  const keys = new Set<string>();
  const patterns: LeafTest[] = [];
  for (const element of fieldsOf(operand)) {
    if (element.type === BsonType.object && fieldsOf(element)[0]?.name.startsWith('$'))
      throw new StoreError(2, 'cannot nest $ under $in');
    if (element.type === BsonType.regex) patterns.push(regexTest(element));
    keys.add(keyText(element));
  }
  const nullKey = keyText({ type: BsonType.null, bytes: operand.bytes, at: 0 });
  return (value, isElement) =>
    isNullish(value)
      ? keys.has(nullKey)
      : keys.has(keyText(value)) || patterns.some((test) => test(value, isElement));
}

/** Matches strings; a stored regular expression equals the same expression. */
export function regexTest(operand: Value, flags?: Value): LeafTest {
  const pattern = toRegExp(operand, flags);
  const same = operand.type === BsonType.regex ? equalTo(operand) : undefined;
  return (value, isElement) =>
    value.type === BsonType.string
      ? pattern.test(textOf(value))
      : value.type === BsonType.regex && same !== undefined && same(value, isElement);
}

export function modulo(operand: Value): LeafTest {
  const parts = operand.type === BsonType.array ? fieldsOf(operand) : [];
  if (parts.length !== 2 || !parts.every(isNumber))
    throw new StoreError(2, 'malformed mod, needs [divisor, remainder], two numbers');
  const [divisor, remainder] = parts.map((part) => toInteger(truncated(part)));
  if (!divisor) throw new StoreError(2, 'divisor cannot be 0');
  return (value) => {
    const integer = isNumber(value) ? toInteger(truncated(value)) : undefined;
    return integer !== undefined && integer % divisor === remainder;
  };
}

function truncated(value: Value): Value {
  if (value.type === BsonType.decimal && toInteger(value) === undefined)
    throw notSupported('$mod on a fractional Decimal128');
  if (value.type !== BsonType.double) return value;
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeDoubleLE(Math.trunc(toDouble(value)));
  return { type: BsonType.double, bytes, at: 0 };
}

export function sizeTest(operand: Value): LeafTest {
  const size = isNumber(operand) ? toInteger(operand) : undefined;
  if (size === undefined || size < 0n) throw new StoreError(2, '$size must be a whole number, not negative');
  return (value, isElement) =>
    value.type === BsonType.array && !isElement && BigInt(fieldsOf(value).length) === size;
}

export function typeTest(operand: Value): LeafTest {
  const wanted = operand.type === BsonType.array ? fieldsOf(operand) : [operand];
  const types = new Set(wanted.flatMap(typesMeant));
  if (types.size === 0) throw new StoreError(9, '$type must match at least one type');
  return (value) => value.type !== BsonType.missing && types.has(value.type);
}

function typesMeant(operand: Value): number[] {
  if (operand.type === BsonType.string) {
    const name = textOf(operand);
    if (name === 'number') return [BsonType.double, BsonType.int32, BsonType.int64, BsonType.decimal];
    const type = typeNamed(name);
    if (type === undefined) throw new StoreError(2, `Unknown type name alias: ${name}`);
    return [type];
  }
  const code = isNumber(operand) ? Number(toInteger(operand)) : NaN;
  if (code === -1) return [BsonType.minKey];
  if (typeName(code) === 'missing' || code === 255)
    throw new StoreError(2, `Invalid numerical type code: ${code}`);
  return [code];
}

/** The operand of `$bits…`: a mask as a number or bytes, or a list of positions; as a number of any length. */
function maskOf(operand: Value): bigint {
  if (operand.type === BsonType.array)
    return fieldsOf(operand).reduce((mask, position) => {
      const bit = isNumber(position) ? toInteger(position) : undefined;
      if (bit === undefined || bit < 0n || bit > 0x7fffffffn)
        throw new StoreError(
          2,
          `Failed to parse bit position. Expected a non-negative integer: ${operand.type}`,
        );
      return mask | (1n << bit);
    }, 0n);
  if (operand.type === BsonType.binary) return littleEndian(valueBytes(operand).subarray(5));
  const mask = isNumber(operand) ? toInteger(operand) : undefined;
  if (mask === undefined || mask < 0n)
    throw new StoreError(2, 'takes an Array, a number, or a BinData: a mask is a non-negative integer');
  return mask;
}

const littleEndian = (bytes: Buffer): bigint =>
  [...bytes].reduceRight((number, byte) => (number << 8n) | BigInt(byte), 0n);

/** Looks at the bits of integers (sign extended) and of binaries; nothing else matches. */
export function bitTest(operator: string, operand: Value): LeafTest {
  const mask = maskOf(operand);
  const holds: Readonly<Record<string, (bits: bigint) => boolean>> = {
    $bitsAllSet: (bits) => (bits & mask) === mask,
    $bitsAllClear: (bits) => (bits & mask) === 0n,
    $bitsAnySet: (bits) => (bits & mask) !== 0n,
    $bitsAnyClear: (bits) => (bits & mask) !== mask,
  };
  const test = holds[operator] as (bits: bigint) => boolean;
  return (value) => {
    if (value.type === BsonType.binary) return test(littleEndian(valueBytes(value).subarray(5)));
    const bits = isNumber(value) ? toInteger(value) : undefined;
    return bits !== undefined && test(bits);
  };
}
