import { StoreError } from '../errors.js';
import { DocumentNode, nodeValue, toValue } from '../bson/encode.js';
import { int32Value, toInteger } from '../bson/numbers.js';
import { BsonType, isNumber, missing, textOf, typeName, type Value } from '../bson/values.js';
import { arrayOf, boolean, eager, isNullish, named, nullValue, type Operator } from './expressions.js';
import { compareAny, dateText } from './operators-values.js';
import { toRegExp } from './regex.js';

/** Strings are counted in code points, as MongoDB's `…CP` operators do. */
const points = (text: string): string[] => [...text];

export function textArgument(value: Value, name: string, code: number): string {
  if (value.type !== BsonType.string)
    throw new StoreError(code, `${name} requires a string argument, found: ${typeName(value.type)}`);
  return textOf(value);
}

/** What may stand where `$toUpper`, `$substrCP` and their like want a string; null is the empty one. */
function coerced(value: Value, name: string): string {
  if (isNullish(value)) return '';
  if (value.type === BsonType.string) return textOf(value);
  if (value.type === BsonType.int32 || value.type === BsonType.int64) return String(toInteger(value));
  if (value.type === BsonType.date) return dateText(Number(value.bytes.readBigInt64LE(value.at)));
  throw new StoreError(16007, `can't convert from BSON type ${typeName(value.type)} to String in ${name}`);
}

const onText = (act: (text: string) => Value): Operator =>
  eager(1, 1, ([value = missing], name) => act(coerced(value, name)));

const lower = (text: string): string => text.replace(/[A-Z]+/g, (part) => part.toLowerCase());
const upper = (text: string): string => text.replace(/[a-z]+/g, (part) => part.toUpperCase());

export function whole(value: Value, name: string): number {
  const number = isNumber(value) ? toInteger(value) : undefined;
  if (number === undefined)
    throw new StoreError(34450, `${name}: positions must be integers, found ${typeName(value.type)}`);
  return Number(number);
}

function substringOfPoints(
  [text = missing, start = missing, count = missing]: readonly Value[],
  name: string,
): Value {
  const [from, length] = [whole(start, name), whole(count, name)];
  if (from < 0) throw new StoreError(34455, `${name}: the starting index must be non-negative`);
  if (length < 0) throw new StoreError(34454, `${name}: length must be a nonnegative integer`);
  return toValue(
    points(coerced(text, name))
      .slice(from, from + length)
      .join(''),
  );
}

function substringOfBytes(
  [text = missing, start = missing, count = missing]: readonly Value[],
  name: string,
): Value {
  const bytes = Buffer.from(coerced(text, name));
  const [from, length] = [whole(start, name), whole(count, name)];
  if (from < 0) throw new StoreError(50752, `${name}: starting index must be non-negative (got: ${from})`);
  const end = length < 0 ? bytes.length : Math.min(from + length, bytes.length);
  const inside = (at: number): boolean => at < bytes.length && ((bytes[at] as number) & 0xc0) === 0x80;
  if (inside(from))
    throw new StoreError(28656, `${name}:  Invalid range, starting index is a UTF-8 continuation byte.`);
  if (inside(end))
    throw new StoreError(
      28657,
      `${name}:  Invalid range, ending index is in the middle of a UTF-8 character.`,
    );
  return toValue(bytes.toString('utf8', from, end));
}

function concat(args: readonly Value[]): Value {
  if (args.some(isNullish)) return nullValue;
  return toValue(
    args
      .map((value) => {
        if (value.type !== BsonType.string)
          throw new StoreError(16702, `$concat only supports strings, not ${typeName(value.type)}`);
        return textOf(value);
      })
      .join(''),
  );
}

function split([text = missing, by = missing]: readonly Value[]): Value {
  if (isNullish(text) || isNullish(by)) return nullValue;
  const [whole, separator] = [textArgument(text, '$split', 40085), textArgument(by, '$split', 40086)];
  if (separator === '') throw new StoreError(40087, '$split requires a non-empty separator');
  return arrayOf(whole.split(separator).map((part) => toValue(part)));
}

const indexOf = (unit: (text: string) => number): Operator =>
  eager(2, 4, ([text = missing, wanted = missing, start, end], name) => {
    if (isNullish(text)) return nullValue;
    const all = textArgument(text, name, 40093);
    const [from, to] = [start ? whole(start, name) : 0, end ? whole(end, name) : Infinity];
    if (from < 0 || to < 0) throw new StoreError(40097, `${name} requires nonnegative indexes`);
    const sought = textArgument(wanted, name, 40094);
    for (let at = all.indexOf(sought); at >= 0; at = all.indexOf(sought, at + 1)) {
      const position = unit(all.slice(0, at));
      if (position + unit(sought) > to) return int32Value(-1);
      if (position >= from) return int32Value(position);
    }
    return int32Value(-1);
  });

const blanks = '\0 \t\n\v\f\r\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a';

const trim = (left: boolean, right: boolean): Operator =>
  named(['input'], ['chars'], ({ input = missing, chars }, name) => {
    if (isNullish(input) || (chars && isNullish(chars))) return nullValue;
    const all = points(textArgument(input, name, 50699));
    const gone = new Set(points(chars ? textArgument(chars, name, 50700) : blanks));
    let [from, to] = [0, all.length];
    while (left && from < to && gone.has(all[from] as string)) from++;
    while (right && to > from && gone.has(all[to - 1] as string)) to--;
    return toValue(all.slice(from, to).join(''));
  });

const replace = (everywhere: boolean): Operator =>
  named(
    ['input', 'find', 'replacement'],
    [],
    ({ input = missing, find = missing, replacement = missing }, name) => {
      const texts = [input, find, replacement].map((value, i) =>
        isNullish(value) ? undefined : textArgument(value, name, 51746 - i),
      );
      const [text, sought, by] = texts;
      if (text === undefined || sought === undefined || by === undefined) return nullValue;
      return toValue(everywhere ? text.replaceAll(sought, () => by) : text.replace(sought, () => by));
    },
  );

const matching = (shape: (found: RegExpExecArray | null, text: string) => Value): Operator =>
  named(['input', 'regex'], ['options'], ({ input = missing, regex = missing, options }, name) => {
    if (isNullish(input) || isNullish(regex)) return shape(null, '');
    const text = textArgument(input, name, 51104);
    return shape(toRegExp(regex, options && !isNullish(options) ? options : undefined).exec(text), text);
  });

function foundIn(found: RegExpExecArray | null, text: string): Value {
  if (!found) return nullValue;
  const captures = found
    .slice(1)
    .map((capture: string | undefined) => (capture === undefined ? nullValue : toValue(capture)));
  return nodeValue(
    new DocumentNode([
      ['match', toValue(found[0])],
      ['idx', int32Value(points(text.slice(0, found.index)).length)],
      ['captures', arrayOf(captures)],
    ]),
  );
}

export const textOperators: Readonly<Record<string, Operator>> = {
  $concat: eager(0, Infinity, concat),
  $toLower: onText((text) => toValue(lower(text))),
  $toUpper: onText((text) => toValue(upper(text))),
  $strcasecmp: eager(2, 2, ([a = missing, b = missing], name) =>
    int32Value(compareAny(toValue(upper(coerced(a, name))), toValue(upper(coerced(b, name))))),
  ),
  $strLenCP: eager(1, 1, ([text = missing], name) =>
    int32Value(points(textArgument(text, name, 34471)).length),
  ),
  $strLenBytes: eager(1, 1, ([text = missing], name) =>
    int32Value(Buffer.byteLength(textArgument(text, name, 34473))),
  ),
  $substr: eager(3, 3, substringOfBytes),
  $substrBytes: eager(3, 3, substringOfBytes),
  $substrCP: eager(3, 3, substringOfPoints),
  $indexOfCP: indexOf((text) => points(text).length),
  $indexOfBytes: indexOf((text) => Buffer.byteLength(text)),
  $split: eager(2, 2, split),
  $trim: trim(true, true),
  $ltrim: trim(true, false),
  $rtrim: trim(false, true),
  $replaceOne: replace(false),
  $replaceAll: replace(true),
  $regexMatch: matching((found) => boolean(found !== null)),
  $regexFind: matching(foundIn),
};
