import { Decimal128 } from 'bson';
import { BsonType, type Value } from './values.js';
import { decimalText, toDouble, toInteger } from './numbers.js';

/** Digits a Decimal128 holds. */
const precision = 34;
const leastExponent = -6176;
const greatestExponent = 6111;

/** A finite number as coefficient × 10^exponent, or what no such number can be. */
type Decimal = { readonly coefficient: bigint; readonly exponent: number } | 'NaN' | 'Infinity' | '-Infinity';

/** A number of any type as Decimal128 arithmetic takes it; doubles are rounded to 15 digits, as MongoDB does. */
export function toDecimal(value: Value): Decimal {
  if (value.type !== BsonType.decimal && value.type !== BsonType.double)
    return { coefficient: toInteger(value) ?? 0n, exponent: 0 };
  if (value.type === BsonType.decimal) return parse(decimalText(value));
  const double = toDouble(value);
  if (!Number.isFinite(double)) return String(double) as Decimal;
  return double === 0 ? { coefficient: 0n, exponent: 0 } : parse(double.toPrecision(15));
}

export function parse(text: string): Decimal {
  if (/nan/i.test(text)) return 'NaN';
  if (/inf/i.test(text)) return text.startsWith('-') ? '-Infinity' : 'Infinity';
  const [mantissa = '0', power = '0'] = text.split(/e/i);
  const [whole = '', fraction = ''] = mantissa.split('.');
  return { coefficient: BigInt(whole + fraction), exponent: Number(power) - fraction.length };
}

export function decimalValue(decimal: Decimal): Value {
  const text = typeof decimal === 'string' ? decimal : textFor(rounded(decimal));
  const bytes = Buffer.from(Decimal128.fromString(text).bytes);
  return { type: BsonType.decimal, bytes, at: 0 };
}

const textFor = ({ coefficient, exponent }: Exclude<Decimal, string>): string => `${coefficient}E${exponent}`;

/** To 34 digits, half to even. */
function rounded(decimal: Exclude<Decimal, string>): Exclude<Decimal, string> {
  const { coefficient, exponent } = decimal;
  const digits = (coefficient < 0n ? -coefficient : coefficient).toString().length;
  const drop = Math.max(digits - precision, leastExponent - exponent);
  if (drop <= 0) {
    if (exponent <= greatestExponent || coefficient === 0n) return decimal;
    return {
      coefficient: coefficient * 10n ** BigInt(exponent - greatestExponent),
      exponent: greatestExponent,
    };
  }
  const next = { coefficient: divided(coefficient, 10n ** BigInt(drop)), exponent: exponent + drop };
  return next.coefficient.toString().replace('-', '').length > precision ? rounded(next) : next;
}

/** Integer division, half to even. */
export function divided(dividend: bigint, divisor: bigint): bigint {
  const quotient = dividend / divisor;
  const rest = 2n * (dividend - quotient * divisor);
  const [size, half] = [rest < 0n ? -rest : rest, divisor < 0n ? -divisor : divisor];
  const up = size > half || (size === half && quotient % 2n !== 0n);
  return up ? quotient + (dividend < 0n === divisor < 0n ? 1n : -1n) : quotient;
}

export function addDecimals(a: Decimal, b: Decimal): Decimal {
  if (typeof a === 'string' || typeof b === 'string') {
    if (a === 'NaN' || b === 'NaN') return 'NaN';
    if (typeof a === 'string') return typeof b === 'string' && a !== b ? 'NaN' : a;
    return b;
  }
  const exponent = Math.min(a.exponent, b.exponent);
  const scaled = (d: typeof a): bigint => d.coefficient * 10n ** BigInt(d.exponent - exponent);
  return { coefficient: scaled(a) + scaled(b), exponent };
}

const signOf = (d: Decimal): number =>
  typeof d === 'string' ? (d === '-Infinity' ? -1 : 1) : d.coefficient < 0n ? -1 : d.coefficient > 0n ? 1 : 0;

export function multiplyDecimals(a: Decimal, b: Decimal): Decimal {
  if (typeof a !== 'string' && typeof b !== 'string')
    return { coefficient: a.coefficient * b.coefficient, exponent: a.exponent + b.exponent };
  const sign = signOf(a) * signOf(b);
  if (a === 'NaN' || b === 'NaN' || sign === 0) return 'NaN';
  return sign > 0 ? 'Infinity' : '-Infinity';
}

/** `b` is not zero. */
export function divideDecimals(a: Decimal, b: Decimal): Decimal {
  if (a === 'NaN' || b === 'NaN' || (typeof a === 'string' && typeof b === 'string')) return 'NaN';
  if (typeof a === 'string') return signOf(a) * signOf(b) > 0 ? 'Infinity' : '-Infinity';
  if (typeof b === 'string') return { coefficient: 0n, exponent: 0 };
  const shift = precision + 4 + b.coefficient.toString().length;
  const exact = a.coefficient * 10n ** BigInt(shift);
  let coefficient = exact / b.coefficient;
  let exponent = a.exponent - b.exponent - shift;
  if (coefficient * b.coefficient !== exact)
    return { coefficient: coefficient * 10n + (coefficient < 0n ? -1n : 1n), exponent: exponent - 1 };
  for (; exponent < a.exponent - b.exponent && coefficient % 10n === 0n; exponent++) coefficient /= 10n;
  return { coefficient, exponent };
}
