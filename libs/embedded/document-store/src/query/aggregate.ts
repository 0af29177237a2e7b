import type { Value } from '../bson/values.js';
import { BsonType, documentValue, fieldsOf, type Field } from '../bson/values.js';
import { StoreError, notSupported } from '../errors.js';
import type { Documents } from '../storage/cursors.js';
import { find, type FindOptions } from './find.js';
import type { Pipeline, Sources, Stage } from './pipelines.js';
import { leftOutStages, stages, wholeOf } from './stages.js';
import { asDocuments } from './streams.js';
import { type Variables, noVariables } from './variables.js';

/** Names of the stages a pipeline may use. */
export const aggregationStages = Object.keys(stages);

/** Leading `$match`, `$sort`, `$skip` and `$limit` in this order are answered by the planner. */
export function compilePipeline(
  pipeline: readonly Value[],
  sources: Sources,
  variables: Variables = noVariables,
): Pipeline {
  const operands = pipeline.map(stageOperand);
  const within: Sources = { ...sources, compile: compilePipeline };
  const compiled = operands.map((operand) =>
    (stages[operand.name] as (typeof stages)[string])(operand, within, variables),
  );
  const run = (input: Documents, from: number): Documents =>
    compiled.slice(from).reduce((documents: Documents, stage: Stage) => stage(documents), input);
  return {
    over: (collection, hint) => {
      if (!collection) return run(none(), 0);
      const { filter, options, taken } = leading(operands, variables);
      const wanted = { ...options, ...(hint ? { hint } : {}) };
      return run(asDocuments(find(sources.view, collection, filter, wanted)), taken);
    },
    on: (documents) => run(documents, 0),
  };
}

function* none(): Documents {}

export function stageOperand(stage: Value): Field {
  const [operand, ...more] = stage.type === BsonType.object ? fieldsOf(stage) : [];
  if (!operand || more.length > 0)
    throw new StoreError(40323, 'A pipeline stage specification object must contain exactly one field.');
  if (Object.hasOwn(stages, operand.name)) return operand;
  if (leftOutStages.has(operand.name)) throw notSupported(`aggregation stage ${operand.name}`);
  throw new StoreError(40324, `Unrecognized pipeline stage name: '${operand.name}'`);
}

/** The part of a pipeline that is an ordinary find; a filter that needs variables is not. */
export function leading(
  operands: readonly Field[],
  variables: Variables,
): { filter: Value; options: FindOptions; taken: number } {
  let taken = 0;
  const next = (name: string): Field | undefined => {
    const operand = operands[taken];
    if (operand?.name !== name) return undefined;
    taken++;
    return operand;
  };
  const nothing = { filter: documentValue(Buffer.from([5, 0, 0, 0, 0])), options: {}, taken: 0 };
  if (variables.names.length > 0 && operands[0]?.name === '$match') return nothing;
  const filter = next('$match');
  const sort = next('$sort');
  const skip = next('$skip');
  const limit = next('$limit');
  const options = {
    ...(sort ? { sort } : {}),
    ...(skip ? { skip: wholeOf(skip, 0) } : {}),
    ...(limit ? { limit: wholeOf(limit, 1) } : {}),
  };
  return { filter: filter ?? nothing.filter, options, taken };
}
