import { StoreError } from '../errors.js';
import { nodeValue } from '../bson/encode.js';
import { addDecimals, decimalValue, multiplyDecimals, toDecimal } from '../bson/decimals.js';
import { doubleValue, int32Value, int64Value, toDouble } from '../bson/numbers.js';
import { render } from '../bson/render.js';
import { BsonType, fieldsOf, typeName, type Value } from '../bson/values.js';
import type { Place } from './places.js';

const integerOf = (value: Value): bigint =>
  value.type === BsonType.int32
    ? BigInt(value.bytes.readInt32LE(value.at))
    : value.bytes.readBigInt64LE(value.at);

/** Int32 grows into Int64, Int64 overflow is refused, a Double makes the result one, a Decimal128 above all. */
export function calculate(operator: '$inc' | '$mul', a: Value, b: Value): Value {
  if (a.type === BsonType.decimal || b.type === BsonType.decimal) {
    const [x, y] = [toDecimal(a), toDecimal(b)];
    return decimalValue(operator === '$inc' ? addDecimals(x, y) : multiplyDecimals(x, y));
  }
  if (a.type === BsonType.double || b.type === BsonType.double) {
    const [x, y] = [toDouble(a), toDouble(b)];
    return doubleValue(operator === '$inc' ? x + y : x * y);
  }
  const [x, y] = [integerOf(a), integerOf(b)];
  const result = operator === '$inc' ? x + y : x * y;
  const small = result >= -(2n ** 31n) && result < 2n ** 31n;
  if (small && a.type === BsonType.int32 && b.type === BsonType.int32) return int32Value(Number(result));
  if (BigInt.asIntN(64, result) !== result)
    throw new StoreError(
      2,
      `Failed to apply ${operator} operations to current value (${x}) for a 64-bit integer`,
    );
  return int64Value(result);
}

/** What `$mul` makes of a missing field. */
export function zeroLike(value: Value): Value {
  if (value.type === BsonType.int32) return int32Value(0);
  if (value.type === BsonType.int64) return int64Value(0n);
  if (value.type === BsonType.double) return doubleValue(0);
  return decimalValue({ coefficient: 0n, exponent: 0 });
}

const isInteger = ({ type }: Value): boolean => type === BsonType.int32 || type === BsonType.int64;

const bitOperations: Readonly<Record<string, (a: bigint, b: bigint) => bigint>> = {
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
};

/** Checks the operand of `$bit`: `{and|or|xor: integer}`, one or more. */
export function checkBits(operand: Value): void {
  if (operand.type !== BsonType.object)
    throw new StoreError(
      2,
      `The $bit modifier is not compatible with a ${typeName(operand.type)}. You must pass in an embedded document: {$bit: {field: {and/or/xor: #}}`,
    );
  const operations = fieldsOf(operand);
  if (operations.length === 0)
    throw new StoreError(
      2,
      'You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}',
    );
  for (const operation of operations) {
    if (!Object.hasOwn(bitOperations, operation.name))
      throw new StoreError(
        2,
        `The $bit modifier only supports 'and', 'or', and 'xor', not '${operation.name}' which is an unknown operator: ${render(operand)}`,
      );
    if (!isInteger(operation))
      throw new StoreError(
        2,
        `The $bit modifier field must be an Integer(32/64 bit); a '${typeName(operation.type)}' is not supported here: ${render(operand)}`,
      );
  }
}

/** `$bit`; a missing field counts as Int32 0. */
export function bitwise(place: Place, operand: Value, path: string): void {
  const known = place.get();
  let value = known ? nodeValue(known) : int32Value(0);
  if (!isInteger(value))
    throw new StoreError(
      2,
      `Cannot apply $bit to a value of non-integral type. The field '${path}' is of non-integer type ${typeName(value.type)}`,
    );
  for (const operation of fieldsOf(operand)) {
    const act = bitOperations[operation.name] as (a: bigint, b: bigint) => bigint;
    const result = act(integerOf(value), integerOf(operation));
    const small = value.type === BsonType.int32 && operation.type === BsonType.int32;
    value = small ? int32Value(Number(result)) : int64Value(result);
  }
  place.set(value);
}

let lastSecond = 0;
let ordinal = 0;

/** A timestamp no other of this process has: seconds and a count within the second. */
export function currentTimestamp(): Value {
  const second = Math.floor(Date.now() / 1000);
  ordinal = second > lastSecond ? 1 : ordinal + 1;
  lastSecond = Math.max(second, lastSecond);
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeUInt32LE(ordinal, 0);
  bytes.writeUInt32LE(lastSecond, 4);
  return { type: BsonType.timestamp, bytes, at: 0 };
}
