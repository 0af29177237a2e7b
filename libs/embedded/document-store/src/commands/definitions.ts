import { StoreError } from '../errors.js';
import { encodePlain, Raw, toValue } from '../bson/encode.js';
import * as options from '../bson/options.js';
import { BsonType, documentValue, field, fieldsOf, textOf, valueBytes, type Value } from '../bson/values.js';
import type { Engine, Reply, Request } from '../engine.js';
import { compileFilter } from '../query/match.js';
import { find } from '../query/find.js';
import { sameKey } from '../query/planner.js';
import { noOptions, type Collection, type Index, type IndexDefinition } from '../storage/catalogue.js';
import type { Layer } from '../storage/layers.js';
import { Unit } from '../storage/unit.js';
import { atOnce, isDue, type Work } from '../work.js';
import type { Command } from './dispatch.js';
import { authorize, mayRead } from './users.js';
import { definitionOf, exists, expiryIn } from './index-definitions.js';
import { validatorOf } from './validators.js';
import { emptyDocument, namespaceOf } from './writes.js';

const maximumIndexes = 64;

const validation = ['validator', 'validationLevel', 'validationAction'];

/** The collection options a command gives, over those that stood before. */
function optionsOf(command: Value, before: Value = noOptions): Value {
  const given = validation.flatMap((name): [string, Raw][] => {
    const value = options.present(command, name) ?? field(before, name);
    return value ? [[name, new Raw(value)]] : [];
  });
  if (given.length === 0) return noOptions;
  const made = toValue(Object.fromEntries(given));
  validatorOf(made);
  return made;
}

function create(engine: Engine, request: Request): Promise<Reply> {
  const namespace = namespaceOf(request);
  const wanted = optionsOf(request.command);
  return engine.define((layer) =>
    atOnce((): Reply => {
      const known = engine.catalogue.get(namespace);
      if (known && valueBytes(known.options).equals(valueBytes(wanted))) return { ok: 1 };
      if (known) throw new StoreError(48, `Collection ${namespace} already exists.`);
      engine.catalogue.install({ ...engine.catalogue.build(namespace), options: wanted }, layer);
      return { ok: 1 };
    }),
  );
}

/** Changes the validator, without a look at documents that are there, or when those of an index expire. */
function collMod(engine: Engine, request: Request): Promise<Reply> {
  const namespace = namespaceOf(request);
  const index = options.document(request.command, 'index');
  return engine.define((layer) =>
    atOnce((): Reply => {
      const collection = engine.catalogue.get(namespace);
      if (!collection) throw new StoreError(26, `ns does not exist: ${namespace}`);
      const changed = index && withExpiry(collection, index);
      engine.catalogue.replaceOptions(collection, optionsOf(request.command, collection.options), layer);
      if (!changed) return { ok: 1 };
      engine.catalogue.replaceIndexes(collection, changed.indexes, layer);
      return { ...changed.answer, ok: 1 };
    }),
  );
}

/** The indexes with a new time to live of the one that is named or whose key is given. */
function withExpiry(collection: Collection, asked: Value) {
  const wanted = options.present(asked, 'name') ?? options.present(asked, 'keyPattern') ?? none('index.name');
  const found = indexesMeant(collection, wanted)[0];
  if (!found || found.fields.length > 1)
    throw new StoreError(72, 'a time to live is for an index of one field');
  const before = found.expireAfterSeconds;
  const after = expiryIn(asked) ?? none('index.expireAfterSeconds');
  const indexes = collection.indexes.map((index) =>
    index === found ? { ...index, expireAfterSeconds: after } : index,
  );
  const old = before === undefined ? {} : { expireAfterSeconds_old: BigInt(before) };
  return { indexes, answer: { ...old, expireAfterSeconds_new: BigInt(after) } };
}

/** A collection takes another name, in this database or another; with `dropTarget` it takes the place of what is there. */
async function renameCollection(engine: Engine, { command, database, peer, name }: Request): Promise<Reply> {
  if (database !== 'admin')
    throw new StoreError(13, 'renameCollection may only be run against the admin database.');
  const [from, to] = [
    options.text(command, 'renameCollection') ?? '',
    options.text(command, 'to') ?? none('to'),
  ];
  for (const namespace of [from, to]) authorize(engine, peer, name, 'write', namespace.split('.')[0] ?? '');
  if (from === to) throw new StoreError(20, `Can't rename a collection to itself`);
  const dropTarget = options.flag(command, 'dropTarget') === true;
  const gone = await engine.define((layer) =>
    atOnce(() => {
      const source = engine.catalogue.get(from);
      if (!source) throw new StoreError(26, `Source collection ${from} does not exist`);
      const target = engine.catalogue.get(to);
      if (target && !dropTarget) throw new StoreError(48, 'target namespace exists');
      if (target) engine.catalogue.remove(target, layer);
      engine.catalogue.rename(source, to, layer);
      return target;
    }),
  );
  if (gone) await engine.catalogue.free(tablesOf(gone));
  return { ok: 1 };
}

const tablesOf = ({ records, indexes }: Collection) => [records, ...indexes.map(({ table }) => table)];

async function drop(engine: Engine, request: Request): Promise<Reply> {
  const namespace = namespaceOf(request);
  const collection = await engine.define((layer) =>
    atOnce(() => {
      const known = engine.catalogue.get(namespace);
      if (known) engine.catalogue.remove(known, layer);
      return known;
    }),
  );
  if (!collection) return { ok: 1 };
  await engine.catalogue.free(tablesOf(collection));
  return { nIndexesWas: collection.indexes.length, ns: namespace, ok: 1 };
}

async function dropDatabase(engine: Engine, { database }: Request): Promise<Reply> {
  const collections = await engine.define((layer) =>
    atOnce(() => {
      const all = engine.catalogue.all().filter((collection) => collection.database === database);
      all.forEach((collection) => engine.catalogue.remove(collection, layer));
      return all;
    }),
  );
  await engine.catalogue.free(collections.flatMap(tablesOf));
  return { dropped: database, ok: 1 };
}

/** Builds the entries of a new index from every document; a duplicate gives up the whole command. */
function* buildIndex(
  engine: Engine,
  collection: Collection,
  definition: IndexDefinition,
  layer: Layer,
): Work<Index> {
  const index = engine.catalogue.buildIndex(definition);
  const unit = new Unit(engine.storage.latest, engine.catalogue, () => undefined);
  try {
    for (const document of find(unit, collection, emptyDocument)) {
      if (document) unit.fill(collection, index, document);
      if (!document || isDue()) yield undefined;
    }
  } catch (error) {
    engine.catalogue.spareAll([index.table]);
    throw error;
  }
  layer.absorb(unit.layer);
  return index;
}

async function createIndexes(engine: Engine, request: Request): Promise<Reply> {
  const namespace = namespaceOf(request);
  const asked = fieldsOf(options.array(request.command, 'indexes') ?? none('indexes')).map(definitionOf);
  if (asked.length === 0) throw new StoreError(2, 'Must specify at least one index to create');
  const built: Index[] = [];
  const reply = await engine.define(function* (layer): Work<Reply> {
    const known = engine.catalogue.get(namespace);
    const collection = known ?? engine.catalogue.build(namespace);
    const before = collection.indexes.length;
    const indexes = [...collection.indexes];
    for (const definition of asked) {
      if (exists({ ...collection, indexes }, definition)) continue;
      if (indexes.length >= maximumIndexes)
        throw new StoreError(67, `at most ${maximumIndexes} indexes per collection`);
      const index = yield* buildIndex(engine, collection, definition, layer);
      indexes.push(index);
      built.push(index);
    }
    if (!known) engine.catalogue.install(collection, layer);
    if (indexes.length > before) engine.catalogue.replaceIndexes(collection, indexes, layer);
    return {
      numIndexesBefore: before,
      numIndexesAfter: indexes.length,
      createdCollectionAutomatically: !known,
      ok: 1,
    };
  });
  built.forEach((index) => (index.ready = true));
  return reply;
}

function none(name: string): never {
  throw new StoreError(9, `BSON field '${name}' is missing but a required field`);
}

async function dropIndexes(engine: Engine, request: Request): Promise<Reply> {
  const namespace = namespaceOf(request);
  const wanted = options.present(request.command, 'index') ?? none('index');
  const { before, gone } = await engine.define((layer) =>
    atOnce(() => {
      const collection = engine.catalogue.get(namespace);
      if (!collection) throw new StoreError(26, `ns not found ${namespace}`);
      const chosen = indexesMeant(collection, wanted);
      const kept = collection.indexes.filter((index) => !chosen.includes(index));
      const count = collection.indexes.length;
      engine.catalogue.replaceIndexes(collection, kept, layer);
      return { before: count, gone: chosen };
    }),
  );
  await engine.catalogue.free(gone.map(({ table }) => table));
  return { nIndexesWas: before, ok: 1 };
}

function indexesMeant(collection: Collection, wanted: Value): Index[] {
  if (wanted.type === BsonType.array)
    return fieldsOf(wanted).flatMap((name) => indexesMeant(collection, name));
  const all = collection.indexes.filter(({ name }) => name !== '_id_');
  if (wanted.type === BsonType.string && textOf(wanted) === '*') return all;
  const found = collection.indexes.find((index) =>
    wanted.type === BsonType.string ? index.name === textOf(wanted) : sameKey(index.key, wanted),
  );
  if (!found) throw new StoreError(27, 'index not found');
  if (found.name === '_id_') throw new StoreError(72, 'cannot drop _id index');
  return [found];
}

function listIndexes(engine: Engine, request: Request): Reply {
  const namespace = namespaceOf(request);
  const collection = engine.catalogue.get(namespace);
  if (!collection) throw new StoreError(26, `ns does not exist: ${namespace}`);
  const firstBatch = collection.indexes.map(({ key, name, unique, sparse, partial, expireAfterSeconds }) => ({
    v: 2,
    key: new Raw(key),
    name,
    ...(unique && name !== '_id_' ? { unique } : {}),
    ...(sparse ? { sparse } : {}),
    ...(partial ? { partialFilterExpression: new Raw(partial.filter) } : {}),
    ...(expireAfterSeconds === undefined ? {} : { expireAfterSeconds }),
  }));
  return { cursor: { id: 0n, ns: namespace, firstBatch }, ok: 1 };
}

function listCollections(engine: Engine, { command, database }: Request): Reply {
  const test = compileFilter(options.document(command, 'filter') ?? emptyDocument);
  const nameOnly = options.flag(command, 'nameOnly') === true;
  const firstBatch = engine.catalogue
    .all()
    .filter((collection) => collection.database === database)
    .map(({ name, indexes, options: given, uuid }) => {
      const idIndex = { v: 2, key: new Raw((indexes[0] as Index).key), name: '_id_' };
      const full = {
        name,
        type: 'collection',
        options: new Raw(given),
        info: { readOnly: false, uuid: uuidValue(uuid) },
        idIndex,
      };
      return { full: encodePlain(full), short: { name, type: 'collection' } };
    })
    .filter(({ full }) => test(documentValue(full)))
    .map(({ full, short }) => (nameOnly ? short : Raw.document(full)));
  return { cursor: { id: 0n, ns: `${database}.$cmd.listCollections`, firstBatch }, ok: 1 };
}

function uuidValue(text: string): Raw {
  const bytes = Buffer.concat([Buffer.from([16, 0, 0, 0, 4]), Buffer.from(text.replaceAll('-', ''), 'hex')]);
  return new Raw({ type: BsonType.binary, bytes, at: 0 });
}

function listDatabases(engine: Engine, { command, peer }: Request): Reply {
  const test = compileFilter(options.document(command, 'filter') ?? emptyDocument);
  const names = [...new Set(engine.catalogue.all().map(({ database }) => database))].sort();
  const databases = names
    .filter((name) => mayRead(engine, peer, name))
    .map((name) => ({ name, sizeOnDisk: 0, empty: false }))
    .filter((entry) => test(documentValue(encodePlain(entry))));
  const nameOnly = options.flag(command, 'nameOnly') === true;
  return {
    databases: nameOnly ? databases.map(({ name }) => ({ name })) : databases,
    totalSize: 0,
    totalSizeMb: 0,
    ok: 1,
  };
}

export const definitionCommands: Readonly<Record<string, Command>> = {
  create: { fields: 'validator validationLevel validationAction', needs: 'write', run: create },
  collMod: { fields: 'validator validationLevel validationAction index', needs: 'admin', run: collMod },
  renameCollection: { fields: 'to dropTarget', needs: 'session', run: renameCollection },
  drop: { fields: '', needs: 'write', run: drop },
  dropDatabase: { fields: '', needs: 'admin', run: dropDatabase },
  createIndexes: { fields: 'indexes commitQuorum', needs: 'write', run: createIndexes },
  dropIndexes: { fields: 'index', needs: 'write', run: dropIndexes },
  listIndexes: { fields: 'cursor', needs: 'read', run: listIndexes },
  listCollections: {
    fields: 'filter nameOnly authorizedCollections cursor',
    needs: 'read',
    run: listCollections,
  },
  listDatabases: { fields: 'filter nameOnly authorizedDatabases', needs: 'session', run: listDatabases },
};
