import { StoreError, notSupported } from '../errors.js';
import { toDouble } from '../bson/numbers.js';
import { BsonType, fieldsOf, isNumber, type Value } from '../bson/values.js';
import { indexKeys, type IndexField } from '../storage/index-keys.js';
import { parsePath } from './paths.js';

/** Sort fields, checked: 1 or -1, at most 32. */
export function sortFields(sort: Value | undefined): IndexField[] {
  return (sort ? fieldsOf(sort) : []).map((field) => {
    const direction = isNumber(field) ? toDouble(field) : NaN;
    if (field.type === BsonType.object) throw notSupported('$meta in a sort');
    if (Math.abs(direction) !== 1)
      throw new StoreError(2, '$sort key ordering must be 1 (for ascending) or -1 (for descending)');
    return { path: parsePath(field.name), descending: direction < 0 };
  });
}

/** Where a document stands in a sort: its smallest key, as MongoDB compares arrays. */
export function sortKey(fields: readonly IndexField[], bytes: Buffer): Buffer {
  const keys = indexKeys(fields, bytes, { mask: 0 }, true).map(({ key }) => key);
  return keys.reduce((a, b) => (a.compare(b) <= 0 ? a : b));
}
