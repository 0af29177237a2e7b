import { find } from '../query/find.js';
import { documentValue } from '../bson/values.js';
import { isDue, type Work } from '../work.js';
import { keysKept, recordKey, type Collection, type Index } from './catalogue.js';
import type { View } from './layers.js';

const everyDocument = documentValue(Buffer.from([5, 0, 0, 0, 0]));
const everyKey = { from: Buffer.alloc(0), to: Buffer.alloc(8, 0xff) };
const maximumErrors = 100;

export interface Validated {
  readonly records: number;
  readonly keysPerIndex: Readonly<Record<string, number>>;
  /** The first hundred. */
  readonly errors: string[];
}

/** Compares every index of a collection with its documents: each key there, in order, and no other. */
export function* validated(view: View, collection: Collection): Work<Validated> {
  const errors: string[] = [];
  const wrong = (error: string): void => void (errors.length < maximumErrors && errors.push(error));
  const expected = new Map<Index, number>(collection.indexes.map((index) => [index, 0]));
  let records = 0;
  for (const document of find(view, collection, everyDocument)) {
    if (!document || isDue()) yield undefined;
    if (!document) continue;
    records++;
    for (const index of collection.indexes) {
      const keys = keysKept(index, document.bytes, { mask: 0 });
      expected.set(index, (expected.get(index) ?? 0) + keys.length);
      for (const { key } of keys)
        if (!holds(view, index, key, document.record))
          wrong(`${index.name}: a key of record ${document.record} is missing`);
    }
  }
  const keysPerIndex: Record<string, number> = {};
  for (const [index, wanted] of expected) {
    const { count, misplaced } = yield* countKeys(view, index);
    keysPerIndex[index.name] = count;
    if (count !== wanted) wrong(`${index.name}: ${count} keys, ${wanted} expected`);
    if (misplaced > 0) wrong(`${index.name}: ${misplaced} keys are out of order`);
  }
  return { records, keysPerIndex, errors };
}

function holds(view: View, index: Index, key: Buffer, record: number): boolean {
  const id = recordKey(record);
  if (index.unique) return view.get(index.table, key)?.equals(id) === true;
  return view.get(index.table, Buffer.concat([key, id])) !== undefined;
}

function* countKeys(view: View, index: Index): Work<{ count: number; misplaced: number }> {
  let count = 0;
  let misplaced = 0;
  let last: Buffer = Buffer.alloc(0);
  let after: Buffer | undefined;
  do {
    const piece = view.read(index.table, { ...everyKey, ...(after ? { after } : {}) }, 256);
    for (const { key } of piece.entries) {
      if (last.compare(key) >= 0) misplaced++;
      last = key;
    }
    count += piece.entries.length;
    after = piece.next;
    yield undefined;
  } while (after);
  return { count, misplaced };
}
