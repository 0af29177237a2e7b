import { notSupported } from '../errors.js';
import * as options from '../bson/options.js';
import { fieldsOf, type Value } from '../bson/values.js';

/** Strings are compared by their bytes, which is the collation `simple`; any other is refused, never ignored. */
export function checkCollation(command: Value): void {
  const collation = options.document(command, 'collation');
  if (!collation || fieldsOf(collation).length === 0) return;
  const locale = options.text(collation, 'locale');
  if (locale !== 'simple') throw notSupported(`the collation '${locale ?? ''}'`);
}
