import { StoreError } from '../errors.js';
import { BsonType, fieldsOf, type Value } from '../bson/values.js';
import { compilePipeline } from '../query/aggregate.js';

/** Stages that make one document of one. */
export const updateStages = ['$addFields', '$set', '$project', '$unset', '$replaceRoot', '$replaceWith'];

const noView = { get: () => undefined, read: () => ({ entries: [] }) };

/** Compiles an update that is a pipeline: what it makes of a document. */
export function compileUpdatePipeline(pipeline: Value): (document: Buffer) => Buffer {
  const stages = fieldsOf(pipeline);
  for (const stage of stages) {
    const name = stage.type === BsonType.object ? fieldsOf(stage)[0]?.name : undefined;
    if (name !== undefined && !updateStages.includes(name))
      throw new StoreError(72, `${name} is not allowed to be used within an update`);
  }
  const compiled = compilePipeline(stages, { view: noView, collection: () => undefined });
  return (document) => {
    for (const made of compiled.on(only(document))) if (made) return made;
    throw new StoreError(1, 'an update gave no document');
  };
}

function* only(document: Buffer): Generator<Buffer, void, void> {
  yield document;
}
