import { Decimal128, Double, Int32, Long, deserialize, serialize } from 'bson';
import { documentValue, field, type Value } from '../bson/values.js';
import type { StoreError } from '../errors.js';
import { applyUpdate, compileUpdate, upsertDocument } from './update.js';

type Doc = Record<string, unknown>;
const bytesOf = (document: Doc) => Buffer.from(serialize(document, { ignoreUndefined: true }));
const raw = (document: Doc) =>
  Array.isArray(document)
    ? { ...(field(documentValue(bytesOf({ document })), 'document') as Value) }
    : documentValue(bytesOf(document));
const shown = (bytes: Buffer): Doc => {
  const { _id, ...rest } = deserialize(bytes, { promoteValues: false });
  expect(_id).toBeDefined();
  return rest;
};
const updated = (document: Doc, update: Doc): Doc =>
  shown(applyUpdate(compileUpdate(raw(update)), bytesOf({ _id: 1, ...document })));
const typed = (document: Doc): Doc => deserialize(bytesOf(document), { promoteValues: false });

const long = (digits: string) => Long.fromString(digits);
const decimal = (digits: string) => Decimal128.fromString(digits);

/** What an update makes of a document, types and field order included. */
const cases: [name: string, document: Doc, update: Doc, result: Doc][] = [
  ['$set replaces in place', { a: 1, b: 2 }, { $set: { a: 3 } }, { a: 3, b: 2 }],
  ['$set appends new fields by name', {}, { $set: { b: 1, a: 2 } }, { a: 2, b: 1 }],
  ['$set makes documents on the way', {}, { $set: { 'a.b.c': 1 } }, { a: { b: { c: 1 } } }],
  [
    '$set reaches an element',
    { a: [{ b: 1 }, { b: 2 }] },
    { $set: { 'a.1.b': 3 } },
    { a: [{ b: 1 }, { b: 3 }] },
  ],
  ['$set fills an array with null', { a: [1] }, { $set: { 'a.3': 4 } }, { a: [1, null, null, 4] }],
  ['$unset removes', { a: 1, b: { c: 1, d: 2 } }, { $unset: { a: '', 'b.c': '', x: '' } }, { b: { d: 2 } }],
  ['$unset leaves null in an array', { a: [1, 2] }, { $unset: { 'a.0': '' } }, { a: [null, 2] }],
  [
    'untouched values keep their types',
    { l: long('5'), d: new Double(5), n: 1 },
    { $set: { n: 2 } },
    { l: long('5'), d: new Double(5), n: 2 },
  ],
  ['$inc of Int32', { a: 1 }, { $inc: { a: 2 } }, { a: new Int32(3) }],
  ['$inc grows into Int64', { a: 2147483647 }, { $inc: { a: 1 } }, { a: long('2147483648') }],
  [
    '$inc of Int64 exactly',
    { a: long('9007199254740993') },
    { $inc: { a: 1 } },
    { a: long('9007199254740994') },
  ],
  ['$inc with a double', { a: 1 }, { $inc: { a: 0.5 } }, { a: 1.5 }],
  ['$inc of nothing', {}, { $inc: { a: long('2') } }, { a: long('2') }],
  ['$mul', { a: 3 }, { $mul: { a: long('2') } }, { a: long('6') }],
  ['$mul of nothing', {}, { $mul: { a: new Double(2) } }, { a: new Double(0) }],
  [
    '$min and $max across types',
    { a: 5, b: 5 },
    { $min: { a: null }, $max: { b: 'x' } },
    { a: null, b: 'x' },
  ],
  ['$min keeps an equal number', { a: new Double(5) }, { $min: { a: 5 } }, { a: new Double(5) }],
  ['$rename moves', { a: 1, b: 2 }, { $rename: { a: 'c.d' } }, { b: 2, c: { d: 1 } }],
  ['$rename of nothing', { b: 2 }, { $rename: { a: 'c' } }, { b: 2 }],
  ['$push', { a: [1] }, { $push: { a: 2 } }, { a: [1, 2] }],
  ['$push of an array is one element', { a: [] }, { $push: { a: [1, 2] } }, { a: [[1, 2]] }],
  [
    '$push each at a position',
    { a: [1, 4] },
    { $push: { a: { $each: [2, 3], $position: 1 } } },
    { a: [1, 2, 3, 4] },
  ],
  [
    '$push with slice and sort',
    { a: [3] },
    { $push: { a: { $each: [1, 2], $sort: 1, $slice: -2 } } },
    { a: [2, 3] },
  ],
  [
    '$push sorted by a field',
    { a: [{ x: 2 }] },
    { $push: { a: { $each: [{ x: 1 }], $sort: { x: 1 } } } },
    { a: [{ x: 1 }, { x: 2 }] },
  ],
  ['$push to nothing', {}, { $push: { a: { $each: [1] } } }, { a: [1] }],
  [
    '$addToSet by value',
    { a: [1, 'x'] },
    { $addToSet: { a: { $each: [new Double(1), 'y', 'y'] } } },
    { a: [1, 'x', 'y'] },
  ],
  ['$pull of a value', { a: [1, 2, 1] }, { $pull: { a: 1 } }, { a: [2] }],
  ['$pull by operators', { a: [1, 5, 9] }, { $pull: { a: { $gte: 5 } } }, { a: [1] }],
  [
    '$pull of documents by a filter',
    { a: [{ x: 1, y: 2 }, { x: 2 }] },
    { $pull: { a: { x: 1 } } },
    { a: [{ x: 2 }] },
  ],
  ['$pop at either end', { a: [1, 2, 3], b: [1, 2] }, { $pop: { a: 1, b: -1 } }, { a: [1, 2], b: [2] }],
  ['$setOnInsert only on insert', { a: 1 }, { $setOnInsert: { b: 1 }, $set: { a: 2 } }, { a: 2 }],
  ['$pullAll of values', { a: [1, 2, 3, 2] }, { $pullAll: { a: [2, 3] } }, { a: [1] }],
  ['$bit of Int32', { a: 12 }, { $bit: { a: { and: 10 } } }, { a: 8 }],
  ['$bit of nothing', {}, { $bit: { a: { or: 5 } } }, { a: 5 }],
  ['$bit with Int64', { a: 1 }, { $bit: { a: { xor: long('3') } } }, { a: long('2') }],
  ['$inc of Decimal128', { a: decimal('1.10') }, { $inc: { a: 1 } }, { a: decimal('2.10') }],
  ['$inc by Decimal128', { a: 1 }, { $inc: { a: decimal('0.1') } }, { a: decimal('1.1') }],
  ['$mul of Decimal128', { a: decimal('1.5') }, { $mul: { a: decimal('2.0') } }, { a: decimal('3.00') }],
  [
    '$inc of Decimal128 by a double takes 15 digits of it',
    { a: decimal('1') },
    { $inc: { a: 0.5 } },
    { a: decimal('1.500000000000000') },
  ],
  ['$[] reaches every element', { a: [1, 2] }, { $inc: { 'a.$[]': 10 } }, { a: [11, 12] }],
  [
    '$[] twice in a path',
    { a: [{ b: [1] }, { b: [2, 3] }] },
    { $inc: { 'a.$[].b.$[]': 1 } },
    { a: [{ b: [2] }, { b: [3, 4] }] },
  ],
  ['$[] of an empty array', { a: [] }, { $set: { 'a.$[]': 1 } }, { a: [] }],
  [
    'a pipeline',
    { a: 2 },
    [{ $set: { b: { $add: ['$a', 1] } } }, { $unset: 'a' }] as unknown as Doc,
    { b: 3 },
  ],
  ['a replacement keeps the id', { a: 1 }, { b: 2 }, { b: 2 }],
  [
    'field names that are numbers keep their order',
    { 10: 1, 2: 1 },
    { $set: { a: 1 } },
    { 10: 1, 2: 1, a: 1 },
  ],
];

it.each(cases)('%s', (_name, document, update, result) => {
  const after = updated(document, update);
  expect(after).toEqual(typed(result));
  expect(Object.keys(after)).toEqual(Object.keys(typed(result)));
});

it('keeps numeric field names where they were', () => {
  const stored = Buffer.concat([
    Buffer.from([0, 0, 0, 0]),
    bytesOf({ _id: 1 }).subarray(4, -1),
    bytesOf({ b: 1 }).subarray(4, -1),
    bytesOf({ 7: 1 }).subarray(4),
  ]);
  stored.writeInt32LE(stored.length);
  const after = applyUpdate(compileUpdate(raw({ $inc: { b: 1 } })), stored);
  expect(after.indexOf('\x10b\0')).toBeLessThan(after.indexOf('\x107\0'));
});

/** The code a refusal carries; undefined when nothing was refused. */
function codeOf(act: () => unknown): number | undefined {
  try {
    act();
  } catch (error) {
    return (error as StoreError).code;
  }
  return undefined;
}

const refusals: [document: Doc, update: Doc, code: number][] = [
  [{ a: 'x' }, { $inc: { a: 1 } }, 14],
  [{}, { $inc: { a: 'x' } }, 14],
  [{ a: long('9223372036854775807') }, { $inc: { a: 1 } }, 2],
  [{ a: 1 }, { $push: { a: 1 } }, 2],
  [{ a: 1 }, { $addToSet: { a: 1 } }, 2],
  [{ a: 1 }, { $pull: { a: 1 } }, 2],
  [{ a: 1 }, { $pop: { a: 1 } }, 14],
  [{ a: [] }, { $pop: { a: 2 } }, 9],
  [{ a: 1 }, { $set: { 'a.b': 1 } }, 28],
  [{ a: [1] }, { $set: { 'a.b': 1 } }, 28],
  [{}, { $set: { a: 1, 'a.b': 1 } }, 40],
  [{}, { $set: { a: 1 }, $inc: { a: 1 } }, 40],
  [{}, { $rename: { a: 'b' }, $set: { b: 1 } }, 40],
  [{}, { $set: { _id: 2 } }, 66],
  [{}, { $unset: { _id: '' } }, 66],
  [{}, { _id: 2 }, 66],
  [{}, { $set: { 'a..b': 1 } }, 56],
  [{}, { $set: { 'a.$': 1 } }, 2],
  [{}, { $set: { 'a.$[x]': 1 } }, 2],
  [{}, { $set: { 'a.$[]': 1 } }, 2],
  [{ a: 1 }, { $set: { 'a.$[]': 1 } }, 2],
  [{ a: [1] }, { $set: { 'a.$[]': 1, 'a.0': 2 } }, 40],
  [{}, { $rename: { 'a.$[]': 'b' } }, 2],
  [{}, { $set: { 'a.$b': 1 } }, 52],
  [{}, { $set: 1 }, 9],
  [{}, { $foo: { a: 1 } }, 9],
  [{ a: 1.5 }, { $bit: { a: { or: 1 } } }, 2],
  [{ a: 1 }, { $bit: { a: { or: 1.5 } } }, 2],
  [{ a: 1 }, { $bit: { a: { nor: 1 } } }, 2],
  [{ a: 1 }, { $bit: { a: {} } }, 2],
  [{ a: [1] }, { $pullAll: { a: 1 } }, 2],
  [{ a: 1 }, { $pullAll: { a: [1] } }, 2],
  [{}, { $currentDate: { a: { $type: 'time' } } }, 2],
  [{}, { a: 1, $set: { b: 1 } }, 52],
];

it.each(refusals)('%j refuses %j with %i', (document, update, code) => {
  expect(codeOf(() => updated(document, update))).toBe(code);
});

const upserts: [filter: Doc, update: Doc, inserted: Doc][] = [
  [{ a: 1, 'b.c': 2 }, { $set: { d: 3 } }, { a: 1, b: { c: 2 }, d: 3 }],
  [{ a: { $eq: 1 }, b: { $gt: 2 } }, { $inc: { n: 1 } }, { a: 1, n: 1 }],
  [{ $and: [{ a: 1 }, { b: 2 }] }, { $setOnInsert: { c: 3 } }, { a: 1, b: 2, c: 3 }],
  [{ $or: [{ a: 1 }, { b: 2 }] }, { $set: { c: 3 } }, { c: 3 }],
  [{ a: 1 }, { b: 2 }, { b: 2 }],
  [{ a: 1 }, { $set: { a: 2 } }, { a: 2 }],
];

it.each(upserts)('an upsert by %j with %j inserts %j', (filter, update, inserted) => {
  expect(shown(upsertDocument(compileUpdate(raw(update)), raw(filter)))).toEqual(typed(inserted));
});

it('takes the id of an upsert from the filter, the update, or makes one', () => {
  const idOf = (filter: Doc, update: Doc) =>
    deserialize(upsertDocument(compileUpdate(raw(update)), raw(filter)))['_id'] as unknown;
  expect(idOf({ _id: 5 }, { a: 1 })).toBe(5);
  expect(idOf({}, { _id: 6 })).toBe(6);
  expect(idOf({ x: 1 }, { $set: { _id: 7 } })).toBe(7);
  expect(String(idOf({}, { a: 1 }))).toMatch(/^[0-9a-f]{24}$/);
  expect(codeOf(() => idOf({ _id: 5 }, { _id: 6 }))).toBe(66);
  expect(codeOf(() => idOf({ $and: [{ a: 1 }, { a: 2 }] }, { $set: { b: 1 } }))).toBe(54);
});

const positional: [document: Doc, filter: Doc, update: Doc, arrayFilters: Doc[] | undefined, result: Doc][] =
  [
    [{ a: [1, 5, 5] }, { a: 5 }, { $set: { 'a.$': 9 } }, undefined, { a: [1, 9, 5] }],
    [{ a: [1, 5, 9] }, { a: { $gt: 3 } }, { $inc: { 'a.$': 1 } }, undefined, { a: [1, 6, 9] }],
    [
      { a: [{ x: 1 }, { x: 2, y: 3 }] },
      { a: { $elemMatch: { x: 2, y: 3 } } },
      { $set: { 'a.$.y': 4 } },
      undefined,
      { a: [{ x: 1 }, { x: 2, y: 4 }] },
    ],
    [
      { a: [{ x: 1 }, { x: 2 }] },
      { 'a.x': 2 },
      { $set: { 'a.$.z': 0 } },
      undefined,
      { a: [{ x: 1 }, { x: 2, z: 0 }] },
    ],
    [{ a: [1, 2] }, { $and: [{ a: 2 }] }, { $unset: { 'a.$': '' } }, undefined, { a: [1, null] }],
    [{ a: [90, 100, 102] }, {}, { $set: { 'a.$[e]': 100 } }, [{ e: { $gte: 100 } }], { a: [90, 100, 100] }],
    [
      {
        a: [
          { g: 80, m: 75 },
          { g: 90, m: 85 },
        ],
      },
      {},
      { $set: { 'a.$[e].m': 100 } },
      [{ 'e.g': { $gte: 85 } }],
      {
        a: [
          { g: 80, m: 75 },
          { g: 90, m: 100 },
        ],
      },
    ],
  ];

it.each(positional)(
  '%j found by %j, updated with %j and %j',
  (document, filter, update, arrayFilters, result) => {
    const compiled = compileUpdate(raw(update), arrayFilters && raw(arrayFilters as unknown as Doc));
    const after = applyUpdate(compiled, bytesOf({ _id: 1, ...document }), raw(filter));
    expect(shown(after)).toEqual(typed(result));
  },
);

const badFilters: [update: Doc, arrayFilters: Doc[], code: number][] = [
  [{ $set: { a: 1 } }, [{ x: 1 }], 9],
  [{ $set: { 'a.$[x]': 1 } }, [{ x: 1 }, { x: 2 }], 9],
  [{ $set: { 'a.$[x]': 1 } }, [{ x: 1, y: 2 }], 9],
  [{ $set: { 'a.$[X]': 1 } }, [{ X: 1 }], 2],
  [{ a: 1 }, [{ x: 1 }], 9],
];

it.each(badFilters)('%j refuses array filters %j with %i', (update, arrayFilters, code) => {
  expect(codeOf(() => compileUpdate(raw(update), raw(arrayFilters as unknown as Doc)))).toBe(code);
});

it('does not guess where $ points when conditions choose different elements', () => {
  const apply = () =>
    applyUpdate(
      compileUpdate(raw({ $set: { 'a.$': 0 } })),
      bytesOf({ _id: 1, a: [1, 10] }),
      raw({ a: { $gt: 5 }, $and: [{ a: 1 }] }),
    );
  expect(codeOf(apply)).toBe(238);
});
