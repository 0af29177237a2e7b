import { StoreError, notSupported } from '../errors.js';
import { Raw, type PlainDocument } from '../bson/encode.js';
import * as options from '../bson/options.js';
import { toInteger } from '../bson/numbers.js';
import { keyText } from '../bson/order.js';
import { BsonType, documentValue, fieldsOf, missing } from '../bson/values.js';
import type { Engine, Reply, Request } from '../engine.js';
import { aggregate, asDocuments } from '../query/aggregate.js';
import { find } from '../query/find.js';
import { compileFilter } from '../query/match.js';
import { compileProjection } from '../query/project.js';
import { parsePath, somePathValue } from '../query/paths.js';
import { plan } from '../query/planner.js';
import { MovingView, type Cursor, type Documents } from '../storage/cursors.js';
import type { View } from '../storage/layers.js';
import type { Work } from '../work.js';
import type { Command } from './dispatch.js';
import { emptyDocument, namespaceOf } from './writes.js';

const defaultBatch = 101;

/** Opens a cursor over documents and answers its first batch. */
function openCursor(
  engine: Engine,
  request: Request,
  namespace: string,
  documents: (view: View) => Documents,
  size: number,
  single: boolean,
): Promise<Reply> {
  const view = new MovingView();
  const collection = engine.collection(request, namespace);
  const changedAt = collection?.changedAt;
  const cursor: Cursor = {
    namespace,
    view,
    documents: documents(view),
    transaction: request.transaction,
    session: request.session?.id,
    isValid: () =>
      request.transaction
        ? request.transaction.state === 'open'
        : engine.catalogue.get(namespace) === collection && collection?.changedAt === changedAt,
  };
  return advance(engine, request, cursor, () => engine.cursors.first(cursor, size, single));
}

/** Moves a cursor to the present for the length of one batch. */
function advance(
  engine: Engine,
  request: Request,
  cursor: Cursor,
  batch: () => Work<PlainDocument>,
): Promise<Reply> {
  return engine.read(request, function* (view) {
    cursor.view.current = view;
    try {
      return yield* batch();
    } finally {
      cursor.view.current = undefined;
    }
  });
}

async function findCommand(engine: Engine, request: Request): Promise<Reply> {
  const { command } = request;
  const namespace = namespaceOf(request);
  const filter = options.document(command, 'filter') ?? emptyDocument;
  const sort = options.document(command, 'sort');
  const hint = options.present(command, 'hint');
  const limit = options.whole(command, 'limit');
  const skip = options.whole(command, 'skip');
  const project = compileProjection(options.document(command, 'projection'));
  const wanted = {
    ...(sort ? { sort } : {}),
    ...(hint ? { hint } : {}),
    ...(limit ? { limit } : {}),
    ...(skip ? { skip } : {}),
  };
  const documents = function* (view: View): Documents {
    const collection = engine.collection(request, namespace);
    if (!collection) compileFilter(filter);
    else
      for (const bytes of asDocuments(find(view, collection, filter, wanted)))
        yield bytes && project ? project(bytes) : bytes;
  };
  const size = options.whole(command, 'batchSize') ?? defaultBatch;
  return openCursor(
    engine,
    request,
    namespace,
    documents,
    size,
    options.flag(command, 'singleBatch') === true,
  );
}

async function getMore(engine: Engine, request: Request): Promise<Reply> {
  const { command, transaction } = request;
  const id = options.long(command, 'getMore') ?? 0n;
  const cursor = engine.cursors.find(id);
  if (cursor.transaction !== transaction)
    throw new StoreError(43, `cursor id ${id} was not opened in this transaction`);
  if (cursor.namespace !== `${request.database}.${options.text(command, 'collection')}`)
    throw new StoreError(2, `cursor id ${id} belongs to namespace ${cursor.namespace}`);
  const size = options.whole(command, 'batchSize') || Infinity;
  return advance(engine, request, cursor, () => engine.cursors.next(id, size));
}

function killCursors(engine: Engine, { command }: Request): Reply {
  const killed: bigint[] = [];
  const unknown: bigint[] = [];
  for (const value of fieldsOf(options.array(command, 'cursors') ?? missingArray())) {
    const id = toInteger(value) ?? 0n;
    (engine.cursors.kill(id) ? killed : unknown).push(id);
  }
  return { cursorsKilled: killed, cursorsNotFound: unknown, cursorsAlive: [], cursorsUnknown: [], ok: 1 };
}

function missingArray(): never {
  throw new StoreError(9, "BSON field 'killCursors.cursors' is missing but a required field");
}

async function count(engine: Engine, request: Request): Promise<Reply> {
  const { command } = request;
  const collection = engine.collection(request, namespaceOf(request));
  const filter = options.document(command, 'query') ?? emptyDocument;
  const hint = options.present(command, 'hint');
  const limit = options.whole(command, 'limit');
  const skip = options.whole(command, 'skip');
  if (!collection) return { n: 0, ok: 1 };
  if (fieldsOf(filter).length === 0 && !limit && !skip)
    return { n: engine.storage.committedCount(collection.records), ok: 1 };
  const wanted = { ...(hint ? { hint } : {}), ...(limit ? { limit } : {}), ...(skip ? { skip } : {}) };
  return engine.read(request, function* (view) {
    let n = 0;
    for (const document of find(view, collection, filter, wanted)) {
      if (document) n++;
      else yield undefined;
    }
    return { n, ok: 1 };
  });
}

/** Bytes of values one `distinct` may answer. */
const maximumDistinct = 16 * 1024 * 1024 - 1024;

async function distinct(engine: Engine, request: Request): Promise<Reply> {
  const { command } = request;
  const collection = engine.collection(request, namespaceOf(request));
  const path = parsePath(options.text(command, 'key') ?? '');
  const filter = options.document(command, 'query') ?? emptyDocument;
  const hint = options.present(command, 'hint');
  if (!collection) return { values: [], ok: 1 };
  return engine.read(request, function* (view): Work<PlainDocument> {
    const values = new Map<string, Raw>();
    let bytes = 0;
    for (const document of find(view, collection, filter, hint ? { hint } : {})) {
      if (!document) yield undefined;
      else
        somePathValue(documentValue(document.bytes), path, (value, isElement) => {
          if (value.type === missing.type || (value.type === BsonType.array && !isElement)) return false;
          const key = keyText(value);
          if (!values.has(key)) bytes += key.length + 8;
          values.set(key, values.get(key) ?? new Raw(value));
          return false;
        });
      if (bytes > maximumDistinct) throw new StoreError(2, 'distinct too big, 16mb cap');
    }
    return { values: [...values.values()], ok: 1 };
  });
}

async function aggregateCommand(engine: Engine, request: Request): Promise<Reply> {
  const { command } = request;
  const namespace = namespaceOf(request);
  const pipeline = options.array(command, 'pipeline');
  if (!pipeline) throw new StoreError(9, "BSON field 'aggregate.pipeline' is missing but a required field");
  const cursor = options.document(command, 'cursor');
  if (!cursor)
    throw new StoreError(
      9,
      "The 'cursor' option is required, except for aggregate with the explain argument",
    );
  const collection = engine.collection(request, namespace);
  const size = options.whole(cursor, 'batchSize') ?? defaultBatch;
  const hint = options.present(command, 'hint');
  return openCursor(
    engine,
    request,
    namespace,
    (view) => aggregate(view, collection, fieldsOf(pipeline), hint),
    size,
    false,
  );
}

/** Only which index a find would use and what it would examine. */
async function explain(engine: Engine, request: Request): Promise<Reply> {
  const inner = options.document(request.command, 'explain');
  const name = inner && fieldsOf(inner)[0]?.name;
  if (!inner || name !== 'find') throw notSupported(`explain of ${name ?? 'nothing'}`);
  const collection = engine.collection(request, namespaceOf({ ...request, command: inner, name }));
  if (!collection) return { queryPlanner: { winningPlan: { stage: 'EOF' } }, ok: 1 };
  const chosen = plan(
    collection,
    options.document(inner, 'filter') ?? emptyDocument,
    options.document(inner, 'sort'),
    options.present(inner, 'hint'),
  );
  const access = chosen.index
    ? {
        stage: 'FETCH',
        inputStage: { stage: 'IXSCAN', indexName: chosen.index.name, keyPattern: new Raw(chosen.index.key) },
      }
    : { stage: 'COLLSCAN' };
  const winningPlan = chosen.sorted ? access : { stage: 'SORT', inputStage: access };
  return { queryPlanner: { namespace: collection.namespace, winningPlan }, ok: 1 };
}

export const readCommands: Readonly<Record<string, Command>> = {
  find: {
    fields:
      'filter projection sort skip limit batchSize singleBatch hint noCursorTimeout allowPartialResults',
    inTransaction: true,
    run: findCommand,
  },
  getMore: { fields: 'collection batchSize', inTransaction: true, run: getMore },
  killCursors: { fields: 'cursors', inTransaction: true, run: killCursors },
  count: { fields: 'query limit skip hint fields', run: count },
  distinct: { fields: 'key query hint', inTransaction: true, run: distinct },
  aggregate: { fields: 'pipeline cursor hint', inTransaction: true, run: aggregateCommand },
  explain: { fields: 'verbosity', run: explain },
};
