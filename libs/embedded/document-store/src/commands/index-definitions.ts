import { StoreError, notSupported } from '../errors.js';
import * as options from '../bson/options.js';
import { toDouble } from '../bson/numbers.js';
import { BsonType, fieldsOf, isNumber, textOf, valueBytes, type Value } from '../bson/values.js';
import { hasOperators } from '../query/match.js';
import { sameKey } from '../query/planner.js';
import {
  indexFields,
  partialOf,
  type Collection,
  type IndexDefinition,
  type Partial,
} from '../storage/catalogue.js';

const indexOptions =
  'key name unique sparse partialFilterExpression expireAfterSeconds v background ns'.split(' ');

/** Checks an index as asked for. What MongoDB has and this store does not is refused by name. */
export function definitionOf(asked: Value): IndexDefinition {
  const key = options.document(asked, 'key');
  const name = options.text(asked, 'name');
  if (!key || !name) throw new StoreError(9, 'an index needs a key and a name');
  for (const { name: option } of fieldsOf(asked))
    if (!indexOptions.includes(option)) throw notSupported(`index option '${option}'`);
  const fields = fieldsOf(key);
  if (fields.length === 0 || fields.length > 31) throw new StoreError(67, 'an index has 1 to 31 fields');
  for (const field of fields) {
    if (field.type === BsonType.string) throw notSupported(`a ${textOf(field)} index`);
    if (field.name.split('.').some((part) => part.startsWith('$')))
      throw field.name.endsWith('$**')
        ? notSupported('a wildcard index')
        : new StoreError(67, `invalid field name '${field.name}'`);
    if (field.name.split('.').includes(''))
      throw new StoreError(67, `Index keys cannot contain an empty field: '${field.name}'`);
    if (field.name.split('.').some((part) => /^\d+$/.test(part)))
      throw notSupported(`an index on an array position ('${field.name}')`);
    if (!isNumber(field) || !(Math.abs(toDouble(field)) > 0))
      throw new StoreError(67, 'Values in the index key pattern must be nonzero numbers');
  }
  const sparse = options.flag(asked, 'sparse') === true;
  const partial = partialFilterOf(asked);
  if (sparse && partial)
    throw new StoreError(67, 'cannot mix "partialFilterExpression" and "sparse" options');
  const expireAfterSeconds = expiryIn(asked);
  if (expireAfterSeconds !== undefined && (fields.length > 1 || fields[0]?.name === '_id'))
    throw new StoreError(
      67,
      'TTL indexes are single-field indexes, compound indexes do not support TTL, nor does _id',
    );
  const unique = options.flag(asked, 'unique') === true;
  return { name, key, fields: indexFields(key), unique, sparse, partial, expireAfterSeconds };
}

const partialOperators = ['$eq', '$in', '$exists', '$gt', '$gte', '$lt', '$lte', '$type', '$and', '$or'];

/** The filter of a partial index, of the operators MongoDB allows there. */
function partialFilterOf(asked: Value): Partial | undefined {
  const filter = options.document(asked, 'partialFilterExpression');
  if (!filter) return undefined;
  const check = (condition: Value): void => {
    for (const entry of fieldsOf(condition)) {
      const { name } = entry;
      if (name.startsWith('$') && !partialOperators.includes(name))
        throw new StoreError(67, `unsupported expression in partial index: ${name}`);
      if (name === '$exists' && !options.truth(entry))
        throw new StoreError(67, 'unsupported expression in partial index: $exists: false');
      if (name === '$and' || name === '$or') fieldsOf(entry).forEach(check);
      else if (!name.startsWith('$') && hasOperators(entry)) check(entry);
    }
  };
  check(filter);
  return partialOf(filter);
}

/** Longest time to live, in seconds: what an Int32 holds. */
const maximumExpiry = 2 ** 31 - 1;

/** The time to live that is asked for, in seconds. */
export function expiryIn(asked: Value): number | undefined {
  const seconds = options.whole(asked, 'expireAfterSeconds');
  if (seconds !== undefined && seconds > maximumExpiry)
    throw new StoreError(67, `TTL index 'expireAfterSeconds' option must be within 0 and ${maximumExpiry}`);
  return seconds;
}

/** True when the index is there already; 85 or 86 when another stands in its way. */
export function exists(collection: Collection, asked: IndexDefinition): boolean {
  const named = collection.indexes.find(({ name }) => name === asked.name);
  const keyed = collection.indexes.find(({ key }) => sameKey(key, asked.key));
  if (keyed?.name === '_id_' && keyed.fields.length === 1) return true;
  if (named && !sameKey(named.key, asked.key))
    throw new StoreError(86, `An existing index has the same name as the requested index: ${asked.name}`);
  if (!keyed) return false;
  const bytes = ({ partial }: IndexDefinition): string =>
    partial ? valueBytes(partial.filter).toString('hex') : '';
  const same =
    keyed.unique === asked.unique &&
    keyed.sparse === asked.sparse &&
    keyed.expireAfterSeconds === asked.expireAfterSeconds &&
    bytes(keyed) === bytes(asked);
  if (keyed.name !== asked.name)
    throw new StoreError(85, `Index already exists with a different name: ${keyed.name}`);
  if (!same)
    throw new StoreError(
      85,
      `An equivalent index already exists with the same name but different options: ${asked.name}`,
    );
  return true;
}
