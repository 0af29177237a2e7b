import { StoreError, notSupported } from '../errors.js';
import { toDouble } from '../bson/numbers.js';
import { BsonType, type Value } from '../bson/values.js';

function int32(value: number): Value {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeInt32LE(value);
  return { type: BsonType.int32, bytes, at: 0 };
}

function int64(value: bigint): Value {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigInt64LE(value);
  return { type: BsonType.int64, bytes, at: 0 };
}

function double(value: number): Value {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeDoubleLE(value);
  return { type: BsonType.double, bytes, at: 0 };
}

const integerOf = (value: Value): bigint =>
  value.type === BsonType.int32
    ? BigInt(value.bytes.readInt32LE(value.at))
    : value.bytes.readBigInt64LE(value.at);

/** Int32 grows into Int64, Int64 overflow is refused, a Double makes the result one. */
export function calculate(operator: '$inc' | '$mul', a: Value, b: Value): Value {
  if (a.type === BsonType.decimal || b.type === BsonType.decimal)
    throw notSupported(`${operator} on Decimal128`);
  if (a.type === BsonType.double || b.type === BsonType.double) {
    const [x, y] = [toDouble(a), toDouble(b)];
    return double(operator === '$inc' ? x + y : x * y);
  }
  const [x, y] = [integerOf(a), integerOf(b)];
  const result = operator === '$inc' ? x + y : x * y;
  const small = result >= -(2n ** 31n) && result < 2n ** 31n;
  if (small && a.type === BsonType.int32 && b.type === BsonType.int32) return int32(Number(result));
  if (BigInt.asIntN(64, result) !== result)
    throw new StoreError(
      2,
      `Failed to apply ${operator} operations to current value (${x}) for a 64-bit integer`,
    );
  return int64(result);
}

/** What `$mul` makes of a missing field. */
export function zeroLike(value: Value): Value {
  if (value.type === BsonType.int32) return int32(0);
  if (value.type === BsonType.int64) return int64(0n);
  if (value.type === BsonType.double) return double(0);
  throw notSupported('$mul on Decimal128');
}
