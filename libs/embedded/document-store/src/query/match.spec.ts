import {
  Binary,
  BSONRegExp,
  Decimal128,
  Double,
  Int32,
  Long,
  MaxKey,
  MinKey,
  ObjectId,
  Timestamp,
  UUID,
  serialize,
} from 'bson';
import { documentValue } from '../bson/values.js';
import type { StoreError } from '../errors.js';
import { compileFilter } from './match.js';

type Doc = Record<string, unknown>;
const raw = (document: Doc) => documentValue(Buffer.from(serialize(document, { ignoreUndefined: true })));
const matching = (documents: Doc[], filter: Doc): number[] => {
  const test = compileFilter(raw(filter));
  return documents.flatMap((document, i) => (test(raw(document)) ? [i] : []));
};

const long = (digits: string) => Long.fromString(digits);
const decimal = (digits: string) => Decimal128.fromString(digits);
const bytes = (...values: number[]) => new Binary(Buffer.from(values));
const [id1, id2] = [new ObjectId('000000000000000000000001'), new ObjectId('000000000000000000000002')];
const uuid = new UUID('00000000-0000-4000-8000-000000000001');

/** What a filter matches, by position; from MongoDB's documentation of its operators. */
const cases: [name: string, documents: Doc[], filter: Doc, matched: number[]][] = [
  ['null matches null and missing', [{ a: null }, {}, { a: 0 }], { a: null }, [0, 1]],
  ['$ne null', [{ a: null }, {}, { a: 0 }], { a: { $ne: null } }, [2]],
  ['$gte null', [{ a: null }, {}, { a: 1 }], { a: { $gte: null } }, [0, 1]],
  ['$gt null matches nothing', [{ a: null }, {}, { a: 1 }], { a: { $gt: null } }, []],
  ['$exists counts null as there', [{ a: null }, {}], { a: { $exists: true } }, [0]],
  ['$exists false', [{ a: null }, {}], { a: { $exists: false } }, [1]],
  [
    'null below a scalar and an empty document',
    [{ a: 4 }, { a: { b: 1 } }, { a: {} }],
    { 'a.b': null },
    [0, 2],
  ],
  ['null in an array of documents', [{ a: [{ b: 1 }, {}] }, { a: [{ b: 1 }] }], { 'a.b': null }, [0]],
  ['null below an array of scalars or an empty one', [{ a: [1] }, { a: [] }], { 'a.b': null }, []],
  ['$in with null', [{ a: null }, {}, { a: 1 }, { a: 2 }], { a: { $in: [null, 1] } }, [0, 1, 2]],
  ['$nin matches missing', [{}, { a: 1 }], { a: { $nin: [1] } }, [0]],
  ['$not of a range matches missing', [{}, { a: 5 }, { a: 1 }], { a: { $not: { $gt: 2 } } }, [0, 2]],
  ['an element', [{ a: [1, 2] }, { a: 3 }], { a: 2 }, [0]],
  ['a whole array, in order', [{ a: [1, 2] }, { a: [2, 1] }], { a: [1, 2] }, [0]],
  ['an array as an element', [{ a: [[1, 2], 3] }], { a: [1, 2] }, [0]],
  ['arrays are opened one level', [{ a: [[1, 2]] }], { a: 1 }, []],
  ['a range met by two elements', [{ a: [1, 10] }], { a: { $gt: 4, $lt: 6 } }, [0]],
  [
    '$elemMatch wants one element',
    [{ a: [1, 10] }, { a: [5] }],
    { a: { $elemMatch: { $gt: 4, $lt: 6 } } },
    [1],
  ],
  [
    '$elemMatch on documents',
    [
      {
        a: [
          { x: 1, y: 2 },
          { x: 2, y: 1 },
        ],
      },
    ],
    { a: { $elemMatch: { x: 1, y: 1 } } },
    [],
  ],
  ['$elemMatch needs an array', [{ a: { x: 1 } }], { a: { $elemMatch: { x: 1 } } }, []],
  ['$size', [{ a: [1, 2] }, { a: [] }, { a: 1 }], { a: { $size: 0 } }, [1]],
  ['$all on arrays and scalars', [{ a: [1, 2, 3] }, { a: 1 }], { a: { $all: [1] } }, [0, 1]],
  ['$all of nothing', [{ a: [1] }, {}], { a: { $all: [] } }, []],
  [
    '$all with $elemMatch',
    [{ a: [{ x: 1 }, { x: 2 }] }, { a: [{ x: 1 }] }],
    { a: { $all: [{ $elemMatch: { x: 1 } }, { $elemMatch: { x: 2 } }] } },
    [0],
  ],
  ['a position in a path', [{ a: [{ b: 1 }, { b: 2 }] }, { a: [{ b: 2 }] }], { 'a.0.b': 1 }, [0]],
  ['a number as a field name', [{ a: { 0: { b: 1 } } }], { 'a.0.b': 1 }, [0]],
  ['a path through an array', [{ a: [{ b: 1 }, { b: 2 }] }], { 'a.b': 2 }, [0]],
  ['a path through two arrays', [{ a: [{ b: [{ c: 1 }] }, { b: [{ c: 2 }] }] }], { 'a.b.c': 2 }, [0]],
  ['$ne of an element', [{ a: [1, 2] }, { a: [3] }], { a: { $ne: 1 } }, [1]],
  ['arrays compare as arrays', [{ a: [2, 1] }, { a: [1, 5] }], { a: { $gt: [1, 9] } }, [0]],
  [
    'ranges stay in their type',
    [{ a: 6 }, { a: '6' }, { a: null }, { a: new Date(10) }],
    { a: { $gt: 5 } },
    [0],
  ],
  ['strings by bytes', [{ a: 'Z' }, { a: 'a' }, { a: 'é' }, { a: 1 }], { a: { $gt: 'Zz' } }, [1, 2]],
  ['booleans', [{ a: true }, { a: false }, { a: 1 }], { a: { $gt: false } }, [0]],
  ['beyond MinKey', [{ a: 1 }, { a: 'x' }], { a: { $gt: new MinKey() } }, [0, 1]],
  ['below MaxKey', [{ a: 1 }, { a: new MaxKey() }], { a: { $lt: new MaxKey() } }, [0]],
  ['NaN is below no number', [{ a: NaN }, { a: 1 }], { a: { $lt: 5 } }, [1]],
  ['NaN equals NaN', [{ a: NaN }, { a: decimal('NaN') }, { a: 1 }], { a: NaN }, [0, 1]],
  [
    'numbers whatever their type',
    [{ a: 5 }, { a: long('5') }, { a: new Double(5) }, { a: decimal('5.00') }, { a: '5' }],
    { a: new Int32(5) },
    [0, 1, 2, 3],
  ],
  [
    'large integers exactly',
    [{ a: long('9007199254740993') }, { a: long('9007199254740992') }],
    { a: long('9007199254740993') },
    [0],
  ],
  [
    'a large integer against a double',
    [{ a: long('9007199254740993') }, { a: 9007199254740992 }],
    { a: { $gt: 9007199254740992 } },
    [0],
  ],
  ['decimals exactly', [{ a: decimal('0.1') }, { a: 0.1 }], { a: decimal('0.10') }, [0]],
  ['a decimal against a double', [{ a: decimal('0.1') }, { a: 0.1 }], { a: { $gt: decimal('0.1') } }, [1]],
  [
    '$mod on every integer type',
    [{ a: 10 }, { a: long('10') }, { a: 10.9 }, { a: 'x' }],
    { a: { $mod: [5, 0] } },
    [0, 1, 2],
  ],
  ['$type by name', [{ a: new Double(1) }, { a: 1 }], { a: { $type: 'int' } }, [1]],
  ['$type number', [{ a: 1.5 }, { a: '1' }, { a: long('1') }], { a: { $type: 'number' } }, [0, 2]],
  ['$type array', [{ a: [1] }, { a: 1 }], { a: { $type: 'array' } }, [0]],
  ['$type of elements', [{ a: ['x'] }, { a: [1] }], { a: { $type: 'string' } }, [0]],
  ['ObjectIds', [{ a: id1 }, { a: id2 }, { a: id2.toHexString() }], { a: { $gt: id1 } }, [1]],
  ['binaries by bytes', [{ a: bytes(255, 1) }, { a: bytes(254, 1) }], { a: bytes(255, 1) }, [0]],
  ['binaries by length first', [{ a: bytes(1, 1) }, { a: bytes(255) }], { a: { $gt: bytes(200) } }, [0, 1]],
  ['UUIDs', [{ a: uuid }, { a: new Binary(uuid.buffer, 0) }], { a: new UUID(uuid.toString()) }, [0]],
  ['dates', [{ a: new Date(5) }, { a: new Date(-6) }, { a: 5 }], { a: { $lte: new Date(5) } }, [0, 1]],
  [
    'timestamps',
    [{ a: new Timestamp({ t: 5, i: 1 }) }, { a: new Timestamp({ t: 50, i: 1 }) }],
    { a: { $gt: new Timestamp({ t: 9, i: 1 }) } },
    [1],
  ],
  [
    'documents in their order',
    [{ a: { x: 1, y: 2 } }, { a: { y: 2, x: 1 } }, { a: { x: 1 } }],
    { a: { x: 1, y: 2 } },
    [0],
  ],
  [
    'documents compare field by field',
    [{ a: { x: 2 } }, { a: { x: 0 } }, { a: 7 }],
    { a: { $gt: { x: 1 } } },
    [0],
  ],
  [
    '$or, $and, $nor',
    [{ a: 1 }, { b: 1 }, { c: 1 }],
    { $and: [{ $or: [{ a: 1 }, { b: 1 }] }, { $nor: [{ b: 1 }] }] },
    [0],
  ],
  ['several operators on one field', [{ a: 1 }, { a: 2 }, { a: 3 }], { a: { $gt: 1, $ne: 3 } }, [1]],
  ['an expression', [{ a: 'Hello' }, { a: 'hello' }, { a: 5 }], { a: /^he/i }, [0, 1]],
  [
    '$regex with options',
    [{ a: 'x\nfoo' }, { a: 'foo\nx' }],
    { a: { $regex: '^foo$', $options: 'm' } },
    [0, 1],
  ],
  ['$ before a last newline', [{ a: 'foo\n' }, { a: 'foo\nx' }], { a: { $regex: 'foo$' } }, [0]],
  ['a dot is not a newline', [{ a: 'a\nb' }, { a: 'a\rb' }], { a: { $regex: 'a.b' } }, [1]],
  ['an escaped dollar', [{ a: 'costs $5' }, { a: 'costs 5' }], { a: { $regex: 'costs \\$\\d' } }, [0]],
  ['$in with an expression', [{ a: 'abc' }, { a: 'b' }, { a: 'c' }], { a: { $in: [/^a/, 'b'] } }, [0, 1]],
  ['$not with an expression', [{ a: 'abc' }, { a: 'b' }, {}], { a: { $not: /^a/ } }, [1, 2]],
  [
    '$expr compares fields',
    [{ a: 1, b: 2 }, { a: 2, b: 1 }, { b: 0 }],
    { $expr: { $gt: ['$b', '$a'] } },
    [0, 2],
  ],
  [
    '$expr with numbers of other types',
    [{ a: long('5') }, { a: new Double(5) }],
    { $expr: { $eq: ['$a', 5] } },
    [0, 1],
  ],
  [
    '$bitsAllSet by positions',
    [{ a: 5 }, { a: 4 }, { a: 5.5 }, { a: 'x' }],
    { a: { $bitsAllSet: [0, 2] } },
    [0],
  ],
  ['$bitsAnyClear by mask', [{ a: 5 }, { a: 7 }], { a: { $bitsAnyClear: 7 } }, [0]],
  ['$bits of a negative number', [{ a: -1 }, { a: 1 }], { a: { $bitsAllSet: [0, 40] } }, [0]],
  ['$bits of a binary', [{ a: bytes(1, 1) }, { a: bytes(1) }], { a: { $bitsAllSet: [8] } }, [0]],
  [
    '$jsonSchema',
    [{ n: 5, t: 'ab' }, { n: 5 }, { n: 'x', t: 'ab' }, { n: 50, t: 'ab' }, { n: 5, t: 'a' }],
    {
      $jsonSchema: {
        required: ['n', 't'],
        properties: { n: { bsonType: ['int', 'long'], maximum: 10 }, t: { type: 'string', minLength: 2 } },
      },
    },
    [0],
  ],
  [
    '$jsonSchema with items and additional properties',
    [{ a: [1, 2] }, { a: [1, 'x'] }, { a: [1, 1] }, { a: [1], b: 1 }],
    {
      $jsonSchema: {
        properties: { a: { items: { type: 'number' }, uniqueItems: true } },
        additionalProperties: false,
      },
    },
    [0],
  ],
  ['a stored expression', [{ a: new BSONRegExp('^a', 'i') }, { a: new BSONRegExp('^a') }], { a: /^a/i }, [0]],
];

it.each(cases)('matches %s', (_name, documents, filter, matched) => {
  expect(matching(documents, filter)).toEqual(matched);
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

const refusals: [filter: Doc, code: number][] = [
  [{ a: { $foo: 1 } }, 2],
  [{ $foo: 1 }, 2],
  [{ $expr: { $foo: 1 } }, 168],
  [{ $expr: '$$x' }, 17276],
  [{ $expr: { $function: { body: '', args: [], lang: 'js' } } }, 238],
  [{ $jsonSchema: { foo: 1 } }, 9],
  [{ $jsonSchema: { minimum: 'x' } }, 14],
  [{ a: { $bitsAllSet: -1 } }, 2],
  [{ $where: 'true' }, 238],
  [{ a: { $in: 1 } }, 2],
  [{ a: { $in: [{ $gt: 1 }] } }, 2],
  [{ $or: [] }, 2],
  [{ $and: [1] }, 2],
  [{ a: { $mod: [0, 1] } }, 2],
  [{ a: { $size: -1 } }, 2],
  [{ a: { $type: 'nonsense' } }, 2],
  [{ a: { $not: 1 } }, 2],
  [{ a: { $options: 'i' } }, 2],
  [{ a: { $regex: 'a(?P<x>b)' } }, 238],
  [{ a: { $regex: 'a++' } }, 238],
  [{ a: { $regex: '(' } }, 2],
  [{ a: { $regex: 'a', $options: 'x' } }, 238],
  [{ a: { $elemMatch: 1 } }, 2],
  [{ a: { $all: 1 } }, 2],
];

it.each(refusals)('refuses %j with %i', (filter, code) => {
  expect(codeOf(() => compileFilter(raw(filter)))).toBe(code);
});
