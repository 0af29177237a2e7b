import { randomUUID } from 'node:crypto';
import { encodePlain, Raw } from '../bson/encode.js';
import { toDouble } from '../bson/numbers.js';
import * as options from '../bson/options.js';
import { documentValue, fieldsOf, type Value } from '../bson/values.js';
import { StoreError } from '../errors.js';
import { compileFilter, type Predicate } from '../query/match.js';
import { parsePath } from '../query/paths.js';
import {
  cut,
  hasNone,
  indexKeys,
  maximumKey,
  type IndexField,
  type IndexKey,
  type Traits,
} from './index-keys.js';
import { Layer, type Table, type View } from './layers.js';
import { maximumTables, type Storage } from './storage.js';

/** An index as asked for: `key` is the raw `{field: ±1}` document. */
export interface IndexDefinition {
  readonly name: string;
  readonly key: Value;
  readonly fields: readonly IndexField[];
  readonly unique: boolean;
  readonly sparse: boolean;
  /** Only documents of this filter are in the index. */
  readonly partial?: Partial | undefined;
  /** Documents whose date is older than this are removed in the background. */
  readonly expireAfterSeconds?: number | undefined;
}

export interface Partial {
  readonly filter: Value;
  readonly test: Predicate;
}

export const partialOf = (filter: Value): Partial => ({ filter, test: compileFilter(filter) });

export interface Index extends IndexDefinition {
  readonly table: Table;
  /** A bit per field that ever met an array, and `cut` once a key was too long to keep whole. Only grows. */
  multikey: number;
  /** False until its entries are on disk: reads do not use it before. */
  ready: boolean;
}

export interface Collection {
  readonly namespace: string;
  readonly database: string;
  readonly name: string;
  readonly uuid: string;
  readonly records: Table;
  /** `_id_` first. */
  indexes: readonly Index[];
  nextRecord: number;
  /** What the collection was created with: its validator, as `create` and `collMod` take it. */
  options: Value;
  /** Sequence number of the last change to the collection's indexes, or of its creation. */
  changedAt: number;
}

export const indexFields = (key: Value): IndexField[] =>
  fieldsOf(key).map((field) => ({ path: parsePath(field.name), descending: toDouble(field) < 0 }));

/** A collection without a validator. */
export const noOptions = documentValue(encodePlain({}));

export const idKey = documentValue(encodePlain({ _id: 1 }));
const idIndex: IndexDefinition = {
  name: '_id_',
  key: idKey,
  fields: indexFields(idKey),
  unique: true,
  sparse: false,
};

/**
 * Which collections and indexes exist. A change takes effect in memory at once and reaches the file in the layer it
 * was given, together with the data that needed it. Tables of dropped collections are freed after that commit; what
 * a crash leaves over is freed at the next opening.
 */
export class Catalogue {
  private readonly collections = new Map<string, Collection>();
  private readonly meta: Table;
  private readonly spare: Table[] = [];
  private tables = 0;
  private nextTable = 1;

  constructor(private readonly storage: Storage) {
    this.meta = storage.table('catalogue');
  }

  /** Reads the catalogue and frees tables it does not name. */
  async load(): Promise<void> {
    const used = this.read();
    this.tables = used.size;
    for (const name of this.storage.tableNames().filter((known) => /^[ct]\d+$/.test(known))) {
      this.nextTable = Math.max(this.nextTable, Number(name.slice(1)) + 1);
      if (!used.has(name)) await this.storage.drop(this.storage.table(name));
    }
  }

  /** Reads the catalogue, changing nothing; answers the tables it names. */
  read(): ReadonlySet<string> {
    const used = new Set<string>();
    for (const { key, value } of this.storage.latest.read(this.meta, everyName, maximumTables).entries) {
      const collection = this.decode(key.toString(), documentValue(value));
      this.collections.set(collection.namespace, collection);
      [collection.records, ...collection.indexes.map(({ table }) => table)].forEach(({ name }) =>
        used.add(name),
      );
    }
    return used;
  }

  /** Whether the catalogue of a state is this one. */
  isOf(state: View): boolean {
    const { entries } = state.read(this.meta, everyName, maximumTables);
    const same = entries.filter(({ key, value }) => {
      const known = this.collections.get(key.toString());
      return known && encoded(known).equals(value);
    });
    return same.length === entries.length && same.length === this.collections.size;
  }

  /** Forgets what never reached the file; a collection that differs from it is another one from now on. */
  restore(): void {
    const { entries } = this.storage.latest.read(this.meta, everyName, maximumTables);
    const stored = new Map(entries.map(({ key, value }) => [key.toString(), value]));
    for (const [namespace, collection] of this.collections)
      if (stored.get(namespace)?.equals(encoded(collection)) === true) stored.delete(namespace);
      else this.collections.delete(namespace);
    for (const [namespace, value] of stored) {
      const collection = this.decode(namespace, documentValue(value));
      collection.changedAt = ++this.storage.sequence;
      this.collections.set(namespace, collection);
    }
  }

  get(namespace: string): Collection | undefined {
    return this.collections.get(namespace);
  }

  all(): Collection[] {
    return [...this.collections.values()];
  }

  /** A collection nobody sees until `install`. */
  build(namespace: string): Collection {
    const dot = namespace.indexOf('.');
    checkName(namespace, dot);
    return {
      namespace,
      database: namespace.slice(0, dot),
      name: namespace.slice(dot + 1),
      uuid: randomUUID(),
      records: this.newTable(),
      indexes: [this.buildIndex(idIndex, true)],
      nextRecord: 1,
      options: noOptions,
      changedAt: this.storage.sequence,
    };
  }

  buildIndex(definition: IndexDefinition, ready = false): Index {
    return { ...definition, table: this.newTable(), multikey: 0, ready };
  }

  install(collection: Collection, layer: Layer): void {
    this.collections.set(collection.namespace, collection);
    this.changed(collection, layer);
  }

  replaceIndexes(collection: Collection, indexes: readonly Index[], layer: Layer): void {
    collection.indexes = indexes;
    this.changed(collection, layer);
  }

  replaceOptions(collection: Collection, given: Value, layer: Layer): void {
    collection.options = given;
    this.changed(collection, layer);
  }

  /** The collection under another name; what is in it stays where it is. */
  rename(collection: Collection, namespace: string, layer: Layer): Collection {
    const dot = namespace.indexOf('.');
    checkName(namespace, dot);
    this.remove(collection, layer);
    const renamed = {
      ...collection,
      namespace,
      database: namespace.slice(0, dot),
      name: namespace.slice(dot + 1),
    };
    this.install(renamed, layer);
    return renamed;
  }

  remove(collection: Collection, layer: Layer): void {
    this.collections.delete(collection.namespace);
    collection.changedAt = ++this.storage.sequence;
    layer.set(this.meta, Buffer.from(collection.namespace), undefined);
  }

  /** Empties tables once the commit that made them unused is on disk; new collections and indexes take them over. */
  async free(tables: readonly Table[]): Promise<void> {
    for (const table of tables) if (await this.storage.clear(table)) this.spare.push(table);
  }

  /** Notes what keys taught about an index: on disk no later than the document that brought it, and for good. */
  noteTraits(collection: Collection, index: Index, mask: number): void {
    if ((index.multikey | mask) === index.multikey) return;
    index.multikey |= mask;
    if (this.collections.get(collection.namespace) !== collection) return;
    const layer = new Layer();
    this.save(collection, layer);
    void this.storage.merge(layer);
  }

  private changed(collection: Collection, layer: Layer): void {
    collection.changedAt = ++this.storage.sequence;
    this.save(collection, layer);
  }

  private save(collection: Collection, layer: Layer): void {
    layer.set(this.meta, Buffer.from(collection.namespace), encoded(collection));
  }

  private decode(namespace: string, stored: Value): Collection {
    const dot = namespace.indexOf('.');
    const records = this.storage.table(options.text(stored, 'records') ?? '');
    const last = this.storage.lastKey(records);
    return {
      namespace,
      database: namespace.slice(0, dot),
      name: namespace.slice(dot + 1),
      uuid: options.text(stored, 'uuid') ?? '',
      records,
      indexes: fieldsOf(options.array(stored, 'indexes') as Value).map((index) => this.decodeIndex(index)),
      options: options.document(stored, 'options') ?? noOptions,
      nextRecord: last ? last.readUIntBE(0, 6) + 1 : 1,
      changedAt: 0,
    };
  }

  private decodeIndex(stored: Value): Index {
    const key = options.document(stored, 'key') as Value;
    const partial = options.document(stored, 'partial');
    return {
      name: options.text(stored, 'name') ?? '',
      key,
      fields: indexFields(key),
      unique: options.flag(stored, 'unique') === true,
      sparse: options.flag(stored, 'sparse') === true,
      table: this.storage.table(options.text(stored, 'table') ?? ''),
      multikey: Number(options.long(stored, 'multikey') ?? 0n),
      partial: partial && partialOf(partial),
      expireAfterSeconds: options.whole(stored, 'expireAfterSeconds'),
      ready: true,
    };
  }

  /** Tables that were never written to. */
  spareAll(tables: readonly Table[]): void {
    this.spare.push(...tables);
  }

  private newTable(): Table {
    const spare = this.spare.pop();
    if (spare) return this.storage.reborn(spare);
    if (this.tables >= maximumTables)
      throw new StoreError(67, `collections and indexes together are limited to ${maximumTables}`);
    const table = this.storage.table(`c${this.nextTable++}`);
    this.tables++;
    return table;
  }
}

const everyName = { from: Buffer.alloc(0), to: Buffer.from([0xff]) };

/** A collection as the catalogue keeps it. */
function encoded({ records, indexes, uuid, options: given }: Collection): Buffer {
  return encodePlain({
    records: records.name,
    uuid,
    ...(given === noOptions ? {} : { options: new Raw(given) }),
    indexes: indexes.map(({ table, name, key, unique, sparse, multikey, partial, expireAfterSeconds }) => ({
      table: table.name,
      name,
      key: new Raw(key),
      unique,
      sparse,
      multikey,
      partial: partial && new Raw(partial.filter),
      expireAfterSeconds,
    })),
  });
}

/** The keys by which an index holds a document: none when it is outside a partial or sparse one. */
export function keysKept(index: IndexDefinition, document: Buffer, traits: Traits): readonly IndexKey[] {
  if (index.partial && !index.partial.test(documentValue(document))) return [];
  const keys = indexKeys(index.fields, document, traits);
  if (index.name === '_id_' && traits.mask & cut)
    throw new StoreError(17280, `the _id is too long: its key may have ${maximumKey} bytes`);
  return index.sparse && hasNone(keys) ? [] : keys;
}

export const everyRecord = { from: Buffer.alloc(6), to: Buffer.alloc(7, 0xff) };

export const recordKey = (record: number): Buffer => {
  const key = Buffer.allocUnsafe(6);
  key.writeUIntBE(record, 0, 6);
  return key;
};

function checkName(namespace: string, dot: number): void {
  const database = namespace.slice(0, dot);
  const name = namespace.slice(dot + 1);
  if (!/^[^/\\. "$*<>:|?\0]{1,63}$/.test(database))
    throw new StoreError(73, `Invalid database name: '${database}'`);
  if (
    name === '' ||
    /[$\0]/.test(name) ||
    name.startsWith('.') ||
    name.startsWith('system.') ||
    Buffer.byteLength(namespace) > 255
  )
    throw new StoreError(73, `Invalid collection name: '${name}'`);
}
