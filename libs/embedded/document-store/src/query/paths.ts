import { BsonType, fieldNamed, missing, someField, type Value } from '../bson/values.js';

/** A dotted path, parsed once. */
export interface Path {
  readonly text: string;
  readonly parts: readonly Buffer[];
  /** The array position a part may mean, or -1. */
  readonly positions: readonly number[];
}

export function parsePath(text: string): Path {
  const parts = text.split('.');
  return {
    text,
    parts: parts.map((part) => Buffer.from(part)),
    positions: parts.map((part) => (/^(0|[1-9]\d{0,8})$/.test(part) ? Number(part) : -1)),
  };
}

/** Receives a candidate value; true stops the visit. */
export type Visit = (value: Value, isElement: boolean) => boolean;

/**
 * Visits what a query on `path` looks at: the value itself, and for arrays on the way or at the end each element
 * (and then the array as a whole). A path that ends nowhere gives `missing`; scalars inside an array on the way
 * give nothing.
 */
export function somePathValue(document: Value, path: Path, visit: Visit, from = 0): boolean {
  const found = fieldNamed(document.bytes, document.at, path.parts[from] as Buffer);
  return found ? someBelow(found, path, visit, from + 1) : visit(missing, false);
}

function someBelow(value: Value, path: Path, visit: Visit, from: number): boolean {
  const { bytes } = value;
  if (from === path.parts.length) {
    if (value.type !== BsonType.array) return visit(value, false);
    const inElements = someField(bytes, value.at, (type, _nameAt, _nameEnd, at) =>
      visit({ type, bytes, at }, true),
    );
    return inElements || visit(value, false);
  }
  if (value.type === BsonType.object) return somePathValue(value, path, visit, from);
  if (value.type !== BsonType.array) return visit(missing, false);
  let index = 0;
  const position = path.positions[from];
  return someField(bytes, value.at, (type, _nameAt, _nameEnd, at) => {
    const element = { type, bytes, at };
    if (index++ === position && someBelow(element, path, visit, from + 1)) return true;
    return type === BsonType.object && somePathValue(element, path, visit, from);
  });
}

/** True when any element of the array satisfies `test`. */
export function someElement(array: Value, test: (element: Value) => boolean): boolean {
  const { bytes } = array;
  return someField(bytes, array.at, (type, _nameAt, _nameEnd, at) => test({ type, bytes, at }));
}
