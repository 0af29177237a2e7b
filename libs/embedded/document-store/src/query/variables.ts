import type { Value } from '../bson/values.js';
import type { Scope } from './expressions.js';

/**
 * Variables a pipeline is given from outside (`let`): the names are known when it is compiled, the values are set
 * before each run. A run ends before the next begins.
 */
export interface Variables {
  readonly names: readonly string[];
  scope?: Scope;
}

export const noVariables: Variables = { names: [] };

/** What expressions of a document are evaluated in. */
export const scopeOf = (root: Value, { scope }: Variables): Scope =>
  scope ? { root, outer: scope } : { root };
