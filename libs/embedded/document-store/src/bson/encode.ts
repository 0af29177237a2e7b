import { randomBytes } from 'node:crypto';
import { BsonType, documentValue, fieldsOf, someField, valueSize, type Value } from './values.js';

/** An embedded value opened for change; what is not opened stays the raw bytes it was. */
export type Node = Value | DocumentNode | ArrayNode;

export class DocumentNode {
  constructor(readonly entries: [name: string, node: Node][] = []) {}

  static of(document: Value): DocumentNode {
    return new DocumentNode(fieldsOf(document).map((field) => [field.name, field]));
  }

  get(name: string): Node | undefined {
    return this.entries.find(([known]) => known === name)?.[1];
  }

  /** Replaces in place, or appends: field order is kept. */
  set(name: string, node: Node): void {
    const entry = this.entries.find(([known]) => known === name);
    if (entry) entry[1] = node;
    else this.entries.push([name, node]);
  }

  delete(name: string): boolean {
    const index = this.entries.findIndex(([known]) => known === name);
    if (index >= 0) this.entries.splice(index, 1);
    return index >= 0;
  }
}

export class ArrayNode {
  constructor(readonly items: Node[] = []) {}

  static of(array: Value): ArrayNode {
    return new ArrayNode(fieldsOf(array));
  }
}

/** A raw value inside a plain answer. */
export class Raw {
  constructor(readonly value: Value) {}

  static document(bytes: Buffer): Raw {
    return new Raw(documentValue(bytes));
  }
}

/** Answers are written from plain values: whole numbers in range become Int32, other numbers Double, bigint Int64. */
export type Plain =
  | null
  | undefined
  | boolean
  | number
  | bigint
  | string
  | Date
  | Raw
  | DocumentNode
  | ArrayNode
  | readonly Plain[]
  | PlainDocument;
export interface PlainDocument {
  readonly [name: string]: Plain;
}

class BsonWriter {
  bytes = Buffer.allocUnsafe(4096);
  length = 0;

  private reserve(size: number): void {
    if (this.length + size <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.length + size, this.bytes.length * 2));
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }

  private header(type: number, name: string): void {
    this.reserve(name.length * 3 + 24);
    this.bytes[this.length++] = type;
    this.length += this.bytes.write(name, this.length);
    this.bytes[this.length++] = 0;
  }

  document(write: () => void): void {
    this.reserve(5);
    const start = this.length;
    this.length += 4;
    write();
    this.reserve(1);
    this.bytes[this.length++] = 0;
    this.bytes.writeInt32LE(this.length - start, start);
  }

  value(name: string, value: Value): void {
    this.header(value.type, name);
    const size = valueSize(value.bytes, value.type, value.at);
    this.reserve(size);
    this.length += value.bytes.copy(this.bytes, this.length, value.at, value.at + size);
  }

  node(name: string, node: Node): void {
    if (node instanceof DocumentNode) {
      this.header(BsonType.object, name);
      this.document(() => node.entries.forEach(([key, child]) => this.node(key, child)));
    } else if (node instanceof ArrayNode) {
      this.header(BsonType.array, name);
      this.document(() => node.items.forEach((child, index) => this.node(String(index), child)));
    } else this.value(name, node);
  }

  plain(name: string, plain: Plain): void {
    if (plain === undefined) return;
    if (plain === null) return this.header(BsonType.null, name);
    if (plain instanceof Raw) return this.value(name, plain.value);
    if (plain instanceof DocumentNode || plain instanceof ArrayNode) return this.node(name, plain);
    if (plain instanceof Date) return this.int64(BsonType.date, name, BigInt(plain.getTime()));
    if (typeof plain === 'bigint') return this.int64(BsonType.int64, name, plain);
    if (typeof plain === 'number') return this.number(name, plain);
    if (typeof plain === 'string') return this.text(name, plain);
    if (typeof plain === 'boolean') {
      this.header(BsonType.boolean, name);
      this.bytes[this.length++] = plain ? 1 : 0;
      return;
    }
    this.header(Array.isArray(plain) ? BsonType.array : BsonType.object, name);
    this.document(() => Object.entries(plain).forEach(([key, child]) => this.plain(key, child)));
  }

  private int64(type: number, name: string, value: bigint): void {
    this.header(type, name);
    this.length = this.bytes.writeBigInt64LE(value, this.length);
  }

  private number(name: string, value: number): void {
    const whole = Number.isInteger(value) && Math.abs(value) < 2 ** 31 && !Object.is(value, -0);
    this.header(whole ? BsonType.int32 : BsonType.double, name);
    this.length = whole
      ? this.bytes.writeInt32LE(value, this.length)
      : this.bytes.writeDoubleLE(value, this.length);
  }

  private text(name: string, value: string): void {
    this.header(BsonType.string, name);
    const size = Buffer.byteLength(value) + 1;
    this.reserve(size + 4);
    this.length = this.bytes.writeInt32LE(size, this.length);
    this.length += this.bytes.write(value, this.length);
    this.bytes[this.length++] = 0;
  }

  /** What was written; a large buffer is given away instead of being copied. */
  take(): Buffer {
    const written = this.bytes.subarray(0, this.length);
    this.length = 0;
    if (this.bytes.length <= 1 << 20) return Buffer.from(written);
    this.bytes = Buffer.allocUnsafe(4096);
    return written;
  }
}

const writer = new BsonWriter();

/** An array made element by element, so that a long one need not be encoded at once. */
export class ArrayWriter {
  count = 0;
  private bytes = Buffer.allocUnsafe(512);
  private length = 4;

  add({ type, bytes, at }: Value): void {
    const size = valueSize(bytes, type, at);
    this.reserve(size + 16);
    this.bytes[this.length++] = type;
    this.length += this.bytes.write(String(this.count++), this.length, 'latin1');
    this.bytes[this.length++] = 0;
    this.length += bytes.copy(this.bytes, this.length, at, at + size);
  }

  /** To be called once: the array may lie in the writer's own bytes. */
  finish(): Raw {
    this.reserve(1);
    this.bytes[this.length++] = 0;
    this.bytes.writeInt32LE(this.length, 0);
    return new Raw({ type: BsonType.array, bytes: this.bytes.subarray(0, this.length), at: 0 });
  }

  private reserve(size: number): void {
    if (this.length + size <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.length + size, this.bytes.length * 2));
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }
}

export function encodePlain(document: PlainDocument): Buffer {
  writer.length = 0;
  writer.document(() => Object.entries(document).forEach(([name, plain]) => writer.plain(name, plain)));
  return writer.take();
}

export function encodeNode(document: DocumentNode): Buffer {
  writer.length = 0;
  writer.document(() => document.entries.forEach(([name, node]) => writer.node(name, node)));
  return writer.take();
}

/** A raw value made from a plain one. */
export function toValue(plain: Plain): Value {
  const bytes = encodePlain({ v: plain });
  return { type: bytes[4] as number, bytes, at: 7 };
}

/** The raw value of a node, opened or not. */
export function nodeValue(node: Node): Value {
  if (!(node instanceof DocumentNode) && !(node instanceof ArrayNode)) return node;
  return toValue(node);
}

/** The document with one field put first; used for `_id`, which always leads. */
export function withFirst(name: string, value: Value, document: Buffer): Buffer {
  writer.length = 0;
  writer.document(() => {
    writer.value(name, value);
    someField(document, 0, (type, nameAt, nameEnd, at) => {
      const known = document.toString('utf8', nameAt, nameEnd);
      if (known !== name) writer.value(known, { type, bytes: document, at });
      return false;
    });
  });
  return writer.take();
}

const processPart = randomBytes(5);
let counter = randomBytes(3).readUIntBE(0, 3);

/** A fresh ObjectId: seconds, a random part of this process, a counter. */
export function newObjectId(): Value {
  const bytes = Buffer.allocUnsafe(12);
  bytes.writeUInt32BE(Math.floor(Date.now() / 1000), 0);
  processPart.copy(bytes, 4);
  counter = (counter + 1) % 0x1000000;
  bytes.writeUIntBE(counter, 9, 3);
  return { type: BsonType.objectId, bytes, at: 0 };
}
