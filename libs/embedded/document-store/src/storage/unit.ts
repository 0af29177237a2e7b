import { StoreError } from '../errors.js';
import { withFirst, newObjectId, encodePlain, Raw, type Plain } from '../bson/encode.js';
import { BsonType, field, fieldsOf, type Value, documentValue } from '../bson/values.js';
import { render } from '../bson/render.js';
import type { Catalogue, Collection, Index } from './catalogue.js';
import { keysKept, recordKey } from './catalogue.js';
import type { IndexKey } from './index-keys.js';
import { Layer, type Piece, type Range, type Table, type View } from './layers.js';

/** Largest document kept, in bytes. */
export const maximumDocument = 16 * 1024 * 1024;

/** A stored document with its record id. */
export interface StoredDocument {
  readonly record: number;
  readonly bytes: Buffer;
}

/** Called before a document or a unique key changes; throws when another transaction owns it. */
export type Claim = (table: Table, key: Buffer) => void;

/**
 * A unit of work: changes to documents and their index entries, collected in a layer. Every operation checks first
 * and writes then, so that a refused one leaves no trace and the unit goes on without it.
 */
export class Unit implements View {
  readonly layer = new Layer();
  private readonly view: View;

  constructor(
    below: View,
    private readonly catalogue: Catalogue,
    private readonly claim: Claim,
  ) {
    this.view = this.layer.over(below);
  }

  get(table: Table, key: Buffer): Buffer | undefined {
    return this.view.get(table, key);
  }

  read(table: Table, range: Range, limit: number): Piece {
    return this.view.read(table, range, limit);
  }

  document(collection: Collection, record: number): StoredDocument | undefined {
    const bytes = this.get(collection.records, recordKey(record));
    return bytes && { record, bytes };
  }

  /** Inserts and answers the document as stored, its `_id` first (a fresh ObjectId when it has none). */
  insert(collection: Collection, document: Buffer): Buffer {
    const stored = prepared(document);
    const entries = this.keysOf(collection, stored);
    const record = recordKey(collection.nextRecord++);
    for (const { index, keys } of entries) this.checkUnique(collection, index, keys, record);
    for (const { index, keys } of entries) for (const { key } of keys) this.addEntry(index, key, record);
    this.claim(collection.records, record);
    this.layer.set(collection.records, record, stored);
    return stored;
  }

  /** Replaces a document by one with the same `_id`. */
  replace(collection: Collection, old: StoredDocument, document: Buffer): void {
    checkSize(document);
    const record = recordKey(old.record);
    this.claim(collection.records, record);
    const changes = collection.indexes.map((index) => {
      const before = this.keysIn(collection, index, old.bytes);
      const after = this.keysIn(collection, index, document);
      return { index, gone: without(before, after), fresh: without(after, before) };
    });
    for (const { index, fresh } of changes) this.checkUnique(collection, index, fresh, record);
    for (const { index, gone } of changes) for (const { key } of gone) this.dropEntry(index, key, record);
    for (const { index, fresh } of changes) for (const { key } of fresh) this.addEntry(index, key, record);
    this.layer.set(collection.records, record, document);
  }

  remove(collection: Collection, old: StoredDocument): void {
    const record = recordKey(old.record);
    this.claim(collection.records, record);
    for (const { index, keys } of this.keysOf(collection, old.bytes))
      for (const { key } of keys) this.dropEntry(index, key, record);
    this.layer.set(collection.records, record, undefined);
  }

  /** Adds one document to an index under construction. */
  fill(collection: Collection, index: Index, document: StoredDocument): void {
    const keys = this.keysIn(collection, index, document.bytes);
    const record = recordKey(document.record);
    this.checkUnique(collection, index, keys, record);
    for (const { key } of keys) this.addEntry(index, key, record);
  }

  private keysOf(collection: Collection, document: Buffer): { index: Index; keys: readonly IndexKey[] }[] {
    return collection.indexes.map((index) => ({ index, keys: this.keysIn(collection, index, document) }));
  }

  private keysIn(collection: Collection, index: Index, document: Buffer): readonly IndexKey[] {
    const traits = { mask: 0 };
    const keys = keysKept(index, document, traits);
    if (traits.mask !== 0) this.catalogue.noteTraits(collection, index, traits.mask);
    return keys;
  }

  private checkUnique(collection: Collection, index: Index, keys: readonly IndexKey[], record: Buffer): void {
    if (!index.unique) return;
    for (const key of keys) {
      this.claim(index.table, key.key);
      const holder = this.get(index.table, key.key);
      if (holder && !holder.equals(record)) throw duplicateKey(collection, index, key);
    }
  }

  private addEntry(index: Index, key: Buffer, record: Buffer): void {
    if (index.unique) this.layer.set(index.table, key, record);
    else this.layer.set(index.table, Buffer.concat([key, record]), nothing);
  }

  private dropEntry(index: Index, key: Buffer, record: Buffer): void {
    if (index.unique) this.claim(index.table, key);
    this.layer.set(index.table, index.unique ? key : Buffer.concat([key, record]), undefined);
  }
}

const nothing = Buffer.alloc(0);

const without = (keys: readonly IndexKey[], others: readonly IndexKey[]): readonly IndexKey[] =>
  keys.filter(({ key }) => !others.some((other) => other.key.equals(key)));

function checkSize(document: Buffer): void {
  if (document.length > maximumDocument)
    throw new StoreError(
      10334,
      `BSONObj size: ${document.length} is invalid. Size must be between 0 and ${maximumDocument}`,
    );
}

function prepared(document: Buffer): Buffer {
  const id = field(documentValue(document), '_id');
  const leads = document.toString('latin1', 5, 9) === '_id\0';
  const stored = id && leads ? document : withFirst('_id', id ?? newObjectId(), document);
  if (id) checkId(id);
  checkSize(stored);
  return stored;
}

function checkId(id: Value): void {
  if (id.type === BsonType.array || id.type === BsonType.regex)
    throw new StoreError(
      53,
      `The '_id' value cannot be of type ${id.type === BsonType.array ? 'array' : 'regex'}`,
    );
  const dollar =
    id.type === BsonType.object ? fieldsOf(id).find(({ name }) => name.startsWith('$')) : undefined;
  if (dollar)
    throw new StoreError(
      52,
      `_id fields may not contain '$'-prefixed fields: ${dollar.name} is not valid for storage.`,
    );
}

function duplicateKey(collection: Collection, index: Index, { values }: IndexKey): StoreError {
  const names = index.fields.map(({ path }) => path.text);
  const shown = names.map((name, i) => `${name}: ${render(values[i] as Value)}`).join(', ');
  const keyValue = Object.fromEntries(
    names.map((name, i): [string, Plain] => {
      const value = values[i] as Value;
      return [name, value.type <= 0 ? null : new Raw(value)];
    }),
  );
  return new StoreError(
    11000,
    `E11000 duplicate key error collection: ${collection.namespace} index: ${index.name} dup key: { ${shown} }`,
    { keyPattern: new Raw(index.key), keyValue: Raw.document(encodePlain(keyValue)) },
  );
}
