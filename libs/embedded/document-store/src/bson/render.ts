import { EJSON, deserialize } from 'bson';
import { BsonType, type Value } from './values.js';
import { toValue, Raw } from './encode.js';

/** A value as messages show it. */
export function render(value: Value): string {
  if (value.type <= BsonType.missing) return value.type === BsonType.missing ? 'null' : 'undefined';
  const { bytes } = toValue([new Raw(value)]);
  const { v } = deserialize(bytes, { promoteValues: false }) as { v: unknown[] };
  return EJSON.stringify(v[0], { relaxed: true });
}
