import { StoreError, notSupported } from '../errors.js';
import { Raw, type PlainDocument } from '../bson/encode.js';
import * as options from '../bson/options.js';
import { fieldsOf, type Value } from '../bson/values.js';
import type { Engine, Reply, Request } from '../engine.js';
import { leading, stageOperand } from '../query/aggregate.js';
import { findBy, type FindOptions } from '../query/find.js';
import { plan, type Plan } from '../query/planner.js';
import { noVariables } from '../query/variables.js';
import type { Work } from '../work.js';
import { pipelineOf } from './aggregated.js';
import type { Command } from './dispatch.js';
import { emptyDocument, namespaceOf } from './writes.js';

/** The find inside a command: what it looks for, and what is done with it afterwards. */
interface Asked {
  readonly filter: Value;
  readonly options: FindOptions;
  readonly stages?: readonly Value[];
}

const findOptions = (command: Value): FindOptions => {
  const [sort, hint] = [options.document(command, 'sort'), options.present(command, 'hint')];
  const [limit, skip] = [options.whole(command, 'limit'), options.whole(command, 'skip')];
  return {
    ...(sort ? { sort } : {}),
    ...(hint ? { hint } : {}),
    ...(limit ? { limit } : {}),
    ...(skip ? { skip } : {}),
  };
};

const queryIn = (command: Value, name: string): Asked => ({
  filter: options.document(command, name) ?? emptyDocument,
  options: findOptions(command),
});

function statementIn(command: Value, name: string, one: (statement: Value) => boolean): Asked {
  const statement = fieldsOf(options.array(command, name) ?? emptyDocument)[0] ?? emptyDocument;
  const asked = queryIn(statement, 'q');
  return one(statement) ? { ...asked, options: { ...asked.options, limit: 1 } } : asked;
}

const explainable: Readonly<Record<string, (command: Value) => Asked>> = {
  find: (command) => queryIn(command, 'filter'),
  count: (command) => queryIn(command, 'query'),
  distinct: (command) => queryIn(command, 'query'),
  findAndModify: (command) => ({
    ...queryIn(command, 'query'),
    options: { ...findOptions(command), limit: 1 },
  }),
  update: (command) =>
    statementIn(command, 'updates', (statement) => options.flag(statement, 'multi') !== true),
  delete: (command) =>
    statementIn(command, 'deletes', (statement) => options.whole(statement, 'limit') === 1),
  aggregate: (command) => {
    const pipeline = pipelineOf(command);
    const { filter, options: wanted, taken } = leading(pipeline.map(stageOperand), noVariables);
    const hint = options.present(command, 'hint');
    return { filter, options: { ...wanted, ...(hint ? { hint } : {}) }, stages: pipeline.slice(taken) };
  },
};

function accessOf({ index, reverse }: Plan): PlainDocument {
  const direction = reverse ? 'backward' : 'forward';
  if (!index) return { stage: 'COLLSCAN', direction };
  const scan = {
    stage: 'IXSCAN',
    keyPattern: new Raw(index.key),
    indexName: index.name,
    isMultiKey: index.multikey !== 0,
    isUnique: index.unique,
    isSparse: index.sparse,
    direction,
  };
  return { stage: 'FETCH', inputStage: scan };
}

function stagesOf(chosen: Plan, { sort, skip, limit }: FindOptions): PlainDocument {
  let tree = accessOf(chosen);
  if (!chosen.sorted && sort) tree = { stage: 'SORT', sortPattern: new Raw(sort), inputStage: tree };
  if (skip) tree = { stage: 'SKIP', skipAmount: skip, inputStage: tree };
  return limit ? { stage: 'LIMIT', limitAmount: limit, inputStage: tree } : tree;
}

/**
 * How a command would find its documents, and with a verbosity above `queryPlanner` how many keys and documents that
 * takes. A write is only looked for, never done; of a pipeline only what the planner answers is measured.
 */
export async function explained(engine: Engine, request: Request, verbosity: string): Promise<Reply> {
  const ask = Object.hasOwn(explainable, request.name) ? explainable[request.name] : undefined;
  if (!ask) throw notSupported(`explain of ${request.name}`);
  const namespace = namespaceOf(request);
  const { filter, options: wanted, stages = [] } = ask(request.command);
  const collection = engine.collection(request, namespace);
  const planner = { namespace, indexFilterSet: false, parsedQuery: new Raw(filter), rejectedPlans: [] };
  const chosen = collection && plan(collection, filter, wanted.sort, wanted.hint);
  const winningPlan = chosen ? stagesOf(chosen, wanted) : { stage: 'EOF' };
  const queryPlanner = { ...planner, winningPlan };
  const executionStats =
    verbosity === 'queryPlanner' ? undefined : await measured(engine, request, chosen, wanted, winningPlan);
  const cursor = { queryPlanner, ...(executionStats ? { executionStats } : {}) };
  if (stages.length === 0) return { explainVersion: '1', ...cursor, ok: 1 };
  return {
    explainVersion: '1',
    stages: [{ $cursor: cursor }, ...stages.map((stage) => new Raw(stage))],
    ok: 1,
  };
}

async function measured(
  engine: Engine,
  request: Request,
  chosen: Plan | undefined,
  wanted: FindOptions,
  executionStages: PlainDocument,
): Promise<PlainDocument> {
  const began = performance.now();
  let [examined, nReturned] = [0, 0];
  let failure: PlainDocument = {};
  if (chosen) {
    const counting = { ...chosen, test: (document: Value) => examined++ >= 0 && chosen.test(document) };
    await engine
      .read(request, function* (view): Work<PlainDocument> {
        for (const document of findBy(view, counting, wanted)) {
          if (document) nReturned++;
          else yield undefined;
        }
        return {};
      })
      .catch((error: unknown) => {
        if (!(error instanceof StoreError)) throw error;
        failure = { errorMessage: error.message, errorCode: error.code };
      });
  }
  return {
    executionSuccess: failure['errorCode'] === undefined,
    ...failure,
    nReturned,
    executionTimeMillis: Math.round(performance.now() - began),
    totalKeysExamined: chosen?.index ? examined : 0,
    totalDocsExamined: examined,
    executionStages,
  };
}

/** The user was let into the database of the explain: no other may be named inside. */
function checkDatabase(inner: Value, database: string): void {
  const named = options.text(inner, '$db') ?? database;
  if (named !== database)
    throw new StoreError(73, `Mismatched $db in explain command. Expected ${database} but got ${named}`);
}

async function explain(engine: Engine, request: Request): Promise<Reply> {
  const inner = options.document(request.command, 'explain');
  const name = inner && fieldsOf(inner)[0]?.name;
  if (!inner || !name) throw notSupported('explain of nothing');
  const verbosity = options.text(request.command, 'verbosity') ?? 'allPlansExecution';
  checkDatabase(inner, request.database);
  return explained(engine, { ...request, command: inner, name }, verbosity);
}

export const explainCommands: Readonly<Record<string, Command>> = {
  explain: { fields: 'verbosity', needs: 'read', run: explain },
};
