import { StoreError } from '../errors.js';
import { BsonType, textOf, type Field, type Value } from '../bson/values.js';
import type { Collection } from '../storage/catalogue.js';
import type { Documents } from '../storage/cursors.js';
import type { View } from '../storage/layers.js';
import type { Variables } from './variables.js';

export type Stage = (input: Documents) => Documents;

/** A pipeline, compiled as a whole before the first document is read. */
export interface Pipeline {
  /** Documents of the pipeline over a collection; without one there is nothing to begin with. */
  over(collection: Collection | undefined, hint?: Value): Documents;
  /** The same over documents that are there already. */
  on(documents: Documents): Documents;
}

/** What stages read beside their input. */
export interface Sources {
  readonly view: View;
  /** Another collection of the same database. */
  readonly collection: (name: string) => Collection | undefined;
  readonly compile?: (pipeline: readonly Value[], sources: Sources, variables: Variables) => Pipeline;
}

/** Makes the work of a stage from its operand. */
export type MakeStage = (operand: Field, sources: Sources, variables: Variables) => Stage;

export function requireDocument(operand: Field, code = 40272): Value {
  if (operand.type !== BsonType.object)
    throw new StoreError(code, `the ${operand.name} specification must be an object`);
  return operand;
}

export function textMember(value: Value | undefined, name: string): string {
  if (value?.type !== BsonType.string) throw new StoreError(9, `'${name}' must be a string`);
  return textOf(value);
}
