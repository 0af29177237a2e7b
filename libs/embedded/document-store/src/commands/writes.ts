import { StoreError, notSupported } from '../errors.js';
import type { Plain, PlainDocument } from '../bson/encode.js';
import { Raw } from '../bson/encode.js';
import * as options from '../bson/options.js';
import { documentValue, field, fieldsOf, valueBytes, type Value } from '../bson/values.js';
import type { Engine, Reply, Request } from '../engine.js';
import { compileProjection } from '../query/project.js';
import { find } from '../query/find.js';
import type { Collection } from '../storage/catalogue.js';
import { Blocked } from '../storage/sessions.js';
import type { StoredDocument, Unit } from '../storage/unit.js';
import { applyUpdate, compileUpdate, upsertDocument, type Update } from '../update/update.js';
import { atOnce, isDue, type Work } from '../work.js';
import { checkValid } from './validators.js';
import { checkCollation } from './collation.js';
import type { Command } from './dispatch.js';
import { maximumBatch } from './handshake.js';

export const emptyDocument = documentValue(Buffer.from([5, 0, 0, 0, 0]));

export function namespaceOf({ command, name, database }: Request): string {
  const collection = options.text(command, name);
  if (!collection) throw new StoreError(73, `Invalid namespace specified '${database}.'`);
  return `${database}.${collection}`;
}

/** The statements of a write command, at most as many as the handshake says. */
function statements(command: Value, name: string): Value[] {
  const all = fieldsOf(options.array(command, name) ?? missingField(name));
  if (all.length === 0 || all.length > maximumBatch)
    throw new StoreError(
      16,
      `Write batch sizes must be between 1 and ${maximumBatch}. Got ${all.length} operations.`,
    );
  return all;
}

function missingField(name: string): never {
  throw new StoreError(9, `BSON field '${name}' is missing but a required field`);
}

/** Runs statements in order; a refused one is reported at its index and, when ordered, ends the command. */
function* each(
  command: Value,
  all: readonly Value[],
  apply: (statement: Value, index: number) => Work<void>,
): Work<PlainDocument> {
  const ordered = options.flag(command, 'ordered') ?? true;
  const errors: PlainDocument[] = [];
  for (const [index, statement] of all.entries()) {
    try {
      yield* apply(statement, index);
    } catch (error) {
      if (!(error instanceof StoreError) || error instanceof Blocked || error.code === 112) throw error;
      const details = error.details as Record<string, Plain>;
      errors.push({ index, code: error.code, ...details, errmsg: error.message });
      if (ordered) break;
    }
    yield undefined;
  }
  return errors.length > 0 ? { writeErrors: errors } : {};
}

function insert(engine: Engine, request: Request): Promise<Reply> {
  const { command } = request;
  const namespace = namespaceOf(request);
  const documents = statements(command, 'documents');
  return engine.write(request, function* (unit) {
    const collection = engine.ensureCollection(request, namespace);
    let n = 0;
    const errors = yield* each(command, documents, (document) =>
      atOnce(() => {
        if (!bypasses(command)) checkValid(collection, valueBytes(document));
        unit.insert(collection, valueBytes(document));
        n++;
      }),
    );
    return { n, ...errors, ok: 1 };
  });
}

const bypasses = (command: Value): boolean => options.flag(command, 'bypassDocumentValidation') === true;

interface Outcome {
  matched: number;
  modified: number;
  upserted?: Raw;
  before?: Buffer;
  after?: Buffer;
}

interface UpdateTarget {
  readonly filter: Value;
  readonly update: Update;
  readonly upsert: boolean;
  readonly multi: boolean;
  readonly sort?: Value | undefined;
  readonly hint?: Value | undefined;
}

/** Finds first and writes then, so that a document moved by the update is not met again. */
export function* findAll(
  unit: Unit,
  collection: Collection,
  filter: Value,
  { sort, hint, limit }: { sort?: Value | undefined; hint?: Value | undefined; limit: number },
): Work<StoredDocument[]> {
  const found: StoredDocument[] = [];
  const wanted = { limit, ...(sort ? { sort } : {}), ...(hint ? { hint } : {}) };
  for (const document of find(unit, collection, filter, wanted)) {
    if (document) found.push(document);
    if (!document || isDue()) yield undefined;
  }
  return found;
}

function* applyTo(
  engine: Engine,
  request: Request,
  unit: Unit,
  namespace: string,
  target: UpdateTarget,
): Work<Outcome> {
  const { filter, update, upsert, multi, sort, hint } = target;
  const collection = upsert
    ? engine.ensureCollection(request, namespace)
    : engine.collection(request, namespace);
  const found = collection
    ? yield* findAll(unit, collection, filter, { sort, hint, limit: multi ? 0 : 1 })
    : [];
  const outcome: Outcome = { matched: found.length, modified: 0 };
  if (!collection) return outcome;
  for (const document of found) {
    const next = applyUpdate(update, document.bytes, filter);
    outcome.before = document.bytes;
    outcome.after = next;
    if (next.equals(document.bytes)) continue;
    if (!bypasses(request.command)) checkValid(collection, next, document.bytes);
    unit.replace(collection, document, next);
    outcome.modified++;
    yield undefined;
  }
  if (found.length > 0 || !upsert) return outcome;
  const upserted = upsertDocument(update, filter);
  if (!bypasses(request.command)) checkValid(collection, upserted);
  const inserted = unit.insert(collection, upserted);
  return {
    matched: 0,
    modified: 0,
    upserted: new Raw(field(documentValue(inserted), '_id') as Value),
    after: inserted,
  };
}

const updateFields = new Set(['q', 'u', 'multi', 'upsert', 'hint', 'sort', 'arrayFilters', 'collation']);
const deleteFields = new Set(['q', 'limit', 'hint', 'collation']);

function checkStatement(statement: Value, known: ReadonlySet<string>, command: string): void {
  for (const { name } of fieldsOf(statement)) {
    if (known.has(name)) continue;
    if (name === 'c') throw notSupported(`option '${name}' of ${command}`);
    throw new StoreError(40415, `BSON field '${command}.${name}' is an unknown field.`);
  }
  checkCollation(statement);
}

function update(engine: Engine, request: Request): Promise<Reply> {
  const { command } = request;
  const namespace = namespaceOf(request);
  const all = statements(command, 'updates');
  return engine.write(request, function* (unit) {
    const totals = { n: 0, nModified: 0 };
    const upserted: PlainDocument[] = [];
    const errors = yield* each(command, all, function* (statement, index): Work<void> {
      const outcome = yield* applyTo(engine, request, unit, namespace, updateTarget(statement));
      totals.n += outcome.matched + (outcome.upserted ? 1 : 0);
      totals.nModified += outcome.modified;
      if (outcome.upserted) upserted.push({ index, _id: outcome.upserted });
    });
    return { ...totals, ...(upserted.length > 0 ? { upserted } : {}), ...errors, ok: 1 };
  });
}

function updateTarget(statement: Value): UpdateTarget {
  checkStatement(statement, updateFields, 'update.updates');
  const compiled = compileUpdate(
    field(statement, 'u') ?? missingField('updates.u'),
    options.array(statement, 'arrayFilters'),
  );
  const multi = options.flag(statement, 'multi') === true;
  if (multi && compiled.replacement)
    throw new StoreError(9, 'multi update is not supported for replacement-style update');
  return {
    filter: options.document(statement, 'q') ?? missingField('updates.q'),
    update: compiled,
    upsert: options.flag(statement, 'upsert') === true,
    multi,
    sort: options.document(statement, 'sort'),
    hint: options.present(statement, 'hint'),
  };
}

function remove(engine: Engine, request: Request): Promise<Reply> {
  const { command } = request;
  const namespace = namespaceOf(request);
  const all = statements(command, 'deletes');
  return engine.write(request, function* (unit) {
    let n = 0;
    const errors = yield* each(command, all, function* (statement): Work<void> {
      checkStatement(statement, deleteFields, 'delete.deletes');
      const collection = engine.collection(request, namespace);
      if (!collection) return;
      const filter = options.document(statement, 'q') ?? missingField('deletes.q');
      const limit = options.whole(statement, 'limit') ?? missingField('deletes.limit');
      if (limit > 1)
        throw new StoreError(9, `The limit field in delete objects must be 0 or 1. Got ${limit}`);
      for (const document of yield* findAll(unit, collection, filter, {
        limit,
        hint: options.present(statement, 'hint'),
      })) {
        unit.remove(collection, document);
        n++;
        yield undefined;
      }
    });
    return { n, ...errors, ok: 1 };
  });
}

function findAndModify(engine: Engine, request: Request): Promise<Reply> {
  const { command } = request;
  const namespace = namespaceOf(request);
  const filter = options.document(command, 'query') ?? emptyDocument;
  const given = field(command, 'update');
  const removing = options.flag(command, 'remove') === true;
  const upsert = options.flag(command, 'upsert') === true;
  const fresh = options.flag(command, 'new') === true;
  if (removing === (given !== undefined))
    throw new StoreError(9, 'Either an update or remove=true must be specified');
  if (removing && (upsert || fresh))
    throw new StoreError(9, 'Cannot specify both remove=true and upsert=true or new=true');
  const compiled = given ? compileUpdate(given, options.array(command, 'arrayFilters')) : undefined;
  const project = compileProjection(options.document(command, 'fields'), { filter });
  const shown = (bytes: Buffer | undefined): Raw | null =>
    bytes ? Raw.document(project ? project(bytes) : bytes) : null;
  const common = { sort: options.document(command, 'sort'), hint: options.present(command, 'hint') };
  return engine.write(request, function* (unit) {
    if (compiled) {
      const target = { filter, update: compiled, upsert, multi: false, ...common };
      const { upserted, matched, before, after } = yield* applyTo(engine, request, unit, namespace, target);
      const lastErrorObject = {
        n: upserted ? 1 : matched,
        updatedExisting: matched > 0,
        ...(upserted ? { upserted } : {}),
      };
      return { lastErrorObject, value: shown(fresh ? after : before), ok: 1 };
    }
    const collection = engine.collection(request, namespace);
    const [found] = collection ? yield* findAll(unit, collection, filter, { limit: 1, ...common }) : [];
    if (collection && found) unit.remove(collection, found);
    return { lastErrorObject: { n: found ? 1 : 0 }, value: shown(found?.bytes), ok: 1 };
  });
}

const numbered = { inTransaction: true, retryable: true };
const statement = 'ordered bypassDocumentValidation stmtId stmtIds';

export const writeCommands: Readonly<Record<string, Command>> = {
  insert: { fields: `documents ${statement}`, needs: 'write', ...numbered, run: insert },
  update: { fields: `updates ${statement}`, needs: 'write', ...numbered, run: update },
  delete: { fields: `deletes ${statement}`, needs: 'write', ...numbered, run: remove },
  findAndModify: {
    fields: `query update remove upsert new fields sort hint arrayFilters collation ${statement}`,
    needs: 'write',
    ...numbered,
    run: findAndModify,
  },
};
