import { BsonType, typeName, valueSize } from './values.js';
import { StoreError } from '../errors.js';

/** Nesting accepted in a message or a document, as MongoDB has it. */
const maximumDepth = 180;

/** The bytes are not BSON: nothing after them in the connection can be trusted. */
export class MalformedBson extends Error {}

const refusedTypes: ReadonlySet<number> = new Set([
  BsonType.undefined,
  BsonType.pointer,
  BsonType.code,
  BsonType.symbol,
  BsonType.scopedCode,
]);

/**
 * Checks that `bytes[at, limit)` begins with one well-formed document and answers where it ends.
 * Throws `MalformedBson` for broken bytes; answers the first refused type (deprecated, or server-side
 * JavaScript) through `refused`, so that the command can be answered instead of the connection closed.
 */
export function checkDocument(
  bytes: Buffer,
  at: number,
  limit: number,
  refused: Set<number>,
  depth = 0,
): number {
  if (depth > maximumDepth) throw new MalformedBson(`nested deeper than ${maximumDepth}`);
  if (at + 5 > limit) throw new MalformedBson('document cut short');
  const end = at + bytes.readInt32LE(at);
  if (end < at + 5 || end > limit || bytes[end - 1] !== 0) throw new MalformedBson('document length');
  let position = at + 4;
  while (position < end - 1) {
    const type = bytes[position] as number;
    const nameEnd = bytes.indexOf(0, position + 1);
    if (nameEnd < 0 || nameEnd >= end - 1) throw new MalformedBson('field name not terminated');
    if (refusedTypes.has(type)) refused.add(type);
    position = checkValue(bytes, type, nameEnd + 1, end - 1, refused, depth);
  }
  if (position !== end - 1) throw new MalformedBson('value outside its document');
  return end;
}

function checkValue(
  bytes: Buffer,
  type: number,
  at: number,
  limit: number,
  refused: Set<number>,
  depth: number,
): number {
  if (type === BsonType.object || type === BsonType.array)
    return checkDocument(bytes, at, limit, refused, depth + 1);
  const prefixed = type === BsonType.string || type === BsonType.code || type === BsonType.symbol;
  const lengthBytes = prefixed || type === BsonType.scopedCode || type === BsonType.pointer ? 4 : 0;
  if (at + (type === BsonType.binary ? 5 : lengthBytes) > limit) throw new MalformedBson('value cut short');
  const size = valueSize(bytes, type, at);
  if (size < lengthBytes || at + size > limit || (type === BsonType.binary && size < 5))
    throw new MalformedBson(`value of type ${type}`);
  if (prefixed && (size < 5 || bytes[at + size - 1] !== 0)) throw new MalformedBson('string not terminated');
  if (type === BsonType.boolean && (bytes[at] as number) > 1) throw new MalformedBson('boolean');
  return at + size;
}

/** Refuses a command that carries a type this store does not keep. */
export function refuseTypes(refused: ReadonlySet<number>): void {
  for (const type of refused)
    throw new StoreError(2, `values of BSON type ${typeName(type)} are not supported`);
}
