import { StoreError } from '../errors.js';
import type { PlainDocument } from '../bson/encode.js';
import type { Engine, Reply, Request } from '../engine.js';
import { validated } from '../storage/validation.js';
import type { Work } from '../work.js';
import type { Command } from './dispatch.js';
import { namespaceOf } from './writes.js';

/** Compares every index with the documents: each key there, and no other. */
async function validate(engine: Engine, request: Request): Promise<Reply> {
  const namespace = namespaceOf(request);
  const collection = engine.collection(request, namespace);
  if (!collection) throw new StoreError(26, `Collection '${namespace}' does not exist to validate.`);
  return engine.read(request, function* (view): Work<PlainDocument> {
    const { records, keysPerIndex, errors } = yield* validated(view, collection);
    return {
      ns: namespace,
      nrecords: records,
      nIndexes: collection.indexes.length,
      keysPerIndex,
      valid: errors.length === 0,
      errors,
      ok: 1,
    };
  });
}

export const validateCommands: Readonly<Record<string, Command>> = {
  validate: { fields: 'full', needs: 'admin', run: validate },
};
