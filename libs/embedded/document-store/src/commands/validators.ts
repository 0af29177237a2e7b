import { StoreError } from '../errors.js';
import { Raw } from '../bson/encode.js';
import * as options from '../bson/options.js';
import { documentValue, field, type Value } from '../bson/values.js';
import { compileFilter, type Predicate } from '../query/match.js';
import { noOptions, type Collection } from '../storage/catalogue.js';

interface Validator {
  readonly accepts: Predicate;
  /** Documents that were invalid before may stay so. */
  readonly moderate: boolean;
}

/** Compiled once for each set of options a collection had. */
const compiled = new WeakMap<Value, Validator | 'none'>();

/** Compiles `validator`, `validationLevel` and `validationAction`, and refuses what they cannot be. */
export function validatorOf(given: Value): Validator | undefined {
  const known = compiled.get(given);
  if (known) return known === 'none' ? undefined : known;
  const filter = options.document(given, 'validator');
  const level = options.text(given, 'validationLevel') ?? 'strict';
  const action = options.text(given, 'validationAction') ?? 'error';
  if (!['off', 'strict', 'moderate'].includes(level))
    throw new StoreError(2, `Enumeration value '${level}' for field 'validationLevel' is not a valid value.`);
  if (!['error', 'warn'].includes(action))
    throw new StoreError(
      2,
      `Enumeration value '${action}' for field 'validationAction' is not a valid value.`,
    );
  const accepts = filter && compileFilter(filter);
  const validator =
    accepts && level !== 'off' && action === 'error'
      ? { accepts, moderate: level === 'moderate' }
      : undefined;
  compiled.set(given, validator ?? 'none');
  return validator;
}

/** Throws 121 for a document the collection's validator refuses; `before` is what an update replaces. */
export function checkValid(collection: Collection, after: Buffer, before?: Buffer): void {
  if (collection.options === noOptions) return;
  const validator = validatorOf(collection.options);
  if (!validator || validator.accepts(documentValue(after))) return;
  if (validator.moderate && before && !validator.accepts(documentValue(before))) return;
  const id = field(documentValue(after), '_id');
  const details = {
    operatorName: field(options.document(collection.options, 'validator') as Value, '$jsonSchema')
      ? '$jsonSchema'
      : 'filter',
  };
  throw new StoreError(121, 'Document failed validation', {
    errInfo: { failingDocumentId: id ? new Raw(id) : null, details },
  });
}
