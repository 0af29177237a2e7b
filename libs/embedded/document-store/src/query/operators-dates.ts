import { Context } from 'mingo';
import * as library from 'mingo/operators/expression/date';
import type { Options } from 'mingo/types';
import { StoreError, notSupported } from '../errors.js';
import { toValue } from '../bson/encode.js';
import { int32Value, int64Value } from '../bson/numbers.js';
import { BsonType, fieldsOf, missing, typeName, type Value } from '../bson/values.js';
import { isNullish, named, namedOf, nullValue, type Operator } from './expressions.js';
import { textArgument, whole } from './operators-texts.js';

const options: Options = {
  idKey: '_id',
  useStrictMode: true,
  failOnError: true,
  scriptEnabled: false,
  context: Context.init(),
} as Options;

type LibraryFunction = (document: Record<string, unknown>, operand: unknown, options: Options) => unknown;

/** Asks mingo, with arguments of types it computes rightly; they go in by name, so that no text reads as a path. */
function ask(act: LibraryFunction, given: Readonly<Record<string, unknown>>): unknown {
  const operand = Object.fromEntries(Object.keys(given).map((name) => [name, `$${name}`]));
  return act(given, operand, options);
}

function dateArgument(value: Value, name: string): Date {
  const { type, bytes, at } = value;
  if (type === BsonType.date) return new Date(Number(bytes.readBigInt64LE(at)));
  if (type === BsonType.objectId) return new Date(bytes.readUInt32BE(at) * 1000);
  if (type === BsonType.timestamp) return new Date(bytes.readUInt32LE(at + 4) * 1000);
  throw new StoreError(16006, `can't convert from BSON type ${typeName(type)} to Date in ${name}`);
}

/** Only UTC: other time zones are refused, since their rules are not the store's to know. */
function checkZone(zone: Value | undefined, name: string): void {
  if (!zone || isNullish(zone)) return;
  const text = textArgument(zone, name, 40517);
  if (!['UTC', 'GMT', 'Z', '+00', '+0000', '+00:00', 'Etc/UTC'].includes(text))
    throw notSupported(`the time zone '${text}' in ${name}`);
}

const datePart =
  (part: (date: Date) => number, long = false): Operator =>
  (operand, compile) => {
    const withZone = operand.type === BsonType.object && !fieldsOf(operand)[0]?.name.startsWith('$');
    const given = withZone ? namedOf(operand, ['date'], ['timezone']) : undefined;
    const date = compile(given ? (given.get('date') as Value) : operand);
    const zoneOperand = given?.get('timezone');
    const zone = zoneOperand && compile(zoneOperand);
    return (scope) => {
      const value = date(scope);
      if (isNullish(value)) return nullValue;
      checkZone(zone?.(scope), operand.name);
      const number = part(dateArgument(value, operand.name));
      return long ? int64Value(BigInt(number)) : int32Value(number);
    };
  };

const dayOfYear = (date: Date): number =>
  Math.floor(
    (Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()) -
      Date.UTC(date.getUTCFullYear(), 0, 1)) /
      86_400_000,
  ) + 1;

/** The Thursday of the ISO week: its year is the week's year. */
const thursday = (date: Date): Date => new Date(date.getTime() + (4 - (date.getUTCDay() || 7)) * 86_400_000);

const byLibrary =
  (act: LibraryFunction) =>
  (date: Date): number =>
    Number(ask(act, { date }));

const units = ['year', 'quarter', 'month', 'week', 'day', 'hour', 'minute', 'second', 'millisecond'];

function unitArgument(value: Value, name: string): string {
  const unit = textArgument(value, name, 5439013);
  if (!units.includes(unit)) throw new StoreError(9, `unknown time unit value: ${unit}`);
  return unit;
}

const weekDays = /^(mon(day)?|tue(sday)?|wed(nesday)?|thu(rsday)?|fri(day)?|sat(urday)?|sun(day)?)$/i;

function weekStart(value: Value | undefined, name: string): string {
  const text = value && !isNullish(value) ? textArgument(value, name, 5439015) : 'sunday';
  if (!weekDays.test(text)) throw new StoreError(9, `unknown day of week value: ${text}`);
  return text;
}

const dateTrunc = named(['date', 'unit'], ['binSize', 'timezone', 'startOfWeek'], (given, name) => {
  const { date = missing, unit = missing, binSize, timezone, startOfWeek } = given;
  if (isNullish(date) || isNullish(unit) || (binSize && isNullish(binSize))) return nullValue;
  checkZone(timezone, name);
  const size = binSize ? whole(binSize, name) : 1;
  if (size < 1)
    throw new StoreError(
      5439018,
      `$dateTrunc requires 'binSize' to be greater than 0, but got value ${size}`,
    );
  const asked = {
    date: dateArgument(date, name),
    unit: unitArgument(unit, name),
    binSize: size,
    startOfWeek: weekStart(startOfWeek, name),
  };
  return toValue(ask(library.$dateTrunc, asked) as Date);
});

const dateDiff = named(['startDate', 'endDate', 'unit'], ['timezone', 'startOfWeek'], (given, name) => {
  const { startDate = missing, endDate = missing, unit = missing, timezone, startOfWeek } = given;
  if ([startDate, endDate, unit].some(isNullish)) return nullValue;
  checkZone(timezone, name);
  const [from, to, by] = [
    dateArgument(startDate, name),
    dateArgument(endDate, name),
    unitArgument(unit, name),
  ];
  if (by === 'second')
    return int64Value(BigInt(Math.floor(to.getTime() / 1000) - Math.floor(from.getTime() / 1000)));
  const asked = {
    startDate: from,
    endDate: to,
    unit: by,
    startOfWeek: weekStart(startOfWeek, name).toLowerCase(),
  };
  return int64Value(BigInt(ask(library.$dateDiff, asked) as number));
});

const steps: Readonly<Record<string, number>> = {
  week: 604_800_000,
  day: 86_400_000,
  hour: 3_600_000,
  minute: 60_000,
  second: 1000,
  millisecond: 1,
};
const months: Readonly<Record<string, number>> = { year: 12, quarter: 3, month: 1 };

/** A month that is too short takes its last day. */
function added(date: Date, unit: string, amount: number): Date {
  const step = steps[unit];
  if (step !== undefined) return new Date(date.getTime() + step * amount);
  const next = new Date(date);
  next.setUTCDate(1);
  next.setUTCMonth(next.getUTCMonth() + (months[unit] as number) * amount);
  const last = new Date(Date.UTC(next.getUTCFullYear(), next.getUTCMonth() + 1, 0)).getUTCDate();
  next.setUTCDate(Math.min(date.getUTCDate(), last));
  return next;
}

const dateAdd = (sign: 1 | -1): Operator =>
  named(
    ['startDate', 'unit', 'amount'],
    ['timezone'],
    ({ startDate = missing, unit = missing, amount = missing, timezone }, name) => {
      if ([startDate, unit, amount].some(isNullish)) return nullValue;
      checkZone(timezone, name);
      return toValue(
        added(dateArgument(startDate, name), unitArgument(unit, name), sign * whole(amount, name)),
      );
    },
  );

const pad = (number: number, digits: number): string => String(number).padStart(digits, '0');

const specifiers: Readonly<Record<string, (date: Date) => string>> = {
  d: (date) => pad(date.getUTCDate(), 2),
  G: (date) => pad(thursday(date).getUTCFullYear(), 4),
  H: (date) => pad(date.getUTCHours(), 2),
  j: (date) => pad(dayOfYear(date), 3),
  L: (date) => pad(date.getUTCMilliseconds(), 3),
  m: (date) => pad(date.getUTCMonth() + 1, 2),
  M: (date) => pad(date.getUTCMinutes(), 2),
  S: (date) => pad(date.getUTCSeconds(), 2),
  u: (date) => String(date.getUTCDay() || 7),
  V: (date) => pad(byLibrary(library.$isoWeek)(date), 2),
  w: (date) => String(date.getUTCDay() + 1),
  Y: (date) => pad(date.getUTCFullYear(), 4),
  z: () => '+0000',
  Z: () => '+000',
  '%': () => '%',
};

const dateToString = named(
  ['date'],
  ['format', 'timezone', 'onNull'],
  ({ date = missing, format, timezone, onNull }, name) => {
    if (isNullish(date)) return onNull ?? nullValue;
    if (format && isNullish(format)) return nullValue;
    checkZone(timezone, name);
    const pattern = format ? textArgument(format, name, 18533) : '%Y-%m-%dT%H:%M:%S.%LZ';
    const moment = dateArgument(date, name);
    return toValue(
      pattern.replace(/%(.?)/gs, (_whole, letter: string) => {
        const write = specifiers[letter];
        if (!write) throw notSupported(`the format specifier '%${letter}' in ${name}`);
        return write(moment);
      }),
    );
  },
);

export const dateOperators: Readonly<Record<string, Operator>> = {
  $year: datePart((date) => date.getUTCFullYear()),
  $month: datePart((date) => date.getUTCMonth() + 1),
  $dayOfMonth: datePart((date) => date.getUTCDate()),
  $dayOfYear: datePart(dayOfYear),
  $dayOfWeek: datePart((date) => date.getUTCDay() + 1),
  $hour: datePart((date) => date.getUTCHours()),
  $minute: datePart((date) => date.getUTCMinutes()),
  $second: datePart((date) => date.getUTCSeconds()),
  $millisecond: datePart((date) => date.getUTCMilliseconds()),
  $isoDayOfWeek: datePart((date) => date.getUTCDay() || 7),
  $isoWeek: datePart(byLibrary(library.$isoWeek)),
  $isoWeekYear: datePart((date) => thursday(date).getUTCFullYear(), true),
  $week: datePart((date) => Math.floor((dayOfYear(date) + 6 - date.getUTCDay()) / 7)),
  $dateTrunc: dateTrunc,
  $dateDiff: dateDiff,
  $dateAdd: dateAdd(1),
  $dateSubtract: dateAdd(-1),
  $dateToString: dateToString,
};
