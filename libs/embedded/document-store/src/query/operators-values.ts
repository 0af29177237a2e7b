import { EJSON, Decimal128, ObjectId } from 'bson';
import { StoreError } from '../errors.js';
import { DocumentNode, nodeValue, toValue } from '../bson/encode.js';
import { decimalText, doubleValue, int32Value, int64Value, toDouble, toInteger } from '../bson/numbers.js';
import { decimalValue, parse, toDecimal } from '../bson/decimals.js';
import { compareValues } from '../bson/order.js';
import {
  BsonType,
  field,
  fieldsOf,
  isNumber,
  missing,
  textOf,
  typeName,
  typeNamed,
  type Value,
} from '../bson/values.js';
import {
  boolean,
  eager,
  isNullish,
  isTrue,
  listOf,
  namedOf,
  nullValue,
  withVariable,
  type Expression,
  type Operator,
} from './expressions.js';

/** Expressions compare across types; what is missing comes before null. */
export function compareAny(a: Value, b: Value): number {
  const [none, other] = [a.type === BsonType.missing, b.type === BsonType.missing];
  if (none || other) return Number(other) - Number(none);
  return Math.sign(compareValues(a, b));
}

const comparing = (holds: (order: number) => boolean): Operator =>
  eager(2, 2, ([a, b]) => boolean(holds(compareAny(a as Value, b as Value))));

const and: Operator = (operand, compile) => {
  const parts = listOf(operand, 0, Infinity).map((part) => compile(part));
  return (scope) => boolean(parts.every((part) => isTrue(part(scope))));
};

const or: Operator = (operand, compile) => {
  const parts = listOf(operand, 0, Infinity).map((part) => compile(part));
  return (scope) => boolean(parts.some((part) => isTrue(part(scope))));
};

const cond: Operator = (operand, compile) => {
  const named = operand.type === BsonType.object ? namedOf(operand, ['if', 'then', 'else']) : undefined;
  const [test, yes, no] = (
    named ? ['if', 'then', 'else'].map((name) => named.get(name) as Value) : listOf(operand, 3)
  ).map((part) => compile(part)) as [Expression, Expression, Expression];
  return (scope) => (isTrue(test(scope)) ? yes(scope) : no(scope));
};

const ifNull: Operator = (operand, compile) => {
  const parts = listOf(operand, 2, Infinity).map((part) => compile(part));
  return (scope) => {
    let value = missing;
    for (const part of parts) if (!isNullish((value = part(scope)))) return value;
    return value;
  };
};

const choose: Operator = (operand, compile) => {
  const given = namedOf(operand, ['branches'], ['default']);
  const list = given.get('branches') as Value;
  if (list.type !== BsonType.array)
    throw new StoreError(40061, `$switch expected an array for 'branches', found: ${typeName(list.type)}`);
  const branches = fieldsOf(list).map((branch) => {
    const named = namedOf({ ...branch, name: '$switch' }, ['case', 'then']);
    return ['case', 'then'].map((name) => compile(named.get(name) as Value)) as [Expression, Expression];
  });
  const otherwise = given.get('default');
  if (branches.length === 0 && !otherwise)
    throw new StoreError(40068, '$switch requires at least one branch.');
  const last = otherwise && compile(otherwise);
  return (scope) => {
    for (const [test, then] of branches) if (isTrue(test(scope))) return then(scope);
    if (last) return last(scope);
    throw new StoreError(
      40066,
      '$switch could not find a matching branch for an input, and no default was specified.',
    );
  };
};

const bind: Operator = (operand, compile) => {
  const given = namedOf(operand, ['vars', 'in']);
  const vars = fieldsOf(given.get('vars') as Value).map(({ name, ...value }): [string, Expression] => {
    if (!/^[a-z\u0080-\uffff]/.test(name))
      throw new StoreError(16867, `'${name}' starts with an invalid character for a user variable name`);
    return [name, compile(value)];
  });
  const inner = compile(
    given.get('in') as Value,
    vars.map(([name]) => name),
  );
  return (scope) =>
    inner(vars.reduce((within, [name, value]) => withVariable(within, name, value(scope)), scope));
};

const getField: Operator = (operand, compile) => {
  const named =
    operand.type === BsonType.object && field(operand, 'field')
      ? namedOf(operand, ['field', 'input'])
      : undefined;
  const name = compile(named ? (named.get('field') as Value) : operand);
  const input = named && compile(named.get('input') as Value);
  return (scope) => {
    const wanted = name(scope);
    if (wanted.type !== BsonType.string)
      throw new StoreError(5654602, `$getField requires 'field' to evaluate to type String`);
    const from = input ? input(scope) : scope.root;
    return from.type === BsonType.object
      ? (field(from, textOf(wanted)) ?? missing)
      : from.type === BsonType.null
        ? nullValue
        : missing;
  };
};

function mergeObjects(args: readonly Value[]): Value {
  const merged = new DocumentNode();
  const all = args.length === 1 && args[0]?.type === BsonType.array ? fieldsOf(args[0]) : args;
  for (const document of all) {
    if (isNullish(document)) continue;
    if (document.type !== BsonType.object)
      throw new StoreError(
        40400,
        `$mergeObjects requires object inputs, but input is of type ${typeName(document.type)}`,
      );
    for (const entry of fieldsOf(document)) merged.set(entry.name, entry);
  }
  return nodeValue(merged);
}

const failed = (value: Value, to: string, why = ''): StoreError =>
  new StoreError(
    241,
    `Unsupported conversion from ${typeName(value.type)} to ${to} in $convert with no onError value${why}`,
  );

const badText = (value: Value, to: string): StoreError =>
  new StoreError(
    241,
    `Failed to parse number '${textOf(value)}' in $convert with no onError value: not a ${to}`,
  );

function toWhole(value: Value, bits: 32 | 64): bigint {
  const to = bits === 32 ? 'int' : 'long';
  let whole: bigint | undefined;
  if (value.type === BsonType.boolean) whole = isTrue(value) ? 1n : 0n;
  else if (value.type === BsonType.string) {
    if (!/^[+-]?\d+$/.test(textOf(value))) throw badText(value, to);
    whole = BigInt(textOf(value).replace('+', ''));
  } else if (isNumber(value)) {
    const double = toDouble(value);
    if (!Number.isFinite(double)) throw failed(value, to, ': NaN and infinity have no integer');
    whole =
      value.type === BsonType.double
        ? BigInt(Math.trunc(double))
        : (toInteger(value) ?? truncatedDecimal(value));
  } else if (value.type === BsonType.date && bits === 64) whole = value.bytes.readBigInt64LE(value.at);
  else throw failed(value, to);
  if (BigInt.asIntN(bits, whole) !== whole)
    throw new StoreError(
      241,
      `Conversion would overflow target type in $convert with no onError value: ${whole}`,
    );
  return whole;
}

function truncatedDecimal(value: Value): bigint {
  const decimal = toDecimal(value);
  if (typeof decimal === 'string') throw failed(value, 'long');
  const { coefficient, exponent } = decimal;
  return exponent >= 0 ? coefficient * 10n ** BigInt(exponent) : coefficient / 10n ** BigInt(-exponent);
}

function toDoubleValue(value: Value): Value {
  if (isNumber(value)) return doubleValue(toDouble(value));
  if (value.type === BsonType.boolean) return doubleValue(isTrue(value) ? 1 : 0);
  if (value.type === BsonType.date) return doubleValue(Number(value.bytes.readBigInt64LE(value.at)));
  if (value.type !== BsonType.string) throw failed(value, 'double');
  const text = textOf(value);
  if (!/^[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf(inity)?|nan)$/i.test(text))
    throw badText(value, 'double');
  if (/nan/i.test(text)) return doubleValue(NaN);
  if (/inf/i.test(text)) return doubleValue(text.startsWith('-') ? -Infinity : Infinity);
  return doubleValue(Number(text));
}

function toDecimalValue(value: Value): Value {
  if (value.type === BsonType.decimal) return value;
  if (isNumber(value)) return decimalValue(toDecimal(value));
  if (value.type === BsonType.boolean)
    return decimalValue({ coefficient: isTrue(value) ? 1n : 0n, exponent: 0 });
  if (value.type === BsonType.date)
    return decimalValue({ coefficient: value.bytes.readBigInt64LE(value.at), exponent: 0 });
  if (value.type !== BsonType.string) throw failed(value, 'decimal');
  try {
    return decimalValue(parse(Decimal128.fromStringWithRounding(textOf(value)).toString()));
  } catch {
    throw badText(value, 'decimal');
  }
}

export function dateText(milliseconds: number): string {
  const date = new Date(milliseconds);
  if (Number.isNaN(date.getTime()))
    throw new StoreError(18537, `Could not convert date to string: date out of range`);
  return date.toISOString();
}

function toText(value: Value): Value {
  const { type, bytes, at } = value;
  if (type === BsonType.string) return value;
  if (type === BsonType.boolean) return toValue(String(isTrue(value)));
  if (type === BsonType.int32 || type === BsonType.int64) return toValue(String(toInteger(value)));
  if (type === BsonType.decimal) return toValue(decimalText(value));
  if (type === BsonType.double) return toValue(doubleText(toDouble(value)));
  if (type === BsonType.objectId) return toValue(bytes.toString('hex', at, at + 12));
  if (type === BsonType.date) return toValue(dateText(Number(bytes.readBigInt64LE(at))));
  throw failed(value, 'string');
}

function doubleText(double: number): string {
  if (!Number.isFinite(double)) return Number.isNaN(double) ? 'NaN' : double > 0 ? 'Infinity' : '-Infinity';
  if (Object.is(double, -0)) return '-0';
  const size = Math.abs(double);
  if (size === 0 || (size >= 1e-4 && size < 1e16)) return String(double);
  return double.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
}

function toDateValue(value: Value): Value {
  const { type, bytes, at } = value;
  if (type === BsonType.date) return value;
  if (isNumber(value) && type !== BsonType.int32) return toValue(dateAt(Number(toWhole(value, 64)), value));
  if (type === BsonType.objectId) return toValue(new Date(bytes.readUInt32BE(at) * 1000));
  if (type === BsonType.timestamp) return toValue(new Date(bytes.readUInt32LE(at + 4) * 1000));
  if (type !== BsonType.string) throw failed(value, 'date');
  const text = textOf(value);
  const iso = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,3})?)?)?(Z|[+-]\d\d:?\d\d)?$/.test(text);
  const zoned = /(Z|[+-]\d\d:?\d\d)$/.test(text.slice(10));
  const parsed = iso
    ? Date.parse(zoned || text.length === 10 ? text.replace(' ', 'T') : `${text.replace(' ', 'T')}Z`)
    : NaN;
  if (Number.isNaN(parsed))
    throw new StoreError(241, `Error parsing date string '${text}' in $convert with no onError value`);
  return toValue(new Date(parsed));
}

function dateAt(milliseconds: number, from: Value): Date {
  const date = new Date(milliseconds);
  if (Number.isNaN(date.getTime())) throw failed(from, 'date', ': out of range');
  return date;
}

function toObjectId(value: Value): Value {
  if (value.type === BsonType.objectId) return value;
  if (value.type !== BsonType.string) throw failed(value, 'objectId');
  const text = textOf(value);
  if (!/^[0-9a-f]{24}$/i.test(text))
    throw new StoreError(241, `Failed to parse objectId '${text}' in $convert with no onError value`);
  return { type: BsonType.objectId, bytes: Buffer.from(new ObjectId(text).id), at: 0 };
}

/** `$convert` by the name of the wanted type; null and missing become null before. */
const conversions: Readonly<Record<string, (value: Value) => Value>> = {
  int: (value) => int32Value(Number(toWhole(value, 32))),
  long: (value) => int64Value(toWhole(value, 64)),
  double: toDoubleValue,
  decimal: toDecimalValue,
  string: toText,
  bool: (value) => boolean(value.type !== BsonType.boolean && !isNumber(value) ? true : isTrue(value)),
  date: toDateValue,
  objectId: toObjectId,
};

const converting = (to: string): Operator => {
  const convertTo = conversions[to] as (value: Value) => Value;
  return eager(1, 1, ([value = missing]) => (isNullish(value) ? nullValue : convertTo(value)));
};

const convert: Operator = (operand, compile) => {
  const given = namedOf(operand, ['input', 'to'], ['onError', 'onNull']);
  const at = (name: string): Expression | undefined => {
    const member = given.get(name);
    return member && compile(member);
  };
  const [input, to, onError, onNull] = [at('input'), at('to'), at('onError'), at('onNull')];
  return (scope) => {
    const value = (input as Expression)(scope);
    if (isNullish(value)) return onNull ? onNull(scope) : nullValue;
    const name = targetName((to as Expression)(scope));
    if (name === undefined) return nullValue;
    try {
      return (conversions[name] as (value: Value) => Value)(value);
    } catch (error) {
      if (onError && error instanceof StoreError) return onError(scope);
      throw error;
    }
  };
};

function targetName(to: Value): string | undefined {
  if (isNullish(to)) return undefined;
  const name = to.type === BsonType.string ? textOf(to) : typeName(Number(toInteger(to) ?? -1));
  if (!Object.hasOwn(conversions, name) || typeNamed(name) === undefined)
    throw new StoreError(
      9,
      `$convert's 'to' argument: ${EJSON.stringify(name)} is not a type it converts to`,
    );
  return name;
}

export const valueOperators: Readonly<Record<string, Operator>> = {
  $eq: comparing((order) => order === 0),
  $ne: comparing((order) => order !== 0),
  $gt: comparing((order) => order > 0),
  $gte: comparing((order) => order >= 0),
  $lt: comparing((order) => order < 0),
  $lte: comparing((order) => order <= 0),
  $cmp: eager(2, 2, ([a, b]) => int32Value(compareAny(a as Value, b as Value))),
  $and: and,
  $or: or,
  $not: eager(1, 1, ([value]) => boolean(!isTrue(value as Value))),
  $cond: cond,
  $ifNull: ifNull,
  $switch: choose,
  $let: bind,
  $getField: getField,
  $mergeObjects: eager(0, Infinity, mergeObjects),
  $type: eager(1, 1, ([value]) => toValue(typeName((value as Value).type))),
  $isNumber: eager(1, 1, ([value]) => boolean(isNumber(value as Value))),
  $convert: convert,
  $toInt: converting('int'),
  $toLong: converting('long'),
  $toDouble: converting('double'),
  $toDecimal: converting('decimal'),
  $toString: converting('string'),
  $toBool: converting('bool'),
  $toDate: converting('date'),
  $toObjectId: converting('objectId'),
};
