import { encodePlain, Raw } from '../bson/encode.js';
import { documentValue } from '../bson/values.js';
import { find } from '../query/find.js';
import type { Work } from '../work.js';
import type { Collection, Index } from './catalogue.js';
import type { StoredDocument, Unit } from './unit.js';

/** Documents removed by one unit of work at most, so that expiry keeps no writer waiting for long. */
export const expiryBatch = 500;

/**
 * Removes documents that the TTL index holds with a date before `before`: of an array its earliest date counts, a value
 * that is no date never expires. Answers how many; `expiryBatch` means that there may be more.
 */
export function* removeOlder(unit: Unit, collection: Collection, index: Index, before: Date): Work<number> {
  const path = index.fields[0]?.path.text ?? '';
  const old = { [path]: { $lt: before } };
  const { partial } = index;
  const filter = encodePlain(partial ? { $and: [old, new Raw(partial.filter)] } : old);
  const found: StoredDocument[] = [];
  for (const document of find(unit, collection, documentValue(filter), { limit: expiryBatch })) {
    if (document) found.push(document);
    else yield undefined;
  }
  for (const document of found) unit.remove(collection, document);
  return found.length;
}
