import { StoreError } from '../errors.js';
import type { PlainDocument } from '../bson/encode.js';
import type { Engine, Reply, Request } from '../engine.js';
import { find } from '../query/find.js';
import { keysKept, recordKey, type Index } from '../storage/catalogue.js';
import type { View } from '../storage/layers.js';
import type { Work } from '../work.js';
import type { Command } from './dispatch.js';
import { emptyDocument, namespaceOf } from './writes.js';

const everyKey = { from: Buffer.alloc(0), to: Buffer.alloc(8, 0xff) };

/** Compares every index with the documents: each key there, and no other. */
async function validate(engine: Engine, request: Request): Promise<Reply> {
  const namespace = namespaceOf(request);
  const collection = engine.collection(request, namespace);
  if (!collection) throw new StoreError(26, `Collection '${namespace}' does not exist to validate.`);
  return engine.read(request, function* (view): Work<PlainDocument> {
    const errors: string[] = [];
    const expected = new Map<Index, number>(collection.indexes.map((index) => [index, 0]));
    let nrecords = 0;
    for (const document of find(view, collection, emptyDocument)) {
      if (!document) {
        yield undefined;
        continue;
      }
      nrecords++;
      for (const index of collection.indexes) {
        const keys = keysKept(index, document.bytes, { mask: 0 });
        expected.set(index, (expected.get(index) ?? 0) + keys.length);
        for (const { key } of keys)
          if (!holds(view, index, key, document.record))
            errors.push(`${index.name}: a key of record ${document.record} is missing`);
      }
    }
    const keysPerIndex: Record<string, number> = {};
    for (const [index, wanted] of expected) {
      const found = yield* countKeys(view, index);
      keysPerIndex[index.name] = found;
      if (found !== wanted) errors.push(`${index.name}: ${found} keys, ${wanted} expected`);
    }
    return {
      ns: namespace,
      nrecords,
      nIndexes: collection.indexes.length,
      keysPerIndex,
      valid: errors.length === 0,
      errors: errors.slice(0, 100),
      ok: 1,
    };
  });
}

function holds(view: View, index: Index, key: Buffer, record: number): boolean {
  const id = recordKey(record);
  if (index.unique) return view.get(index.table, key)?.equals(id) === true;
  return view.get(index.table, Buffer.concat([key, id])) !== undefined;
}

function* countKeys(view: View, index: Index): Work<number> {
  let count = 0;
  let after: Buffer | undefined;
  do {
    const piece = view.read(index.table, { ...everyKey, ...(after ? { after } : {}) }, 1000);
    count += piece.entries.length;
    after = piece.next;
    yield undefined;
  } while (after);
  return count;
}

export const validateCommands: Readonly<Record<string, Command>> = {
  validate: { fields: 'full', needs: 'admin', run: validate },
};
