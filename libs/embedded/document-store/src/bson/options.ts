import { StoreError } from '../errors.js';
import { toDouble, toInteger } from './numbers.js';
import { BsonType, field, isNumber, textOf, typeName, type Value } from './values.js';

/** Typed access to the fields of a command. Each names the field when its value is of the wrong type. */

function wrong(name: string, value: Value, wanted: string): StoreError {
  return new StoreError(
    14,
    `BSON field '${name}' is the wrong type '${typeName(value.type)}', expected type '${wanted}'`,
  );
}

export const present = (command: Value, name: string): Value | undefined => {
  const value = field(command, name);
  return value && value.type !== BsonType.null ? value : undefined;
};

export function text(command: Value, name: string): string | undefined {
  const value = present(command, name);
  if (value && value.type !== BsonType.string) throw wrong(name, value, 'string');
  return value && textOf(value);
}

export function document(command: Value, name: string): Value | undefined {
  const value = present(command, name);
  if (value && value.type !== BsonType.object) throw wrong(name, value, 'object');
  return value;
}

export function array(command: Value, name: string): Value | undefined {
  const value = present(command, name);
  if (value && value.type !== BsonType.array) throw wrong(name, value, 'array');
  return value;
}

/** Booleans, and numbers as MongoDB takes them: 0 is false. */
export function flag(command: Value, name: string): boolean | undefined {
  const value = present(command, name);
  if (!value) return undefined;
  if (!isNumber(value) && value.type !== BsonType.boolean) throw wrong(name, value, 'bool');
  return truth(value);
}

export const truth = (value: Value): boolean =>
  value.type === BsonType.boolean
    ? value.bytes[value.at] === 1
    : isNumber(value)
      ? toDouble(value) !== 0
      : value.type !== BsonType.null;

/** A whole number not below `least`. */
export function whole(command: Value, name: string, least = 0): number | undefined {
  const value = present(command, name);
  if (!value) return undefined;
  if (!isNumber(value)) throw wrong(name, value, 'long');
  const number = toInteger(value);
  if (number === undefined || number < BigInt(least) || number > BigInt(Number.MAX_SAFE_INTEGER))
    throw new StoreError(2, `BSON field '${name}' value must be a whole number >= ${least}`);
  return Number(number);
}

export function long(command: Value, name: string): bigint | undefined {
  const value = present(command, name);
  if (!value) return undefined;
  const number = toInteger(value);
  if (number === undefined) throw wrong(name, value, 'long');
  return number;
}
