import { BSON, Decimal128, Double, Int32, Long, type Document } from 'mongodb';
import { openTarget, type Target } from './target.js';

const int = (value: number) => new Int32(value);
const double = (value: number) => new Double(value);
const long = (digits: string) => Long.fromString(digits);
const decimal = (digits: string) => Decimal128.fromString(digits);
const date = (text: string) => new Date(text);

const subject: Document = {
  _id: 1,
  n: int(7),
  d: double(2.5),
  l: long('9007199254740993'),
  m: decimal('1.10'),
  s: 'Hello',
  u: 'naïve 😀',
  at: date('2024-02-29T13:14:15.678Z'),
  list: [int(3), int(1), int(2)],
  docs: [
    { k: 'a', v: int(1) },
    { k: 'b', v: int(2) },
  ],
  none: null,
  o: { x: int(1), y: { z: 'deep' } },
};

const missing = Symbol('missing');

/** What an expression gives for the document above, its type included; from MongoDB's manual of each operator. */
const cases: [expression: unknown, result: unknown][] = [
  ['$o.y.z', 'deep'],
  ['$docs.v', [int(1), int(2)]],
  ['$nowhere', missing],
  ['$$ROOT.n', int(7)],
  [{ $literal: '$n' }, '$n'],
  [
    ['$n', '$nowhere'],
    [int(7), null],
  ],
  [{ a: '$n', b: '$nowhere' }, { a: int(7) }],
  [{ $eq: ['$n', double(7)] }, true],
  [{ $eq: ['$nowhere', null] }, false],
  [{ $lt: ['$nowhere', null] }, true],
  [{ $gt: ['a', 5] }, true],
  [{ $cmp: ['$n', 8] }, int(-1)],
  [{ $and: ['$n', 1, 'x'] }, true],
  [{ $and: [] }, true],
  [{ $or: [0, null, '$nowhere'] }, false],
  [{ $not: ['$none'] }, true],
  [{ $cond: { if: { $gt: ['$n', 5] }, then: 'big', else: 'small' } }, 'big'],
  [{ $cond: [false, 1, 2] }, int(2)],
  [{ $ifNull: ['$nowhere', '$none', 'x'] }, 'x'],
  [{ $switch: { branches: [{ case: { $eq: ['$n', 1] }, then: 'one' }], default: 'other' } }, 'other'],
  [{ $let: { vars: { a: '$n', b: 2 }, in: { $multiply: ['$$a', '$$b'] } } }, int(14)],
  [{ $add: ['$n', 1] }, int(8)],
  [{ $add: ['$n', double(1)] }, double(8)],
  [{ $add: ['$l', 1] }, long('9007199254740994')],
  [{ $add: ['$m', 1] }, decimal('2.10')],
  [{ $add: [int(2147483647), 1] }, long('2147483648')],
  [{ $add: ['$at', 1000] }, date('2024-02-29T13:14:16.678Z')],
  [{ $add: ['$n', null] }, null],
  [{ $subtract: ['$at', date('2024-02-29T13:14:15.000Z')] }, long('678')],
  [{ $subtract: ['$n', 10] }, int(-3)],
  [{ $multiply: ['$n', '$d'] }, double(17.5)],
  [{ $divide: ['$n', 2] }, double(3.5)],
  [{ $divide: [6, 2] }, double(3)],
  [{ $divide: ['$m', 3] }, decimal('0.3666666666666666666666666666666667')],
  [{ $mod: ['$n', 4] }, int(3)],
  [{ $mod: [-7, 4] }, int(-3)],
  [{ $abs: -3 }, int(3)],
  [{ $ceil: '$d' }, double(3)],
  [{ $floor: -2.5 }, double(-3)],
  [{ $floor: '$n' }, int(7)],
  [{ $round: ['$d'] }, double(2)],
  [{ $round: [double(3.5)] }, double(4)],
  [{ $round: [double(1.256), 2] }, double(1.26)],
  [{ $round: [int(1234), -2] }, int(1200)],
  [{ $trunc: [double(-2.7)] }, double(-2)],
  [{ $trunc: [decimal('1.259'), 2] }, decimal('1.25')],
  [{ $sqrt: 16 }, double(4)],
  [{ $pow: [2, 10] }, int(1024)],
  [{ $pow: [2, -1] }, double(0.5)],
  [{ $exp: 0 }, double(1)],
  [{ $ln: 1 }, double(0)],
  [{ $log10: 1000 }, double(3)],
  [{ $log: [8, 2] }, double(3)],
  [{ $sum: '$list' }, int(6)],
  [{ $sum: ['$n', '$d', 'x'] }, double(9.5)],
  [{ $avg: '$list' }, double(2)],
  [{ $min: '$list' }, int(1)],
  [{ $max: ['$n', 3] }, int(7)],
  [{ $size: '$list' }, int(3)],
  [{ $arrayElemAt: ['$list', -1] }, int(2)],
  [{ $arrayElemAt: ['$list', 5] }, missing],
  [{ $first: '$list' }, int(3)],
  [{ $last: '$list' }, int(2)],
  [{ $slice: ['$list', 2] }, [int(3), int(1)]],
  [{ $slice: ['$list', -2, 1] }, [int(1)]],
  [{ $in: [1, '$list'] }, true],
  [{ $isArray: ['$list'] }, true],
  [{ $concatArrays: ['$list', [9]] }, [int(3), int(1), int(2), int(9)]],
  [{ $range: [0, 6, 2] }, [int(0), int(2), int(4)]],
  [{ $reverseArray: '$list' }, [int(2), int(1), int(3)]],
  [{ $indexOfArray: ['$list', 2] }, int(2)],
  [{ $map: { input: '$list', as: 'x', in: { $add: ['$$x', 1] } } }, [int(4), int(2), int(3)]],
  [{ $filter: { input: '$list', cond: { $gt: ['$$this', 1] } } }, [int(3), int(2)]],
  [{ $filter: { input: '$list', as: 'x', cond: { $gt: ['$$x', 1] }, limit: 1 } }, [int(3)]],
  [{ $reduce: { input: '$list', initialValue: 0, in: { $add: ['$$value', '$$this'] } } }, int(6)],
  [{ $sortArray: { input: '$list', sortBy: 1 } }, [int(1), int(2), int(3)]],
  [
    { $sortArray: { input: '$docs', sortBy: { v: -1 } } },
    [
      { k: 'b', v: int(2) },
      { k: 'a', v: int(1) },
    ],
  ],
  [{ $arrayToObject: '$docs' }, { a: int(1), b: int(2) }],
  [{ $objectToArray: { x: 1 } }, [{ k: 'x', v: int(1) }]],
  [{ $mergeObjects: ['$o', { x: 2 }, null] }, { x: int(2), y: { z: 'deep' } }],
  [{ $setUnion: ['$list', [2, 5]] }, [int(1), int(2), int(3), int(5)]],
  [{ $setIntersection: ['$list', [2, 3, 9]] }, [int(2), int(3)]],
  [{ $setDifference: ['$list', [1]] }, [int(3), int(2)]],
  [{ $setEquals: ['$list', [1, 2, 3, 3]] }, true],
  [{ $setIsSubset: [[1], '$list'] }, true],
  [{ $anyElementTrue: [[0, 1]] }, true],
  [{ $allElementsTrue: [[0, 1]] }, false],
  [{ $concat: ['$s', ' ', 'you'] }, 'Hello you'],
  [{ $concat: ['$s', null] }, null],
  [{ $toUpper: '$s' }, 'HELLO'],
  [{ $toLower: '$s' }, 'hello'],
  [{ $toUpper: '$none' }, ''],
  [{ $strLenCP: '$u' }, int(7)],
  [{ $strLenBytes: '$u' }, int(11)],
  [{ $substrCP: ['$u', 6, 1] }, '😀'],
  [{ $substrBytes: ['$s', 1, 3] }, 'ell'],
  [{ $indexOfCP: ['$u', '😀'] }, int(6)],
  [{ $indexOfBytes: ['$u', '😀'] }, int(7)],
  [{ $split: ['a,b,,c', ','] }, ['a', 'b', '', 'c']],
  [{ $trim: { input: '  x ' } }, 'x'],
  [{ $ltrim: { input: 'xxyx', chars: 'x' } }, 'yx'],
  [{ $rtrim: { input: 'xxyx', chars: 'x' } }, 'xxy'],
  [{ $strcasecmp: ['$s', 'HELLO'] }, int(0)],
  [{ $replaceOne: { input: 'aXbX', find: 'X', replacement: { $literal: '$&' } } }, 'a$&bX'],
  [{ $replaceAll: { input: 'aXbX', find: 'X', replacement: '-' } }, 'a-b-'],
  [{ $regexMatch: { input: '$s', regex: 'L+', options: 'i' } }, true],
  [{ $regexFind: { input: '$u', regex: '(😀)' } }, { match: '😀', idx: int(6), captures: ['😀'] }],
  [{ $year: '$at' }, int(2024)],
  [{ $month: { date: '$at' } }, int(2)],
  [{ $dayOfMonth: '$at' }, int(29)],
  [{ $dayOfYear: '$at' }, int(60)],
  [{ $dayOfWeek: '$at' }, int(5)],
  [{ $hour: '$at' }, int(13)],
  [{ $millisecond: '$at' }, int(678)],
  [{ $isoWeek: date('2021-01-02T00:00:00Z') }, int(53)],
  [{ $isoWeekYear: date('2021-01-02T00:00:00Z') }, long('2020')],
  [{ $isoDayOfWeek: '$at' }, int(4)],
  [{ $week: date('2021-01-03T00:00:00Z') }, int(1)],
  [{ $year: '$none' }, null],
  [{ $dateToString: { date: '$at', format: 'on %Y-%m-%d, %H:%M' } }, 'on 2024-02-29, 13:14'],
  [{ $dateToString: { date: '$at' } }, '2024-02-29T13:14:15.678Z'],
  [{ $dateAdd: { startDate: '$at', unit: 'year', amount: 1 } }, date('2025-02-28T13:14:15.678Z')],
  [
    { $dateAdd: { startDate: date('2024-01-31T00:00:00Z'), unit: 'month', amount: 1 } },
    date('2024-02-29T00:00:00Z'),
  ],
  [{ $dateSubtract: { startDate: '$at', unit: 'day', amount: 1 } }, date('2024-02-28T13:14:15.678Z')],
  [{ $dateDiff: { startDate: date('2023-12-31T23:00:00Z'), endDate: '$at', unit: 'year' } }, long('1')],
  [{ $dateDiff: { startDate: date('2024-02-28T00:00:00Z'), endDate: '$at', unit: 'hour' } }, long('37')],
  [{ $dateTrunc: { date: '$at', unit: 'month' } }, date('2024-02-01T00:00:00Z')],
  [{ $dateTrunc: { date: '$at', unit: 'hour', binSize: 2 } }, date('2024-02-29T12:00:00Z')],
  [{ $dateTrunc: { date: '$at', unit: 'week', startOfWeek: 'monday' } }, date('2024-02-26T00:00:00Z')],
  [{ $type: '$l' }, 'long'],
  [{ $type: '$nowhere' }, 'missing'],
  [{ $isNumber: '$m' }, true],
  [{ $toString: '$l' }, '9007199254740993'],
  [{ $toString: '$at' }, '2024-02-29T13:14:15.678Z'],
  [{ $toInt: '12' }, int(12)],
  [{ $toInt: '$d' }, int(2)],
  [{ $toLong: '$n' }, long('7')],
  [{ $toDouble: '1e3' }, double(1000)],
  [{ $toDecimal: '$n' }, decimal('7')],
  [{ $toBool: 'false' }, true],
  [{ $toDate: long('0') }, date('1970-01-01T00:00:00Z')],
  [{ $toDate: '2024-02-29' }, date('2024-02-29T00:00:00Z')],
  [{ $convert: { input: 'x', to: 'int', onError: 'bad' } }, 'bad'],
  [{ $convert: { input: '$none', to: 'int', onNull: 0 } }, int(0)],
  [{ $getField: { field: 'x', input: '$o' } }, int(1)],
  [{ $degreesToRadians: 180 }, double(Math.PI)],
  [{ $sin: 0 }, double(0)],
];

const refusals: [expression: unknown, code: number][] = [
  [{ $foo: 1 }, 168],
  ['$$x', 17276],
  [{ $add: ['$s', 1] }, 14],
  [{ $subtract: ['$s', 1] }, 14],
  [{ $divide: [1, 0] }, 2],
  [{ $mod: [1, 0] }, 16610],
  [{ $size: '$n' }, 17124],
  [{ $in: [1, '$n'] }, 40081],
  [{ $arrayElemAt: ['$n', 0] }, 28689],
  [{ $filter: { input: '$n', cond: true } }, 28651],
  [{ $concat: ['$n'] }, 16702],
  [{ $toInt: 'x' }, 241],
  [{ $toInt: '$l' }, 241],
  [{ $cond: [1, 2] }, 16020],
  [{ $switch: { branches: [{ case: false, then: 1 }] } }, 40066],
  [{ a: 1, $add: [1, 2] }, 16410],
];

let target: Target;
beforeAll(async () => {
  target = await openTarget({ promoteValues: false, useBigInt64: false });
  await target.db.collection('subject').insertOne(subject);
});
afterAll(() => target.close());

async function evaluated(expression: unknown): Promise<string> {
  const [found] = await target.db
    .collection('subject')
    .aggregate([{ $replaceWith: { r: expression } }])
    .toArray();
  return BSON.EJSON.stringify(found, { relaxed: false });
}

it.each(cases)('%j', async (expression, result) => {
  const expected = result === missing ? {} : { r: result };
  expect(await evaluated(expression)).toBe(BSON.EJSON.stringify(expected, { relaxed: false }));
});

it.each(refusals)('%j is refused with %i', async (expression, code) => {
  const refused = (error: { code: unknown }): number => Number(error.code);
  expect(await evaluated(expression).catch(refused)).toBe(code);
});
