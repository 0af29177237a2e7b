import { BsonType, someField, valueSize, type Value } from './values.js';
import { exactParts, type Remainder } from './numbers.js';

/**
 * Order-preserving keys: comparing two keys byte by byte is comparing the two values in MongoDB's order
 * (types first, then numbers by value whatever their type, strings by UTF-8 bytes, binaries by length, subtype
 * and bytes, documents field by field). Equal keys mean equal values.
 */
const rank: Readonly<Record<number, number>> = {
  [BsonType.minKey]: 0x05,
  [BsonType.missing]: 0x10,
  [BsonType.null]: 0x10,
  [BsonType.int32]: 0x20,
  [BsonType.double]: 0x20,
  [BsonType.int64]: 0x20,
  [BsonType.decimal]: 0x20,
  [BsonType.string]: 0x30,
  [BsonType.object]: 0x40,
  [BsonType.array]: 0x48,
  [BsonType.binary]: 0x50,
  [BsonType.objectId]: 0x60,
  [BsonType.boolean]: 0x70,
  [BsonType.date]: 0x78,
  [BsonType.timestamp]: 0x80,
  [BsonType.regex]: 0x88,
  [BsonType.maxKey]: 0xf0,
};

/** The key an empty array has in an index: below null, above MinKey. */
export const emptyArrayRank = 0x0a;
export const nullRank = 0x10;

/** First key byte of a type; values compare with `$gt` and its like only inside one rank. */
export function rankOf(type: number): number {
  const found = rank[type];
  if (found === undefined) throw new Error(`BSON type ${type} has no order`);
  return found;
}

/** Builds keys; `length` may be set back to reuse what was written before it. */
export class KeyWriter {
  bytes = Buffer.allocUnsafe(1024);
  length = 0;

  private reserve(size: number): void {
    if (this.length + size <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.length + size, this.bytes.length * 2));
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }

  byte(value: number): void {
    this.reserve(1);
    this.bytes[this.length++] = value;
  }

  raw(source: Buffer, from: number, to: number): void {
    this.reserve(to - from);
    this.length += source.copy(this.bytes, this.length, from, to);
  }

  /** Complements everything from `from` on: a descending component. */
  invert(from: number): void {
    for (let i = from; i < this.length; i++) this.bytes[i] = ~(this.bytes[i] as number) & 0xff;
  }

  value(value: Value): void {
    const { type, bytes, at } = value;
    this.byte(rankOf(type));
    switch (type) {
      case BsonType.int32:
        return this.double(bytes.readInt32LE(at), undefined);
      case BsonType.double:
        return this.double(bytes.readDoubleLE(at), undefined);
      case BsonType.int64:
      case BsonType.decimal: {
        const parts = exactParts(value);
        return this.double(parts.nearest, parts.remainder);
      }
      case BsonType.string:
        return this.text(bytes, at + 4, at + 3 + bytes.readInt32LE(at));
      case BsonType.object:
      case BsonType.array:
        return this.fields(value);
      case BsonType.binary: {
        this.reserve(4);
        this.length = this.bytes.writeUInt32BE(bytes.readInt32LE(at), this.length);
        return this.raw(bytes, at + 4, at + valueSize(bytes, type, at));
      }
      case BsonType.boolean:
      case BsonType.objectId:
        return this.raw(bytes, at, at + valueSize(bytes, type, at));
      case BsonType.date: {
        this.bigEndian(bytes, at);
        const first = this.length - 8;
        this.bytes[first] = (this.bytes[first] as number) ^ 0x80;
        return;
      }
      case BsonType.timestamp:
        return this.bigEndian(bytes, at);
      case BsonType.regex: {
        const sourceEnd = bytes.indexOf(0, at);
        this.text(bytes, at, sourceEnd);
        return this.text(bytes, sourceEnd + 1, bytes.indexOf(0, sourceEnd + 1));
      }
    }
  }

  private bigEndian(bytes: Buffer, at: number): void {
    this.reserve(8);
    this.length = this.bytes.writeBigUInt64BE(bytes.readBigUInt64LE(at), this.length);
  }

  private fields(document: Value): void {
    const { bytes } = document;
    const named = document.type === BsonType.object;
    someField(bytes, document.at, (type, nameAt, nameEnd, at) => {
      if (named) {
        this.byte(rankOf(type));
        this.text(bytes, nameAt, nameEnd);
      }
      this.value({ type, bytes, at });
      return false;
    });
    this.byte(0);
  }

  /** Zero bytes are escaped so that the end mark sorts before every longer text. */
  private text(source: Buffer, from: number, to: number): void {
    const zero = source.indexOf(0, from);
    if (zero < 0 || zero >= to) this.raw(source, from, to);
    else
      for (let i = from; i < to; i++) {
        this.byte(source[i] as number);
        if (source[i] === 0) this.byte(0xff);
      }
    this.byte(0);
    this.byte(1);
  }

  /** NaN sorts before every number, as MongoDB has it. */
  private double(nearest: number, remainder: Remainder | undefined): void {
    this.reserve(9);
    const start = this.length;
    if (Number.isNaN(nearest)) this.bytes.fill(0, start, start + 8);
    else this.bytes.writeDoubleBE(nearest === 0 ? 0 : nearest, start);
    this.length += 8;
    if (nearest < 0) this.invert(start);
    else if (!Number.isNaN(nearest)) this.bytes[start] = (this.bytes[start] as number) | 0x80;
    if (!remainder) return this.byte(0x80);
    this.byte(remainder.negative ? 0x7f : 0x81);
    const from = this.length;
    this.reserve(remainder.digits.length + 3);
    this.length = this.bytes.writeUInt16BE(remainder.magnitude + 0x8000, this.length);
    this.length += this.bytes.write(remainder.digits, this.length, 'latin1');
    this.byte(0);
    if (remainder.negative) this.invert(from);
  }
}

const scratch = new KeyWriter();

/** The key of one value, as a buffer of its own. */
export function keyOf(value: Value): Buffer {
  scratch.length = 0;
  scratch.value(value);
  return Buffer.from(scratch.bytes.subarray(0, scratch.length));
}

/** How the value stands to a key made by `keyOf`: negative, 0 or positive. */
export function compareToKey(value: Value, key: Buffer): number {
  scratch.length = 0;
  scratch.value(value);
  return scratch.bytes.compare(key, 0, key.length, 0, scratch.length);
}

/** The key as a string fit for maps and sets. */
export function keyText(value: Value): string {
  scratch.length = 0;
  scratch.value(value);
  return scratch.bytes.toString('latin1', 0, scratch.length);
}

export const compareValues = (a: Value, b: Value): number => compareToKey(a, keyOf(b));

export const equalValues = (a: Value, b: Value): boolean => compareValues(a, b) === 0;
