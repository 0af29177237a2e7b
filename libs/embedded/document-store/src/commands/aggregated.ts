import { StoreError } from '../errors.js';
import * as options from '../bson/options.js';
import { fieldsOf, type Value } from '../bson/values.js';
import type { Engine, Request } from '../engine.js';
import { compilePipeline } from '../query/aggregate.js';
import { bindings } from '../query/stages-joining.js';
import { noVariables } from '../query/variables.js';
import type { Collection } from '../storage/catalogue.js';
import type { Documents } from '../storage/cursors.js';
import type { View } from '../storage/layers.js';
import { emptyDocument } from './writes.js';

export function pipelineOf(command: Value): Value[] {
  const pipeline = options.array(command, 'pipeline');
  if (!pipeline) throw new StoreError(9, "BSON field 'aggregate.pipeline' is missing but a required field");
  return fieldsOf(pipeline);
}

/** Documents of an aggregation; the collections it joins are noted in `used`. */
export function aggregated(
  engine: Engine,
  request: Request,
  view: View,
  used: (collection: Collection) => void = () => undefined,
): Documents {
  const { command, database, name } = request;
  const bound = bindings(options.document(command, 'let'), noVariables);
  const variables = { names: bound.names, scope: bound.scope({ root: emptyDocument }) };
  const collection = (other: string): Collection | undefined => {
    const found = engine.collection(request, `${database}.${other}`);
    if (found) used(found);
    return found;
  };
  const pipeline = compilePipeline(pipelineOf(command), { view, collection }, variables);
  const own = options.text(command, name);
  return pipeline.over(
    own === undefined ? undefined : engine.collection(request, `${database}.${own}`),
    options.present(command, 'hint'),
  );
}
