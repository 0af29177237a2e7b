import { StoreError, notSupported } from '../errors.js';
import { toDouble } from '../bson/numbers.js';
import { compareValues, equalValues, keyText } from '../bson/order.js';
import { truth } from '../bson/options.js';
import {
  BsonType,
  fieldsOf,
  isNumber,
  textOf,
  typeName,
  typeNamed,
  type Field,
  type Value,
} from '../bson/values.js';
import { toRegExp } from './regex.js';

type Test = (value: Value) => boolean;

/** The types of JSON Schema in BSON; `bsonType` takes BSON's own names and `number`. */
const jsonTypes: Readonly<Record<string, readonly number[]>> = {
  object: [BsonType.object],
  array: [BsonType.array],
  number: [BsonType.int32, BsonType.int64, BsonType.double, BsonType.decimal],
  boolean: [BsonType.boolean],
  string: [BsonType.string],
  null: [BsonType.null],
};

const isText: Test = ({ type }) => type === BsonType.string;
const isArray: Test = ({ type }) => type === BsonType.array;
const isObject: Test = ({ type }) => type === BsonType.object;

/** Keywords say something about one type only: other values pass. */
const onlyFor =
  (applies: Test, test: Test): Test =>
  (value) =>
    !applies(value) || test(value);

const listOf = (operand: Field): Field[] => {
  if (operand.type !== BsonType.array) throw wrong(operand, 'an array');
  return fieldsOf(operand);
};

const wrong = (operand: Field, wanted: string): StoreError =>
  new StoreError(
    14,
    `$jsonSchema keyword '${operand.name}' must be ${wanted}, but found ${typeName(operand.type)}`,
  );

function schemaIn(operand: Field): Test {
  if (operand.type !== BsonType.object) throw wrong(operand, 'an object');
  return compileSchema(operand);
}

function namesIn(operand: Field): string[] {
  return listOf(operand).map((name) => {
    if (name.type !== BsonType.string) throw wrong(operand, 'an array of strings');
    return textOf(name);
  });
}

function lengthIn(operand: Field): number {
  const length = isNumber(operand) ? toDouble(operand) : NaN;
  if (!Number.isInteger(length) || length < 0) throw wrong(operand, 'a non-negative whole number');
  return length;
}

function typeTest(operand: Field): Test {
  const names = operand.type === BsonType.array ? namesIn(operand) : isText(operand) ? [textOf(operand)] : [];
  if (names.length === 0) throw wrong(operand, 'a string or an array of strings');
  const types = new Set(
    names.flatMap((name): readonly number[] => {
      if (operand.name === 'type') {
        if (name === 'integer')
          throw new StoreError(9, "$jsonSchema type 'integer' is not currently supported.");
        return jsonTypes[name] ?? unknownType(name);
      }
      return name === 'number'
        ? (jsonTypes['number'] as readonly number[])
        : [typeNamed(name) ?? unknownType(name)];
    }),
  );
  return ({ type }) => types.has(type);
}

function unknownType(name: string): never {
  throw new StoreError(2, `Unknown type name alias: ${name}`);
}

const number = (operand: Field): Field => {
  if (!isNumber(operand)) throw wrong(operand, 'a number');
  return operand;
};

const sized = (least: boolean, size: (value: Value) => number, applies: Test) => (operand: Field) => {
  const limit = lengthIn(operand);
  return onlyFor(applies, (value) => (least ? size(value) >= limit : size(value) <= limit));
};

const count = (value: Value): number => fieldsOf(value).length;
const characters = (value: Value): number => [...textOf(value)].length;

function limit(direction: 1 | -1) {
  return (operand: Field, schema: ReadonlyMap<string, Field>): Test => {
    const bound = number(operand);
    const exclusive = schema.get(direction > 0 ? 'exclusiveMinimum' : 'exclusiveMaximum');
    const strict = exclusive !== undefined && truth(exclusive);
    return onlyFor(isNumber, (value) => {
      const order = compareValues(value, bound) * direction;
      return strict ? order > 0 : order >= 0;
    });
  };
}

function itemsTest(operand: Field, schema: ReadonlyMap<string, Field>): Test {
  if (operand.type === BsonType.object) {
    const test = schemaIn(operand);
    return onlyFor(isArray, (value) => fieldsOf(value).every(test));
  }
  const tests = listOf(operand).map(schemaIn);
  const more = schema.get('additionalItems');
  const beyond = more ? (more.type === BsonType.object ? schemaIn(more) : () => truth(more)) : () => true;
  return onlyFor(isArray, (value) => fieldsOf(value).every((item, i) => (tests[i] ?? beyond)(item)));
}

const mapOf = (operand: Field | undefined): [string, Test][] =>
  operand ? fieldsOf(operand).map((entry) => [entry.name, schemaIn(entry)]) : [];

function propertiesTest(schema: ReadonlyMap<string, Field>): Test {
  const named = new Map(mapOf(schema.get('properties')));
  const patterns = mapOf(schema.get('patternProperties')).map(([pattern, test]): [RegExp, Test] => [
    toRegExp(patternValue(pattern)),
    test,
  ]);
  const more = schema.get('additionalProperties');
  const others = more ? (more.type === BsonType.object ? schemaIn(more) : () => truth(more)) : () => true;
  return onlyFor(isObject, (value) =>
    fieldsOf(value).every((entry) => {
      const matching = patterns.filter(([pattern]) => pattern.test(entry.name));
      const own = named.get(entry.name);
      if (!own && matching.length === 0) return others(entry);
      return (own?.(entry) ?? true) && matching.every(([, test]) => test(entry));
    }),
  );
}

function patternValue(pattern: string): Value {
  const bytes = Buffer.alloc(Buffer.byteLength(pattern) + 5);
  bytes.writeInt32LE(Buffer.byteLength(pattern) + 1);
  bytes.write(pattern, 4);
  return { type: BsonType.string, bytes, at: 0 };
}

function dependencies(operand: Field): Test {
  const rules = fieldsOf(operand).map((entry): [string, Test] => {
    if (entry.type === BsonType.object) return [entry.name, schemaIn(entry)];
    const names = namesIn(entry);
    return [entry.name, (value) => hasAll(value, names)];
  });
  return onlyFor(isObject, (value) => rules.every(([name, test]) => !hasAll(value, [name]) || test(value)));
}

function hasAll(value: Value, names: readonly string[]): boolean {
  const present = new Set(fieldsOf(value).map(({ name }) => name));
  return names.every((name) => present.has(name));
}

function multipleOf(operand: Field): Test {
  const divisor = toDouble(number(operand));
  if (divisor <= 0) throw wrong(operand, 'a positive number');
  return onlyFor(isNumber, (value) => toDouble(value) % divisor === 0);
}

type Keyword = (operand: Field, schema: ReadonlyMap<string, Field>) => Test;

const always: Keyword = () => () => true;

/** Keywords of `$jsonSchema`: those of JSON Schema draft 4 that MongoDB has, and `bsonType`. */
export const schemaKeywords: Readonly<Record<string, Keyword>> = {
  bsonType: typeTest,
  type: typeTest,
  enum: (operand) => {
    const values = listOf(operand);
    return (value) => values.some((allowed) => equalValues(allowed, value));
  },
  required: (operand) => {
    const names = namesIn(operand);
    if (names.length === 0)
      throw new StoreError(9, "$jsonSchema keyword 'required' cannot be an empty array");
    return onlyFor(isObject, (value) => hasAll(value, names));
  },
  properties: (_operand, schema) => propertiesTest(schema),
  patternProperties: (_operand, schema) => propertiesTest(schema),
  additionalProperties: (_operand, schema) => propertiesTest(schema),
  minProperties: sized(true, count, isObject),
  maxProperties: sized(false, count, isObject),
  dependencies,
  minimum: limit(1),
  maximum: limit(-1),
  exclusiveMinimum: always,
  exclusiveMaximum: always,
  multipleOf,
  minLength: sized(true, characters, isText),
  maxLength: sized(false, characters, isText),
  pattern: (operand) => {
    if (!isText(operand)) throw wrong(operand, 'a string');
    const pattern = toRegExp(operand);
    return onlyFor(isText, (value) => pattern.test(textOf(value)));
  },
  items: itemsTest,
  additionalItems: always,
  minItems: sized(true, count, isArray),
  maxItems: sized(false, count, isArray),
  uniqueItems: (operand) => {
    if (!truth(operand)) return () => true;
    return onlyFor(isArray, (value) => new Set(fieldsOf(value).map(keyText)).size === count(value));
  },
  allOf: (operand) => {
    const tests = listOf(operand).map(schemaIn);
    return (value) => tests.every((test) => test(value));
  },
  anyOf: (operand) => {
    const tests = listOf(operand).map(schemaIn);
    return (value) => tests.some((test) => test(value));
  },
  oneOf: (operand) => {
    const tests = listOf(operand).map(schemaIn);
    return (value) => tests.filter((test) => test(value)).length === 1;
  },
  not: (operand) => {
    const test = schemaIn(operand);
    return (value) => !test(value);
  },
  title: always,
  description: always,
};

/** Compiles a schema; an unknown keyword is 9, one that MongoDB refuses as well. */
export function compileSchema(schema: Value): Test {
  if (schema.type !== BsonType.object) throw new StoreError(14, '$jsonSchema must be an object');
  const keywords = new Map(fieldsOf(schema).map((entry): [string, Field] => [entry.name, entry]));
  const tests = [...keywords].map(([name, operand]) => {
    const keyword = Object.hasOwn(schemaKeywords, name) ? schemaKeywords[name] : undefined;
    if (keyword) return keyword(operand, keywords);
    if (name === 'encrypt' || name === 'encryptMetadata') throw notSupported(`$jsonSchema keyword '${name}'`);
    throw new StoreError(9, `Unknown $jsonSchema keyword: ${name}`);
  });
  return (value) => tests.every((test) => test(value));
}
