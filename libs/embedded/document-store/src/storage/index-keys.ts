import { createHash } from 'node:crypto';
import { StoreError } from '../errors.js';
import { KeyWriter, emptyArrayRank } from '../bson/order.js';
import { BsonType, fieldNamed, fieldsOf, missing, type Value } from '../bson/values.js';
import type { Path } from '../query/paths.js';

export interface IndexField {
  readonly path: Path;
  readonly descending: boolean;
}

/** One key of a document in an index, with the values it stands for. */
export interface IndexKey {
  readonly key: Buffer;
  readonly values: readonly Value[];
}

/** Longest key kept whole: what LMDB takes, less the record id. */
export const maximumKey = 1900;

/** Bytes of a longer key that are kept; a digest of the whole follows. */
const keptOfKey = maximumKey - 32;

/** The bit beside those of the fields that notes a key cut short: equal keys are still told, their order is not. */
export const cut = 1 << 31;

/** What an index learns from the keys it is given: a bit per field that met an array, and `cut`. */
export interface Traits {
  mask: number;
}

/** A place reached on the way along one indexed path: `rest` parts are still to go. */
interface Place {
  readonly value: Value;
  readonly from: number;
}

/** Stands for the value an empty array has in an index. */
const emptyArray: Value = { ...missing, type: -1 };

/**
 * The keys of a document: one, or one per element when indexed paths meet an array. All array-valued paths must go
 * through the same array (171 otherwise), whose elements then pair up. An index may not be trusted with two bounds on the
 * same element of an array, nor with the order of keys cut short: `traits` collects what was met. Without a limit
 * (`whole`) keys are for sorting.
 */
export function indexKeys(
  fields: readonly IndexField[],
  document: Buffer,
  traits: Traits = { mask: 0 },
  whole = false,
): IndexKey[] {
  const values = plainValues(fields, document);
  if (values) return [{ key: encodeKey(fields, values, traits, whole), values }];
  const root: Value = { type: BsonType.object, bytes: document, at: 0 };
  const found: IndexKey[] = [];
  const seen = new Set<string>();
  expand(
    fields,
    fields.map(() => ({ value: root, from: 0 })),
    traits,
    (values) => {
      const key = encodeKey(fields, values, traits, whole);
      const text = key.toString('latin1');
      if (!seen.has(text)) found.push({ key, values });
      seen.add(text);
    },
  );
  return found;
}

/** The values of a document whose indexed paths meet no array, as nearly all do. */
function plainValues(fields: readonly IndexField[], document: Buffer): Value[] | undefined {
  const values: Value[] = [];
  for (const { path } of fields) {
    let value: Value = { type: BsonType.object, bytes: document, at: 0 };
    for (const part of path.parts) {
      value = value.type === BsonType.object ? (fieldNamed(document, value.at, part) ?? missing) : missing;
      if (value.type === BsonType.array) return undefined;
      if (value.type === BsonType.missing) break;
    }
    values.push(value);
  }
  return values;
}

function expand(
  fields: readonly IndexField[],
  places: readonly Place[],
  arrays: Traits,
  emit: (values: Value[]) => void,
): void {
  const reached = places.map((place, i) => advance(place, (fields[i] as IndexField).path));
  const first = reached.find(({ value, from }) => value.type === BsonType.array && from >= 0);
  if (!first) return emit(reached.map(({ value }) => value));
  const shares = reached.map(
    ({ value, from }) => value.type === BsonType.array && from >= 0 && value.at === first.value.at,
  );
  if (reached.some(({ value, from }, i) => value.type === BsonType.array && from >= 0 && !shares[i]))
    throw new StoreError(171, 'cannot index parallel arrays');
  shares.forEach((share, i) => (arrays.mask |= share ? 1 << i : 0));
  const elements = fieldsOf(first.value);
  const within = (element: Value | undefined): Place[] =>
    reached.map((place, i) => (shares[i] ? enter(place, element, fields[i] as IndexField) : place));
  if (elements.length === 0) expand(fields, within(undefined), arrays, emit);
  for (const element of elements) expand(fields, within(element), arrays, emit);
}

/** Inside an array: what the element gives to the rest of the path. `from` -1 marks a value that is final. */
function enter(place: Place, element: Value | undefined, { path }: IndexField): Place {
  const atEnd = place.from === path.parts.length;
  if (!element) return { value: atEnd ? emptyArray : missing, from: -1 };
  if (atEnd) return { value: element, from: -1 };
  return element.type === BsonType.object
    ? { value: element, from: place.from }
    : { value: missing, from: -1 };
}

/** Follows a path through documents up to its end, a dead end, or an array. */
function advance(place: Place, path: Path): Place {
  let { value, from } = place;
  while (from >= 0 && from < path.parts.length && value.type === BsonType.object) {
    value = fieldNamed(value.bytes, value.at, path.parts[from] as Buffer) ?? missing;
    from++;
    if (value.type === BsonType.missing) from = -1;
  }
  if (from >= 0 && from < path.parts.length && value.type !== BsonType.array)
    return { value: missing, from: -1 };
  return { value, from: value.type === BsonType.array ? from : -1 };
}

const writer = new KeyWriter();

function encodeKey(
  fields: readonly IndexField[],
  values: readonly Value[],
  traits: Traits,
  whole: boolean,
): Buffer {
  writer.length = 0;
  values.forEach((value, i) => {
    const start = writer.length;
    if (value.type === emptyArray.type) writer.byte(emptyArrayRank);
    else writer.value(value);
    if (fields[i]?.descending) writer.invert(start);
  });
  const key = Buffer.from(writer.bytes.subarray(0, writer.length));
  if (whole || key.length <= maximumKey) return key;
  traits.mask |= cut;
  return shortened(key);
}

/** A key as it is kept: one that is too long by its beginning and the digest of all of it. */
export const shortened = (key: Buffer): Buffer =>
  key.length <= maximumKey
    ? key
    : Buffer.concat([key.subarray(0, keptOfKey), createHash('sha256').update(key).digest()]);

/** A bound as far as kept keys can be compared with it; what lies beyond is for the filter to tell. */
export const shortBound = (key: Buffer): Buffer =>
  key.length <= keptOfKey ? key : key.subarray(0, keptOfKey);

/** True when the document has none of the indexed fields: a sparse index leaves it out. */
export const hasNone = (keys: readonly IndexKey[]): boolean =>
  keys.every(({ values }) => values.every(({ type }) => type === BsonType.missing));
