import { StoreError, notSupported } from '../errors.js';
import { toDouble } from '../bson/numbers.js';
import { BsonType, fieldsOf, textOf, valueBytes, type Value } from '../bson/values.js';
import { everyRecord, type Collection, type Index } from '../storage/catalogue.js';
import { shortBound, shortened, type IndexField } from '../storage/index-keys.js';
import {
  boundsOf,
  complement,
  excludesMissing,
  following,
  implies,
  type Bounds,
  type Limit,
} from './bounds.js';
import { keyOf } from '../bson/order.js';
import { compileFilter, hasOperators, type Predicate } from './match.js';
import { sortFields } from './sort-keys.js';

export interface KeyRange {
  readonly from: Buffer;
  readonly to: Buffer;
}

/** How the documents of a query are found. */
export interface Plan {
  readonly collection: Collection;
  /** Absent: every record is looked at. */
  readonly index?: Index;
  readonly ranges: readonly KeyRange[];
  readonly reverse: boolean;
  /** Whole keys of a unique index: each is looked up, nothing is walked. */
  readonly points?: readonly Buffer[];
  /** The plan already gives the order asked for. */
  readonly sorted: boolean;
  readonly test: Predicate;
}

/** Points of one query multiply over the fields of an index; beyond this many the rest of the index is scanned. */
const maximumPoints = 1000;

/**
 * Chooses an index: most equality fields first, then a range, then the order asked for; a unique index with all
 * fields given beats everything, and of two alike the partial one is shorter. Without a usable index every record is looked at.
 */
export function plan(collection: Collection, filter: Value, sort?: Value, hint?: Value): Plan {
  const byId = hint ? undefined : planById(collection, filter);
  if (byId) {
    if (naturalOrder(sort) === undefined) sortFields(sort);
    return byId;
  }
  const test = compileFilter(filter);
  const natural = naturalOrder(sort) ?? naturalOrder(hint);
  const wanted = naturalOrder(sort) ? [] : sortFields(sort);
  const everything = {
    collection,
    ranges: [everyRecord],
    reverse: natural === -1,
    sorted: wanted.length === 0,
    test,
  };
  if (natural !== undefined) return everything;
  const bounds = boundsOf(filter);
  const hinted = hintedIndex(collection, hint);
  const candidates = (hinted ? [hinted] : collection.indexes.filter(({ ready }) => ready)).flatMap(
    (index) => {
      const use = useOf(index, bounds, wanted, hinted !== undefined);
      return use ? [use] : [];
    },
  );
  const best = candidates.reduce<Use | undefined>((a, b) => (a && a.score >= b.score ? a : b), undefined);
  if (!best) return everything;
  return { ...best, collection, test };
}

/** `{_id: value, …}`, the most frequent filter: there is at most one document to look at. */
function planById(collection: Collection, filter: Value): Plan | undefined {
  const all = fieldsOf(filter);
  const id = all.find(({ name }) => name === '_id');
  if (!id || id.type === BsonType.regex || id.type === BsonType.array || hasOperators(id)) return undefined;
  const [index] = collection.indexes;
  return (
    index && {
      collection,
      index,
      points: [shortened(keyOf(id))],
      ranges: [],
      reverse: false,
      sorted: true,
      test: all.length === 1 ? anything : compileFilter(filter),
    }
  );
}

const anything: Predicate = () => true;

function naturalOrder(order: Value | undefined): number | undefined {
  const first = order?.type === BsonType.object ? fieldsOf(order)[0] : undefined;
  return first?.name === '$natural' ? Math.sign(toDouble(first)) : undefined;
}

function hintedIndex(collection: Collection, hint: Value | undefined): Index | undefined {
  if (!hint || (hint.type === BsonType.object && fieldsOf(hint).length === 0)) return undefined;
  const index = collection.indexes
    .filter(({ ready }) => ready)
    .find((known) =>
      hint.type === BsonType.string ? known.name === textOf(hint) : sameKey(known.key, hint),
    );
  if (!index)
    throw new StoreError(
      2,
      'error processing query: planner returned error: hint provided does not correspond to an existing index',
    );
  return index;
}

/** Index keys are the same when fields, order and directions are. */
export function sameKey(a: Value, b: Value): boolean {
  if (valueBytes(a).equals(valueBytes(b))) return true;
  const shape = (key: Value): string =>
    JSON.stringify(fieldsOf(key).map((field) => [field.name, toDouble(field)]));
  return a.type === b.type && shape(a) === shape(b);
}

interface Use {
  readonly index: Index;
  readonly points?: readonly Buffer[];
  readonly ranges: readonly KeyRange[];
  readonly reverse: boolean;
  readonly sorted: boolean;
  readonly score: number;
}

function useOf(
  index: Index,
  bounds: ReadonlyMap<string, Bounds>,
  wanted: readonly IndexField[],
  hinted: boolean,
): Use | undefined {
  if (index.sparse && !index.fields.some(({ path }) => excludesMissing(bounds.get(path.text)))) {
    if (!hinted) return undefined;
    throw notSupported('a hint to a sparse index that does not hold every match');
  }
  if (index.partial && !implies(bounds, index.partial.filter)) {
    if (!hinted) return undefined;
    throw notSupported('a hint to a partial index that does not hold every match');
  }
  const { prefixes, equalities, single, range } = prefixesOf(index, bounds);
  const next = index.fields[equalities];
  const ranges =
    range && next
      ? prefixes.map((prefix) => rangeAfter(prefix, range, next.descending, isMultikey(index, equalities)))
      : prefixes.map((prefix) => ({ from: prefix, to: prefix.length ? following(prefix) : topKey }));
  const order =
    wanted.length === 0 ? 1 : single && index.multikey === 0 ? orderOf(index, equalities, wanted) : 0;
  const used = equalities + (range ? 1 : 0);
  if (used === 0 && !hinted && (wanted.length === 0 || order === 0)) return undefined;
  const complete = index.unique && equalities === index.fields.length;
  const score =
    equalities * 10 +
    (range ? 6 : 0) +
    (wanted.length > 0 && order !== 0 ? 8 : 0) +
    (complete ? 50 : 0) +
    (index.partial ? 1 : 0);
  return {
    index,
    ranges: ranges.map(keptRange),
    ...(complete ? { points: prefixes.map(shortened) } : {}),
    reverse: order < 0,
    sorted: order !== 0,
    score,
  };
}

function keptRange({ from, to }: KeyRange): KeyRange {
  const end = shortBound(to);
  return { from: shortBound(from), to: end === to ? to : following(end) };
}

const topKey = Buffer.alloc(8, 0xff);

const isMultikey = (index: Index, position: number): boolean => (index.multikey & (1 << position)) !== 0;

/** The equality prefix. Two bounds on elements of one array may be met by two elements: the second is not used. */
function prefixesOf(index: Index, bounds: ReadonlyMap<string, Bounds>) {
  let prefixes: Buffer[] = [Buffer.alloc(0)];
  let single = true;
  let inArray = false;
  let equalities = 0;
  for (const { path, descending } of index.fields) {
    const known = bounds.get(path.text);
    const repeated = inArray && isMultikey(index, equalities);
    if (!known || repeated) return { prefixes, equalities, single, range: undefined };
    const points = known.points;
    if (!points || points.length * prefixes.length > maximumPoints) {
      const range = known.low || known.high ? known : undefined;
      return { prefixes, equalities, single, range };
    }
    const keys = descending ? points.map(complement).reverse() : points;
    prefixes = prefixes.flatMap((prefix) => keys.map((key) => Buffer.concat([prefix, key])));
    single &&= points.length === 1;
    inArray ||= isMultikey(index, equalities);
    equalities++;
  }
  return { prefixes, equalities, single, range: undefined };
}

/** A range stays inside the type of its limit. On an array only one limit holds for one element. */
function rangeAfter(prefix: Buffer, bounds: Bounds, descending: boolean, multikey: boolean): KeyRange {
  const low = bounds.low;
  const high = multikey && low ? undefined : bounds.high;
  const rank = ((low ?? high) as Limit).key[0] as number;
  const lowKey = low ? low : { key: Buffer.from([rank]), inclusive: true };
  const highKey = high ? high : { key: Buffer.from([rank + 1]), inclusive: false };
  const at = (key: Buffer): Buffer => Buffer.concat([prefix, key]);
  if (!descending)
    return {
      from: lowKey.inclusive ? at(lowKey.key) : following(at(lowKey.key)),
      to: highKey.inclusive ? following(at(highKey.key)) : at(highKey.key),
    };
  return {
    from: highKey.inclusive ? at(complement(highKey.key)) : following(at(complement(highKey.key))),
    to: lowKey.inclusive ? following(at(complement(lowKey.key))) : at(complement(lowKey.key)),
  };
}

/** 1 or -1 when scanning the index that way gives the order, 0 when it does not. */
function orderOf(index: Index, equalities: number, wanted: readonly IndexField[]): number {
  const fixed = new Set(index.fields.slice(0, equalities).map(({ path }) => path.text));
  let position = equalities;
  let direction = 0;
  for (const { path, descending } of wanted) {
    if (fixed.has(path.text)) continue;
    const next = index.fields[position++];
    if (next?.path.text !== path.text) return 0;
    const needed = next.descending === descending ? 1 : -1;
    if (direction !== 0 && direction !== needed) return 0;
    direction = needed;
  }
  return direction === 0 ? 1 : direction;
}
