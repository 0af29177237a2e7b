import { StoreError } from '../errors.js';
import { ArrayWriter, type PlainDocument } from '../bson/encode.js';
import * as options from '../bson/options.js';
import { toInteger } from '../bson/numbers.js';
import { keyText } from '../bson/order.js';
import { BsonType, documentValue, fieldsOf, missing } from '../bson/values.js';
import type { Engine, Reply, Request } from '../engine.js';
import { asDocuments } from '../query/streams.js';
import { find } from '../query/find.js';
import { compileFilter } from '../query/match.js';
import { compileProjection } from '../query/project.js';
import { parsePath, somePathValue } from '../query/paths.js';
import type { Collection } from '../storage/catalogue.js';
import { MovingView, type Cursor, type Documents } from '../storage/cursors.js';
import type { View } from '../storage/layers.js';
import { isDue, type Work } from '../work.js';
import type { Command } from './dispatch.js';
import { aggregated } from './aggregated.js';
import { explained } from './explain.js';
import { emptyDocument, namespaceOf } from './writes.js';

const defaultBatch = 101;

/** Opens a cursor over documents and answers its first batch. */
function openCursor(
  engine: Engine,
  request: Request,
  namespace: string,
  documents: (view: View, used: (collection: Collection) => void) => Documents,
  size: number,
  single: boolean,
): Promise<Reply> {
  const view = new MovingView();
  const collection = engine.collection(request, namespace);
  const used = new Map<Collection, number>();
  const use = (other: Collection): void => void used.set(other, other.changedAt);
  if (collection) use(collection);
  const unchanged = ([other, changedAt]: [Collection, number]): boolean =>
    engine.catalogue.get(other.namespace) === other && other.changedAt === changedAt;
  const cursor: Cursor = {
    namespace,
    view,
    documents: documents(view, use),
    transaction: request.transaction,
    session: request.session?.id,
    user: request.peer.user,
    isValid: () =>
      request.transaction
        ? request.transaction.state === 'open'
        : (collection !== undefined || engine.catalogue.get(namespace) === undefined) &&
          [...used].every(unchanged),
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
  const project = compileProjection(options.document(command, 'projection'), { filter });
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
  if (!isOpener(request, cursor)) throw new StoreError(13, `cursor id ${id} was opened by somebody else`);
  const size = options.whole(command, 'batchSize') || Infinity;
  return advance(engine, request, cursor, () => engine.cursors.next(id, size));
}

const isOpener = ({ peer: { user } }: Request, cursor: Cursor): boolean =>
  user?.db === cursor.user?.db && user?.name === cursor.user?.name;

/** A cursor of another namespace or user is not found, as if it were not there. */
function killCursors(engine: Engine, request: Request): Reply {
  const namespace = namespaceOf(request);
  const isOwn = (cursor: Cursor): boolean => cursor.namespace === namespace && isOpener(request, cursor);
  const killed: bigint[] = [];
  const unknown: bigint[] = [];
  for (const value of fieldsOf(options.array(request.command, 'cursors') ?? missingArray())) {
    const id = toInteger(value) ?? 0n;
    (engine.cursors.kill(id, isOwn) ? killed : unknown).push(id);
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
      if (!document || isDue()) yield undefined;
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
    const known = new Set<string>();
    const values = new ArrayWriter();
    let bytes = 0;
    for (const document of find(view, collection, filter, hint ? { hint } : {})) {
      if (!document || isDue()) yield undefined;
      if (!document) continue;
      somePathValue(documentValue(document.bytes), path, (value, isElement) => {
        if (value.type === missing.type || (value.type === BsonType.array && !isElement)) return false;
        const key = keyText(value);
        if (known.has(key)) return false;
        known.add(key);
        values.add(value);
        bytes += key.length + 8;
        return false;
      });
      if (bytes > maximumDistinct) throw new StoreError(2, 'distinct too big, 16mb cap');
    }
    return { values: values.finish(), ok: 1 };
  });
}

async function aggregateCommand(engine: Engine, request: Request): Promise<Reply> {
  const { command } = request;
  if (options.flag(command, 'explain') === true) return explained(engine, request, 'queryPlanner');
  const namespace = namespaceOf(request);
  const cursor = options.document(command, 'cursor');
  if (!cursor)
    throw new StoreError(
      9,
      "The 'cursor' option is required, except for aggregate with the explain argument",
    );
  const size = options.whole(cursor, 'batchSize') ?? defaultBatch;
  return openCursor(
    engine,
    request,
    namespace,
    (view, used) => aggregated(engine, request, view, used),
    size,
    false,
  );
}

export const readCommands: Readonly<Record<string, Command>> = {
  find: {
    fields:
      'filter projection sort skip limit batchSize singleBatch hint collation allowDiskUse noCursorTimeout allowPartialResults',
    needs: 'read',
    inTransaction: true,
    run: findCommand,
  },
  getMore: { fields: 'collection batchSize', needs: 'read', inTransaction: true, run: getMore },
  killCursors: { fields: 'cursors', needs: 'read', inTransaction: true, run: killCursors },
  count: { fields: 'query limit skip hint fields collation', needs: 'read', run: count },
  distinct: { fields: 'key query hint collation', needs: 'read', inTransaction: true, run: distinct },
  aggregate: {
    fields: 'pipeline cursor hint let explain collation allowDiskUse bypassDocumentValidation',
    inTransaction: true,
    needs: 'read',
    run: aggregateCommand,
  },
};
