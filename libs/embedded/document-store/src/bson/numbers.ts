import { Decimal128 } from 'bson';
import { BsonType, type Value } from './values.js';

/** What a number has beyond its nearest double: 0.digits × 10^magnitude, digits without trailing zeros. */
export interface Remainder {
  readonly negative: boolean;
  readonly magnitude: number;
  readonly digits: string;
}

/** coefficient × 10^exponent */
interface Decimal {
  readonly coefficient: bigint;
  readonly exponent: number;
}

export const decimalText = (value: Value): string =>
  new Decimal128(value.bytes.subarray(value.at, value.at + 16)).toString();

/** The number as a double: exact for Int32 and Double, nearest for Int64 and Decimal128. */
export function toDouble(value: Value): number {
  switch (value.type) {
    case BsonType.int32:
      return value.bytes.readInt32LE(value.at);
    case BsonType.double:
      return value.bytes.readDoubleLE(value.at);
    case BsonType.int64:
      return Number(value.bytes.readBigInt64LE(value.at));
    case BsonType.decimal:
      return Number(decimalText(value));
    default:
      return NaN;
  }
}

/** The number as an integer when it is one in the range of Int64, whatever its type. */
export function toInteger(value: Value): bigint | undefined {
  if (value.type === BsonType.int32) return BigInt(value.bytes.readInt32LE(value.at));
  if (value.type === BsonType.int64) return value.bytes.readBigInt64LE(value.at);
  if (value.type !== BsonType.double && value.type !== BsonType.decimal) return undefined;
  const number = toDouble(value);
  if (!Number.isInteger(number) || Math.abs(number) >= 2 ** 63) return undefined;
  if (value.type === BsonType.double) return BigInt(number);
  const { coefficient, exponent } = parseDecimal(decimalText(value));
  if (exponent >= 0) return coefficient * 10n ** BigInt(exponent);
  const divisor = 10n ** BigInt(-exponent);
  return coefficient % divisor === 0n ? coefficient / divisor : undefined;
}

/** An Int64 or Decimal128 as nearest double plus exact remainder, the form in which all numbers compare. */
export function exactParts(value: Value): { nearest: number; remainder: Remainder | undefined } {
  if (value.type === BsonType.int64) {
    const integer = value.bytes.readBigInt64LE(value.at);
    const nearest = Number(integer);
    if (Number.isSafeInteger(nearest)) return { nearest, remainder: undefined };
    return { nearest, remainder: toRemainder({ coefficient: integer - BigInt(nearest), exponent: 0 }) };
  }
  const text = decimalText(value);
  let nearest = Number(text);
  if (Number.isNaN(nearest) || /inf/i.test(text)) return { nearest, remainder: undefined };
  if (!Number.isFinite(nearest)) nearest = nearest > 0 ? Number.MAX_VALUE : -Number.MAX_VALUE;
  return { nearest, remainder: toRemainder(subtract(parseDecimal(text), exactDecimal(nearest))) };
}

function parseDecimal(text: string): Decimal {
  const [mantissa = '0', power = '0'] = text.split(/e/i);
  const [whole = '', fraction = ''] = mantissa.split('.');
  return { coefficient: BigInt(whole + fraction), exponent: Number(power) - fraction.length };
}

/** Every finite double has an exact decimal expansion: 2^-q is 5^q × 10^-q. */
function exactDecimal(double: number): Decimal {
  const view = Buffer.allocUnsafe(8);
  view.writeDoubleBE(double);
  const bits = view.readBigUInt64BE();
  const biased = Number((bits >> 52n) & 0x7ffn);
  const mantissa = (bits & 0xfffffffffffffn) | (biased === 0 ? 0n : 1n << 52n);
  const power = (biased === 0 ? 1 : biased) - 1075;
  const signed = double < 0 ? -mantissa : mantissa;
  if (power >= 0) return { coefficient: signed << BigInt(power), exponent: 0 };
  return { coefficient: signed * 5n ** BigInt(-power), exponent: power };
}

function subtract(a: Decimal, b: Decimal): Decimal {
  const exponent = Math.min(a.exponent, b.exponent);
  const scaled = (d: Decimal): bigint => d.coefficient * 10n ** BigInt(d.exponent - exponent);
  return { coefficient: scaled(a) - scaled(b), exponent };
}

function toRemainder({ coefficient, exponent }: Decimal): Remainder | undefined {
  if (coefficient === 0n) return undefined;
  const negative = coefficient < 0n;
  const all = (negative ? -coefficient : coefficient).toString();
  return { negative, magnitude: all.length + exponent, digits: all.replace(/0+$/, '') };
}

export function int32Value(value: number): Value {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeInt32LE(value);
  return { type: BsonType.int32, bytes, at: 0 };
}

export function int64Value(value: bigint): Value {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigInt64LE(value);
  return { type: BsonType.int64, bytes, at: 0 };
}

export function doubleValue(value: number): Value {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeDoubleLE(value);
  return { type: BsonType.double, bytes, at: 0 };
}
