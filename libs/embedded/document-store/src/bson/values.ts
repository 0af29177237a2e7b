/** Views over raw BSON (bsonspec.org 1.1). Documents are never turned into JavaScript values to be matched,
 *  ordered or indexed, so that every type survives unchanged. */
export const BsonType = {
  missing: 0,
  double: 1,
  string: 2,
  object: 3,
  array: 4,
  binary: 5,
  undefined: 6,
  objectId: 7,
  boolean: 8,
  date: 9,
  null: 10,
  regex: 11,
  pointer: 12,
  code: 13,
  symbol: 14,
  scopedCode: 15,
  int32: 16,
  timestamp: 17,
  int64: 18,
  decimal: 19,
  maxKey: 127,
  minKey: 255,
} as const;

/** One value where it lies: its type, the buffer and the offset of its first byte. */
export interface Value {
  readonly type: number;
  readonly bytes: Buffer;
  readonly at: number;
}

/** A value with the name it has in its document. */
export interface Field extends Value {
  readonly name: string;
}

export const missing: Value = { type: BsonType.missing, bytes: Buffer.alloc(0), at: 0 };

export const documentValue = (bytes: Buffer): Value => ({ type: BsonType.object, bytes, at: 0 });

const fixedSizes: Readonly<Record<number, number>> = {
  [BsonType.double]: 8,
  [BsonType.undefined]: 0,
  [BsonType.objectId]: 12,
  [BsonType.boolean]: 1,
  [BsonType.date]: 8,
  [BsonType.null]: 0,
  [BsonType.int32]: 4,
  [BsonType.timestamp]: 8,
  [BsonType.int64]: 8,
  [BsonType.decimal]: 16,
  [BsonType.maxKey]: 0,
  [BsonType.minKey]: 0,
};

/** Bytes a value takes; -1 for a type that does not exist. */
export function valueSize(bytes: Buffer, type: number, at: number): number {
  switch (type) {
    case BsonType.string:
    case BsonType.code:
    case BsonType.symbol:
      return 4 + bytes.readInt32LE(at);
    case BsonType.object:
    case BsonType.array:
    case BsonType.scopedCode:
      return bytes.readInt32LE(at);
    case BsonType.binary:
      return 5 + bytes.readInt32LE(at);
    case BsonType.pointer:
      return 16 + bytes.readInt32LE(at);
    case BsonType.regex:
      return bytes.indexOf(0, bytes.indexOf(0, at) + 1) + 1 - at;
    default:
      return fixedSizes[type] ?? -1;
  }
}

/** Visits the fields of the document at `at`; stops and answers true when `visit` does. */
export function someField(
  bytes: Buffer,
  at: number,
  visit: (type: number, nameAt: number, nameEnd: number, valueAt: number) => boolean,
): boolean {
  let position = at + 4;
  for (;;) {
    const type = bytes[position] as number;
    if (type === 0) return false;
    const nameAt = position + 1;
    let nameEnd = nameAt;
    while (bytes[nameEnd] !== 0) nameEnd++;
    if (visit(type, nameAt, nameEnd, nameEnd + 1)) return true;
    position = nameEnd + 1 + valueSize(bytes, type, nameEnd + 1);
  }
}

/** The field of that name in the document at `at`. */
export function fieldNamed(bytes: Buffer, at: number, name: Buffer): Value | undefined {
  const length = name.length;
  let position = at + 4;
  for (;;) {
    const type = bytes[position] as number;
    if (type === 0) return undefined;
    const nameAt = position + 1;
    let same = 0;
    while (same < length && bytes[nameAt + same] === name[same]) same++;
    let end = nameAt + same;
    if (same === length && bytes[end] === 0) return { type, bytes, at: end + 1 };
    while (bytes[end] !== 0) end++;
    position = end + 1 + valueSize(bytes, type, end + 1);
  }
}

/** All fields of a document or all elements of an array, in order. */
export function fieldsOf(document: Value): Field[] {
  const { bytes } = document;
  const fields: Field[] = [];
  someField(bytes, document.at, (type, nameAt, nameEnd, at) => {
    fields.push({ type, bytes, at, name: bytes.toString('utf8', nameAt, nameEnd) });
    return false;
  });
  return fields;
}

export function field(document: Value, name: string): Value | undefined {
  return fieldNamed(document.bytes, document.at, encodedName(name));
}

const encodedNames = new Map<string, Buffer>();

/** Names of options come again with every command: the first thousand names met stay encoded. */
function encodedName(name: string): Buffer {
  const known = encodedNames.get(name);
  if (known) return known;
  const bytes = Buffer.from(name);
  if (encodedNames.size < 1_000) encodedNames.set(name, bytes);
  return bytes;
}

/** The name of the first field of a document, '' when it has none: what tells a command or an operator. */
export function firstName(document: Value): string {
  const { bytes, at } = document;
  return bytes[at + 4] === 0 ? '' : bytes.toString('utf8', at + 5, bytes.indexOf(0, at + 5));
}

export function textOf(value: Value): string {
  return value.bytes.toString('utf8', value.at + 4, value.at + 3 + value.bytes.readInt32LE(value.at));
}

export const isNumber = (value: Value): boolean =>
  value.type === BsonType.int32 ||
  value.type === BsonType.double ||
  value.type === BsonType.int64 ||
  value.type === BsonType.decimal;

/** The bytes of a whole value, without type and name. */
export function valueBytes(value: Value): Buffer {
  return value.bytes.subarray(value.at, value.at + valueSize(value.bytes, value.type, value.at));
}

const typeNames: Readonly<Record<number, string>> = {
  1: 'double',
  2: 'string',
  3: 'object',
  4: 'array',
  5: 'binData',
  6: 'undefined',
  7: 'objectId',
  8: 'bool',
  9: 'date',
  10: 'null',
  11: 'regex',
  12: 'dbPointer',
  13: 'javascript',
  14: 'symbol',
  15: 'javascriptWithScope',
  16: 'int',
  17: 'timestamp',
  18: 'long',
  19: 'decimal',
  127: 'maxKey',
  255: 'minKey',
};

/** The name MongoDB gives a type in `$type` and in messages. */
export const typeName = (type: number): string => typeNames[type] ?? 'missing';

export const typeNamed = (name: string): number | undefined => {
  const entry = Object.entries(typeNames).find(([, known]) => known === name);
  return entry && Number(entry[0]);
};
