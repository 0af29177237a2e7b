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
  serialize,
} from 'bson';
import fc from 'fast-check';
import { compareValues, keyOf } from './order.js';
import { field, documentValue, type Value } from './values.js';

const value = (plain: unknown): Value =>
  field(documentValue(Buffer.from(serialize({ v: plain }))), 'v') as Value;
const bytes = (...values: number[]) => new Binary(Buffer.from(values));

/** MongoDB's order of all kept types; members of one row are equal. */
const ascending: unknown[][] = [
  [new MinKey()],
  [null],
  [NaN, Decimal128.fromString('NaN')],
  [-Infinity, Decimal128.fromString('-Infinity')],
  [Decimal128.fromString('-1E+6000')],
  [-Number.MAX_VALUE],
  [Long.MIN_VALUE, -(2 ** 63)],
  [new Int32(-1), new Double(-1), Long.fromNumber(-1), Decimal128.fromString('-1.0')],
  [Decimal128.fromString('-1E-6000')],
  [0, new Double(-0), Decimal128.fromString('0E+5')],
  [Decimal128.fromString('1E-6000')],
  [Number.MIN_VALUE],
  [Decimal128.fromString('0.1')],
  [0.1],
  [Long.fromString('9007199254740992'), 9007199254740992],
  [Long.fromString('9007199254740993'), Decimal128.fromString('9007199254740993')],
  [Decimal128.fromString('9007199254740993.5')],
  [Long.fromString('9007199254740994'), 9007199254740994],
  [Long.MAX_VALUE],
  [2 ** 63],
  [Number.MAX_VALUE],
  [Decimal128.fromString('1E+6000')],
  [Infinity],
  [''],
  ['a'],
  ['a\0'],
  ['a\0b'],
  ['ab'],
  ['z'],
  ['é'],
  ['😀'],
  [{}],
  [{ a: 1 }],
  [{ a: 1, b: 1 }],
  [{ b: 1 }],
  [{ a: 'x' }],
  [[]],
  [[1]],
  [[1, 2]],
  [[2]],
  [bytes()],
  [bytes(255)],
  [new Binary(Buffer.from([0]), 4)],
  [bytes(0, 0)],
  [new ObjectId('000000000000000000000001')],
  [new ObjectId('ff0000000000000000000000')],
  [false],
  [true],
  [new Date(-1)],
  [new Date(0)],
  [new Date(8.64e15)],
  [new Timestamp({ t: 1, i: 9 })],
  [new Timestamp({ t: 2, i: 1 })],
  [new BSONRegExp('a')],
  [new BSONRegExp('a', 'i')],
  [new BSONRegExp('b')],
  [new MaxKey()],
];

it('orders all types as MongoDB does', () => {
  const flat = ascending.flatMap((row, rank) => row.map((plain) => ({ rank, value: value(plain) })));
  for (const a of flat)
    for (const b of flat) expect(Math.sign(compareValues(a.value, b.value))).toBe(Math.sign(a.rank - b.rank));
});

const integer = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });

it('compares integers and doubles by their exact values', () => {
  const exact = fc.oneof(
    integer.map((n) => ({ exact: n * 2n ** 60n, value: value(Long.fromBigInt(n)) })),
    fc
      .double({ min: -(2 ** 63), max: 2 ** 63, noNaN: true })
      .filter((n) => Number.isInteger(n * 2 ** 60))
      .map((n) => ({ exact: BigInt(n * 2 ** 60), value: value(new Double(n)) })),
    integer.map((n) => ({ exact: n * 2n ** 60n, value: value(Decimal128.fromString(n.toString())) })),
  );
  fc.assert(
    fc.property(exact, exact, (a, b) => {
      const order = a.exact < b.exact ? -1 : a.exact > b.exact ? 1 : 0;
      expect(Math.sign(compareValues(a.value, b.value))).toBe(order);
    }),
    { numRuns: 500 },
  );
});

it('keeps the order when components follow each other and one is descending', () => {
  const text = fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom('\0', 'a', '\x01', 'ÿ') }));
  fc.assert(
    fc.property(text, text, (a, b) => {
      const order = Buffer.compare(Buffer.from(a), Buffer.from(b));
      expect(Math.sign(keyOf(value(a)).compare(keyOf(value(b))))).toBe(order);
      const follow = (s: string): Buffer => Buffer.concat([keyOf(value(s)), Buffer.from([0xff])]);
      expect(Math.sign(follow(a).compare(follow(b)))).toBe(order);
    }),
    { numRuns: 500 },
  );
});
