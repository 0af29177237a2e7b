import type { Document } from 'mongodb';
import { embeddedOnly, openTarget, type Target } from './target.js';

let target: Target;
beforeAll(async () => {
  target = await openTarget();
  await target.db.collection<Document & { _id: unknown }>('orders').insertMany([
    { _id: 1, who: 'ann', item: 'a', price: 10, tags: ['x', 'y'], at: { city: 'Rome' } },
    { _id: 2, who: 'bob', item: 'b', price: 20, tags: [] },
    { _id: 3, who: 'ann', item: 'b', price: 30, tags: ['y'] },
    { _id: 4, who: 'cyd', item: 'z', price: null },
  ]);
  await target.db.collection<Document & { _id: unknown }>('items').insertMany([
    { _id: 'a', name: 'apple', stock: 5 },
    { _id: 'b', name: 'bread', stock: 1 },
  ]);
});
afterAll(() => target.close());

const ids = (...all: number[]) => all.map((_id) => ({ _id }));
const byId = { $sort: { _id: 1 } };

/** What a pipeline over the orders gives; from MongoDB's manual of each stage. */
const cases: [name: string, pipeline: Document[], result: unknown[]][] = [
  [
    '$match with $expr',
    [{ $match: { $expr: { $gt: ['$price', 15] } } }, { $project: { _id: 1 } }],
    ids(2, 3),
  ],
  [
    '$project in',
    [{ $match: { _id: 1 } }, { $project: { who: 1, 'at.city': 1 } }],
    [{ _id: 1, who: 'ann', at: { city: 'Rome' } }],
  ],
  [
    '$project out',
    [{ $match: { _id: 2 } }, { $project: { tags: 0, price: 0 } }],
    [{ _id: 2, who: 'bob', item: 'b' }],
  ],
  [
    '$project computes after what stays',
    [
      { $match: { _id: 1 } },
      { $project: { twice: { $multiply: ['$price', 2] }, who: 1, _id: 0, l: { n: 'x' } } },
    ],
    [{ who: 'ann', twice: 20, l: { n: 'x' } }],
  ],
  [
    '$addFields replaces in place, through documents and arrays',
    [{ $match: { _id: 1 } }, { $addFields: { item: 'q', 'at.zip': 1, more: '$$ROOT._id' } }],
    [{ _id: 1, who: 'ann', item: 'q', price: 10, tags: ['x', 'y'], at: { city: 'Rome', zip: 1 }, more: 1 }],
  ],
  [
    '$set with $$REMOVE',
    [{ $match: { _id: 2 } }, { $set: { tags: '$$REMOVE' } }],
    [{ _id: 2, who: 'bob', item: 'b', price: 20 }],
  ],
  [
    '$unset',
    [{ $match: { _id: 1 } }, { $unset: ['tags', 'at.city', 'price'] }],
    [{ _id: 1, who: 'ann', item: 'a', at: {} }],
  ],
  ['$replaceRoot', [{ $match: { _id: 1 } }, { $replaceRoot: { newRoot: '$at' } }], [{ city: 'Rome' }]],
  [
    '$unwind',
    [byId, { $unwind: '$tags' }, { $project: { tags: 1 } }],
    [
      { _id: 1, tags: 'x' },
      { _id: 1, tags: 'y' },
      { _id: 3, tags: 'y' },
    ],
  ],
  [
    '$unwind that preserves, with an index',
    [
      byId,
      { $unwind: { path: '$tags', preserveNullAndEmptyArrays: true, includeArrayIndex: 'i' } },
      { $project: { tags: 1, i: 1 } },
    ],
    [
      { _id: 1, tags: 'x', i: 0n },
      { _id: 1, tags: 'y', i: 1n },
      { _id: 2, i: null },
      { _id: 3, tags: 'y', i: 0n },
      { _id: 4, i: null },
    ],
  ],
  [
    '$group with its accumulators',
    [
      byId,
      {
        $group: {
          _id: '$who',
          n: { $count: {} },
          sum: { $sum: '$price' },
          avg: { $avg: '$price' },
          min: { $min: '$price' },
          max: { $max: '$price' },
          first: { $first: '$_id' },
          last: { $last: '$_id' },
          all: { $push: '$item' },
          two: { $firstN: { input: '$_id', n: 2 } },
          top: { $top: { sortBy: { price: -1 }, output: '$_id' } },
          dev: { $stdDevPop: '$price' },
        },
      },
      byId,
    ],
    [
      {
        _id: 'ann',
        n: 2,
        sum: 40,
        avg: 20,
        min: 10,
        max: 30,
        first: 1,
        last: 3,
        all: ['a', 'b'],
        two: [1, 3],
        top: 3,
        dev: 10,
      },
      {
        _id: 'bob',
        n: 1,
        sum: 20,
        avg: 20,
        min: 20,
        max: 20,
        first: 2,
        last: 2,
        all: ['b'],
        two: [2],
        top: 2,
        dev: 0,
      },
      {
        _id: 'cyd',
        n: 1,
        sum: 0,
        avg: null,
        min: null,
        max: null,
        first: 4,
        last: 4,
        all: ['z'],
        two: [4],
        top: 4,
        dev: null,
      },
    ],
  ],
  [
    '$group by nothing',
    [{ $group: { _id: null, set: { $addToSet: '$item' } } }, { $project: { n: { $size: '$set' } } }],
    [{ _id: null, n: 3 }],
  ],
  ['$sortByCount', [{ $sortByCount: '$who' }, { $limit: 1 }], [{ _id: 'ann', count: 2 }]],
  [
    '$bucket',
    [
      {
        $bucket: {
          groupBy: '$price',
          boundaries: [0, 20, 100],
          default: 'other',
          output: { ids: { $push: '$_id' } },
        },
      },
    ],
    [
      { _id: 0, ids: [1] },
      { _id: 20, ids: [2, 3] },
      { _id: 'other', ids: [4] },
    ],
  ],
  ['$count', [{ $match: { who: 'ann' } }, { $count: 'n' }], [{ n: 2 }]],
  ['$count of nothing', [{ $match: { who: 'x' } }, { $count: 'n' }], []],
  [
    '$sort, $skip and $limit',
    [{ $sort: { price: -1 } }, { $skip: 1 }, { $limit: 2 }, { $project: { _id: 1 } }],
    ids(2, 1),
  ],
  ['$sample of all', [{ $sample: { size: 10 } }, { $count: 'n' }], [{ n: 4 }]],
  [
    '$facet',
    [
      {
        $facet: {
          n: [{ $count: 'n' }],
          dear: [{ $match: { price: { $gt: 15 } } }, { $project: { _id: 1 } }],
        },
      },
    ],
    [{ n: [{ n: 4 }], dear: ids(2, 3) }],
  ],
  [
    '$lookup by a field',
    [
      byId,
      { $lookup: { from: 'items', localField: 'item', foreignField: '_id', as: 'i' } },
      { $project: { name: '$i.name' } },
    ],
    [
      { _id: 1, name: ['apple'] },
      { _id: 2, name: ['bread'] },
      { _id: 3, name: ['bread'] },
      { _id: 4, name: [] },
    ],
  ],
  [
    '$lookup by a pipeline with variables',
    [
      { $match: { _id: 2 } },
      {
        $lookup: {
          from: 'items',
          let: { p: '$price' },
          as: 'i',
          pipeline: [
            { $match: { $expr: { $lt: ['$stock', '$$p'] } } },
            { $sort: { _id: -1 } },
            { $project: { _id: 1, over: { $subtract: ['$$p', '$stock'] } } },
          ],
        },
      },
      { $project: { i: 1 } },
    ],
    [
      {
        _id: 2,
        i: [
          { _id: 'b', over: 19 },
          { _id: 'a', over: 15 },
        ],
      },
    ],
  ],
  [
    '$unionWith',
    [
      { $match: { _id: 1 } },
      { $project: { _id: 1 } },
      { $unionWith: { coll: 'items', pipeline: [{ $project: { _id: 1 } }] } },
    ],
    [{ _id: 1 }, { _id: 'a' }, { _id: 'b' }],
  ],
];

it.each(cases)('%s', async (_name, pipeline, result) => {
  expect(await target.db.collection('orders').aggregate(pipeline).toArray()).toEqual(result);
});

it('takes variables of the command', async () => {
  const pipeline = [{ $match: { $expr: { $eq: ['$who', '$$me'] } } }, { $project: { _id: 1 } }];
  expect(
    await target.db
      .collection('orders')
      .aggregate(pipeline, { let: { me: 'bob' } })
      .toArray(),
  ).toEqual(ids(2));
});

const refusals: [pipeline: Document[], code: number][] = [
  [[{ $nonsense: {} }], 40324],
  [[{ $match: {}, $sort: {} }], 40323],
  [[{ $group: { n: { $sum: 1 } } }], 15955],
  [[{ $group: { _id: 1, n: { $foo: 1 } } }], 15952],
  [[{ $project: {} }], 51272],
  [[{ $project: { a: 1, b: 0 } }], 31254],
  [[{ $replaceWith: '$who' }], 40228],
  [[{ $unwind: 'tags' }], 28818],
  [[{ $limit: 0 }], 15958],
  [[{ $sort: {} }], 15976],
  [[{ $count: '' }], 40156],
];

it.each(refusals)('%j is refused with %i', async (pipeline, code) => {
  await expect(target.db.collection('orders').aggregate(pipeline).toArray()).rejects.toMatchObject({ code });
});

/** Left out on purpose: refused by name, as nothing is ever ignored. */
const leftOut = [
  '$changeStream',
  '$geoNear',
  '$graphLookup',
  '$setWindowFields',
  '$out',
  '$merge',
  '$search',
  '$redact',
];

embeddedOnly('refuses by name what is left out', async () => {
  for (const stage of leftOut)
    await expect(
      target.db
        .collection('orders')
        .aggregate([{ [stage]: {} }])
        .toArray(),
    ).rejects.toMatchObject({
      code: 238,
      codeName: 'NotImplemented',
      message: expect.stringContaining(stage) as string,
    });
});
