import { StoreError, notSupported } from '../errors.js';
import { toValue } from '../bson/encode.js';
import {
  addDecimals,
  decimalValue,
  divideDecimals,
  divided,
  multiplyDecimals,
  toDecimal,
} from '../bson/decimals.js';
import { doubleValue, int32Value, int64Value, toDouble, toInteger } from '../bson/numbers.js';
import { compareValues } from '../bson/order.js';
import { BsonType, isNumber, missing, typeName, type Value } from '../bson/values.js';
import { eager, isNullish, nullValue, type Operator } from './expressions.js';

const { int32, int64, double, decimal, date } = BsonType;

const notNumeric = (name: string, value: Value, also = ''): StoreError =>
  new StoreError(14, `${name} only supports numeric${also} types, not ${typeName(value.type)}`);

/** An integer result: Int32 when all inputs were and it fits, Int64 when it fits, else Double. */
export function wholeResult(whole: bigint, small: boolean): Value {
  if (small && BigInt.asIntN(32, whole) === whole) return int32Value(Number(whole));
  return BigInt.asIntN(64, whole) === whole ? int64Value(whole) : doubleValue(Number(whole));
}

const isWhole = ({ type }: Value): boolean => type === int32 || type === int64;

const integerOf = (value: Value): bigint => toInteger(value) ?? 0n;

const millisecondsOf = (value: Value): bigint => value.bytes.readBigInt64LE(value.at);

/** One of two numbers, by the widest of their types. */
function arithmetic(
  a: Value,
  b: Value,
  whole: (x: bigint, y: bigint) => bigint,
  real: (x: number, y: number) => number,
  exact: (x: ReturnType<typeof toDecimal>, y: ReturnType<typeof toDecimal>) => ReturnType<typeof toDecimal>,
): Value {
  if (a.type === decimal || b.type === decimal) return decimalValue(exact(toDecimal(a), toDecimal(b)));
  if (isWhole(a) && isWhole(b))
    return wholeResult(whole(integerOf(a), integerOf(b)), a.type === int32 && b.type === int32);
  return doubleValue(real(toDouble(a), toDouble(b)));
}

export const plus = (a: Value, b: Value): Value =>
  arithmetic(
    a,
    b,
    (x, y) => x + y,
    (x, y) => x + y,
    addDecimals,
  );

const times = (a: Value, b: Value): Value =>
  arithmetic(
    a,
    b,
    (x, y) => x * y,
    (x, y) => x * y,
    multiplyDecimals,
  );

const minusOne = int32Value(-1);

function dateOf(milliseconds: bigint): Value {
  return { ...int64Value(milliseconds), type: date };
}

function shifted(moment: Value, by: Value): Value {
  const amount = isWhole(by) ? integerOf(by) : BigInt(Math.round(toDouble(by)));
  return dateOf(millisecondsOf(moment) + amount);
}

function add(args: readonly Value[], name: string): Value {
  if (args.some(isNullish)) return nullValue;
  let moment: Value | undefined;
  let total: Value = int32Value(0);
  for (const value of args) {
    if (value.type === date) {
      if (moment) throw new StoreError(16612, 'only one date allowed in an $add expression');
      moment = value;
    } else if (!isNumber(value)) throw notNumeric(name, value, ' or date');
    else total = plus(total, value);
  }
  return moment ? shifted(moment, total) : total;
}

function subtract([a = missing, b = missing]: readonly Value[]): Value {
  if (isNullish(a) || isNullish(b)) return nullValue;
  if (a.type === date && b.type === date) return int64Value(millisecondsOf(a) - millisecondsOf(b));
  if (!isNumber(b) || (a.type !== date && !isNumber(a)))
    throw new StoreError(14, `can't $subtract ${typeName(b.type)} from ${typeName(a.type)}`);
  const negative = times(b, minusOne);
  return a.type === date ? shifted(a, negative) : plus(a, negative);
}

function multiply(args: readonly Value[], name: string): Value {
  if (args.some(isNullish)) return nullValue;
  return args.reduce<Value>((product, value) => {
    if (!isNumber(value)) throw notNumeric(name, value);
    return times(product, value);
  }, int32Value(1));
}

const isZero = (value: Value): boolean => toDouble(value) === 0 && compareValues(value, int32Value(0)) === 0;

function divide([a = missing, b = missing]: readonly Value[]): Value {
  if (isNullish(a) || isNullish(b)) return nullValue;
  if (!isNumber(a) || !isNumber(b))
    throw new StoreError(
      14,
      `$divide only supports numeric types, not ${typeName(a.type)} and ${typeName(b.type)}`,
    );
  if (isZero(b)) throw new StoreError(2, "can't $divide by zero");
  if (a.type === decimal || b.type === decimal)
    return decimalValue(divideDecimals(toDecimal(a), toDecimal(b)));
  return doubleValue(toDouble(a) / toDouble(b));
}

function modulo([a = missing, b = missing]: readonly Value[]): Value {
  if (isNullish(a) || isNullish(b)) return nullValue;
  if (!isNumber(a) || !isNumber(b))
    throw new StoreError(
      16611,
      `$mod only supports numeric types, not ${typeName(a.type)} and ${typeName(b.type)}`,
    );
  if (isZero(b)) throw new StoreError(16610, "can't $mod by zero");
  if (a.type === decimal || b.type === decimal) throw notSupported('$mod of Decimal128');
  if (isWhole(a) && isWhole(b))
    return wholeResult(integerOf(a) % integerOf(b), a.type === int32 && b.type === int32);
  return doubleValue(toDouble(a) % toDouble(b));
}

function absolute([value = missing]: readonly Value[], name: string): Value {
  if (isNullish(value)) return nullValue;
  if (!isNumber(value)) throw notNumeric(name, value);
  if (value.type === double) return doubleValue(Math.abs(toDouble(value)));
  return compareValues(value, int32Value(0)) < 0 ? times(value, minusOne) : value;
}

type Rounding = (dividend: bigint, divisor: bigint) => bigint;

const floored: Rounding = (n, d) => n / d - (n % d !== 0n && n < 0n ? 1n : 0n);
const ceiled: Rounding = (n, d) => n / d + (n % d !== 0n && n > 0n ? 1n : 0n);
const cut: Rounding = (n, d) => n / d;

/** To `places` decimals (negative: tens), by the exact decimal expansion MongoDB rounds by. */
function roundTo(value: Value, places: number, rounding: Rounding, real: (x: number) => number): Value {
  if (value.type === double && places === 0) return doubleValue(real(toDouble(value)));
  if (value.type === double) {
    const exact = toDouble(value);
    if (!Number.isFinite(exact)) return value;
    return doubleValue(toDouble(roundTo(decimalValue(toDecimal(value)), places, rounding, real)));
  }
  const number = toDecimal(value);
  if (typeof number === 'string' || -number.exponent <= places) return value;
  const divisor = 10n ** BigInt(-number.exponent - places);
  const coefficient = rounding(number.coefficient, divisor);
  if (value.type === decimal) return decimalValue({ coefficient, exponent: -places });
  return wholeResult(coefficient * 10n ** BigInt(-places), value.type === int32);
}

const halfEven = (x: number): number => {
  const low = Math.floor(x);
  const rest = x - low;
  if (rest !== 0.5) return rest < 0.5 ? low : low + 1;
  return low % 2 === 0 ? low : low + 1;
};

const rounding = (way: Rounding, real: (x: number) => number, most: number): Operator =>
  eager(1, most, ([value = missing, wanted], name) => {
    if (isNullish(value) || (wanted && isNullish(wanted))) return nullValue;
    if (!isNumber(value)) throw notNumeric(name, value);
    const places = wanted ? toInteger(wanted) : 0n;
    if (places === undefined || places < -20n || places > 100n)
      throw new StoreError(51083, `cannot apply ${name} with precision value: not in [-20, 100]`);
    return roundTo(value, Number(places), way, real);
  });

const function1 = (
  act: (x: number) => number,
  allowed: (x: number) => boolean,
  code: number,
  why: string,
): Operator =>
  eager(1, 1, ([value = missing], name) => {
    if (isNullish(value)) return nullValue;
    if (!isNumber(value)) throw notNumeric(name, value);
    if (value.type === decimal) throw notSupported(`${name} of Decimal128`);
    const number = toDouble(value);
    if (!Number.isNaN(number) && !allowed(number))
      throw new StoreError(code, `${name}'s argument must be ${why}, but is ${number}`);
    return doubleValue(act(number));
  });

function power([base = missing, exponent = missing]: readonly Value[]): Value {
  if (isNullish(base) || isNullish(exponent)) return nullValue;
  if (!isNumber(base)) throw new StoreError(28762, `$pow's base must be numeric, not ${typeName(base.type)}`);
  if (!isNumber(exponent))
    throw new StoreError(28763, `$pow's exponent must be numeric, not ${typeName(exponent.type)}`);
  if (base.type === decimal || exponent.type === decimal) throw notSupported('$pow of Decimal128');
  if (isZero(base) && toDouble(exponent) < 0)
    throw new StoreError(28764, '$pow cannot take a base of 0 and a negative exponent');
  const small = base.type === int32 && exponent.type === int32;
  if (isWhole(base) && isWhole(exponent) && integerOf(exponent) >= 0n && integerOf(exponent) < 64n)
    return wholeResult(integerOf(base) ** integerOf(exponent), small);
  return doubleValue(toDouble(base) ** toDouble(exponent));
}

function logarithm([value = missing, base = missing]: readonly Value[]): Value {
  if (isNullish(value) || isNullish(base)) return nullValue;
  if (!isNumber(value))
    throw new StoreError(28756, `$log's argument must be numeric, not ${typeName(value.type)}`);
  if (!isNumber(base)) throw new StoreError(28757, `$log's base must be numeric, not ${typeName(base.type)}`);
  if (toDouble(value) <= 0) throw new StoreError(28758, `$log's argument must be a positive number`);
  if (toDouble(base) <= 0 || toDouble(base) === 1)
    throw new StoreError(28759, `$log's base must be a positive number not equal to 1`);
  return doubleValue(Math.log(toDouble(value)) / Math.log(toDouble(base)));
}

const angle = (act: (x: number) => number, allowed: (x: number) => boolean = () => true): Operator =>
  function1(act, allowed, 50989, 'within its bounds');

const inUnit = (x: number): boolean => Math.abs(x) <= 1;
const positive = (x: number): boolean => x > 0;

export const numberOperators: Readonly<Record<string, Operator>> = {
  $add: eager(0, Infinity, add),
  $subtract: eager(2, 2, subtract),
  $multiply: eager(0, Infinity, multiply),
  $divide: eager(2, 2, divide),
  $mod: eager(2, 2, modulo),
  $abs: eager(1, 1, absolute),
  $ceil: rounding(ceiled, Math.ceil, 1),
  $floor: rounding(floored, Math.floor, 1),
  $round: rounding(divided, halfEven, 2),
  $trunc: rounding(cut, Math.trunc, 2),
  $sqrt: function1(Math.sqrt, (x) => x >= 0, 28714, 'greater than or equal to 0'),
  $exp: function1(Math.exp, () => true, 0, ''),
  $ln: function1(Math.log, positive, 28766, 'a positive number'),
  $log10: function1(Math.log10, positive, 28761, 'a positive number'),
  $log: eager(2, 2, logarithm),
  $pow: eager(2, 2, power),
  $sin: angle(Math.sin, Number.isFinite),
  $cos: angle(Math.cos, Number.isFinite),
  $tan: angle(Math.tan, Number.isFinite),
  $asin: angle(Math.asin, inUnit),
  $acos: angle(Math.acos, inUnit),
  $atan: angle(Math.atan),
  $sinh: angle(Math.sinh),
  $cosh: angle(Math.cosh),
  $tanh: angle(Math.tanh),
  $asinh: angle(Math.asinh),
  $acosh: angle(Math.acosh, (x) => x >= 1),
  $atanh: angle(Math.atanh, inUnit),
  $degreesToRadians: angle((x) => (x * Math.PI) / 180),
  $radiansToDegrees: angle((x) => (x * 180) / Math.PI),
  $rand: eager(0, 1, () => toValue(Math.random())),
};
