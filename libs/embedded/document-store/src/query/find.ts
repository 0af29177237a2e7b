import { StoreError } from '../errors.js';
import { documentValue, type Value } from '../bson/values.js';
import type { Collection, Index } from '../storage/catalogue.js';
import type { IndexField } from '../storage/index-keys.js';
import type { View } from '../storage/layers.js';
import { recordKey } from '../storage/catalogue.js';
import type { StoredDocument } from '../storage/unit.js';
import { isDue, type Work } from '../work.js';
import { plan, type Plan } from './planner.js';
import { sortFields, sortKey } from './sort-keys.js';

/** Yielded between results when other clients may be given a turn. */
export const breath = undefined;
export type Found = Generator<StoredDocument | typeof breath, void, void>;

export interface FindOptions {
  readonly sort?: Value;
  readonly hint?: Value;
  readonly skip?: number;
  readonly limit?: number;
}

/** Bytes of documents a sort without an index may hold. */
const maximumSort = 100 * 1024 * 1024;

/** Documents of the filter, in the order asked for. */
export function find(view: View, collection: Collection, filter: Value, options: FindOptions = {}): Found {
  return findBy(view, plan(collection, filter, options.sort, options.hint), options);
}

/** Documents of a plan made before. */
export function findBy(view: View, chosen: Plan, options: FindOptions): Found {
  const skip = options.skip ?? 0;
  const last = options.limit ? skip + options.limit : Infinity;
  const ordered = chosen.sorted
    ? scan(view, chosen)
    : sorted(scan(view, chosen), sortFields(options.sort), last);
  return slice(ordered, skip, last);
}

export function* slice(found: Found, skip: number, last: number): Found {
  if (last <= 0) return;
  let count = 0;
  for (const document of found) {
    if (document && count++ < skip) continue;
    yield document;
    if (document && count >= last) return;
  }
}

/** Matching documents in the order of the plan; a document with several keys in an index comes once. */
export function* scan(view: View, chosen: Plan): Found {
  const { collection, index, points, ranges, reverse, test } = chosen;
  if (index && points) return yield* lookUp(view, chosen, index, reverse ? [...points].reverse() : points);
  const seen = index && index.multikey !== 0 ? new Set<number>() : undefined;
  for (const range of reverse ? [...ranges].reverse() : ranges) {
    let after: Buffer | undefined;
    let size = 16;
    do {
      const piece = view.read(index?.table ?? collection.records, { ...range, reverse, after }, size);
      for (const { key, value } of piece.entries) {
        const holder = index?.unique ? value : key;
        const record = holder.readUIntBE(holder.length - 6, 6);
        if (seen?.has(record)) continue;
        seen?.add(record);
        const bytes = index ? view.get(collection.records, recordKey(record)) : value;
        if (bytes && test(documentValue(bytes))) yield { record, bytes };
        else if (isDue()) yield breath;
      }
      after = piece.next;
      size = Math.min(size * 4, 256);
      yield breath;
    } while (after);
  }
}

function* lookUp(view: View, { collection, test }: Plan, index: Index, points: readonly Buffer[]): Found {
  const seen = new Set<number>();
  for (const point of points) {
    const record = view.get(index.table, point)?.readUIntBE(0, 6);
    const bytes =
      record === undefined || seen.has(record) ? undefined : view.get(collection.records, recordKey(record));
    if (record !== undefined && bytes && test(documentValue(bytes))) yield { record, bytes };
    seen.add(record ?? 0);
    yield breath;
  }
}

interface Keyed {
  readonly key: Buffer;
  readonly document: StoredDocument;
}

/** Sorts in memory, keeping only the first `last` documents; equal ones stay in the order they came. */
export function* sorted(found: Found, fields: readonly IndexField[], last: number): Found {
  let kept: Keyed[] = [];
  let bytes = 0;
  const cut = function* (): Work<void> {
    kept = yield* inOrder(kept, (a, b) => a.key.compare(b.key));
    if (kept.length > last) kept = kept.slice(0, last);
    bytes = kept.reduce((sum, { document }) => sum + document.bytes.length, 0);
  };
  for (const document of found) {
    if (!document || isDue()) yield breath;
    if (!document) continue;
    kept.push({ key: sortKey(fields, document.bytes), document });
    bytes += document.bytes.length;
    if (kept.length > 2 * last + 1000) yield* cut();
    if (bytes > maximumSort) yield* cut();
    if (bytes > maximumSort)
      throw new StoreError(
        292,
        `Sort exceeded memory limit of ${maximumSort} bytes, add an index or a limit`,
      );
  }
  yield* cut();
  for (const { document } of kept) {
    yield document;
    if (isDue()) yield breath;
  }
}

const runLength = 1_024;

/** Merge sort that gives others a turn; equal items stay in the order they came. */
function* inOrder<T>(items: readonly T[], compare: (a: T, b: T) => number): Work<T[]> {
  let runs: T[][] = [];
  for (let at = 0; at < items.length; at += runLength) {
    runs.push(items.slice(at, at + runLength).sort(compare));
    if (isDue()) yield breath;
  }
  for (; runs.length > 1;) {
    const merged: T[][] = [];
    for (let i = 0; i < runs.length; i += 2)
      merged.push(yield* mergedRuns(runs[i] as T[], runs[i + 1] ?? [], compare));
    runs = merged;
  }
  return runs[0] ?? [];
}

function* mergedRuns<T>(left: readonly T[], right: readonly T[], compare: (a: T, b: T) => number): Work<T[]> {
  const merged: T[] = [];
  let l = 0;
  let r = 0;
  while (l < left.length && r < right.length) {
    merged.push(compare(left[l] as T, right[r] as T) <= 0 ? (left[l++] as T) : (right[r++] as T));
    if (merged.length % 64 === 0 && isDue()) yield breath;
  }
  return merged.concat(l < left.length ? left.slice(l) : right.slice(r));
}
