import { StoreError } from '../errors.js';
import { ArrayNode, DocumentNode, encodeNode, nodeValue, type Node } from '../bson/encode.js';
import { toInteger } from '../bson/numbers.js';
import { truth } from '../bson/options.js';
import {
  BsonType,
  documentValue,
  fieldsOf,
  isNumber,
  missing,
  type Field,
  type Value,
} from '../bson/values.js';
import { matchedPosition } from '../update/positional.js';
import type { Expression, Scope } from './expressions.js';
import { arrayOf } from './expressions.js';
import { compileExpression } from './language.js';
import { compileFilter, compileOperand, hasOperators } from './match.js';
import { noVariables, scopeOf, type Variables } from './variables.js';

/** What becomes of one path. A `change` is made where the field stands, a `compute` after the fields that stay. */
type Leaf =
  | { readonly kind: 'in' | 'out' }
  | {
      readonly kind: 'change';
      readonly change: (value: Value, document: Value) => Value;
      /** Naming the field leaves the others out. */
      readonly selects: boolean;
    }
  | { readonly kind: 'compute'; readonly compute: Expression };
type Tree = Map<string, Leaf | Tree>;

/** Fields named, fields left out, or all fields and some more. */
type Mode = 'include' | 'exclude' | 'add';

interface ProjectionOptions {
  /** The filter of a find: it allows `$slice`, `$elemMatch` and the positional `path.$`, which points by it. */
  readonly filter?: Value;
  readonly variables?: Variables;
}

/** Compiles the projection of a find or a `$project`; undefined leaves documents as they are. */
export function compileProjection(
  projection: Value | undefined,
  options: ProjectionOptions = {},
): ((document: Buffer) => Buffer) | undefined {
  const fields = projection ? fieldsOf(projection) : [];
  if (fields.length === 0) return undefined;
  const leaves = leavesOf(fields, '', options);
  const others = leaves.filter(([path]) => path !== '_id');
  const decisive = others.find(([, leaf]) => leaf.kind !== 'change' || leaf.selects);
  const id = leaves.find(([path]) => path === '_id')?.[1];
  const including = decisive
    ? decisive[1].kind !== 'out'
    : others.length > 0
      ? false
      : id?.kind !== 'out' && id?.kind !== 'change';
  const tree: Tree = new Map();
  for (const [path, leaf] of others) {
    checkMode(path, leaf, including);
    plant(tree, path.split('.'), leaf, path);
  }
  if (id && (id.kind === 'compute' || id.kind === 'change')) tree.set('_id', id);
  else if (including ? id?.kind !== 'out' : id?.kind === 'out')
    tree.set('_id', { kind: including ? 'in' : 'out' });
  return applying(tree, including ? 'include' : 'exclude', options.variables ?? noVariables);
}

/** `$addFields` and `$set`: every field stays, some are computed anew. */
export function compileAssignments(assignments: Value, variables: Variables): (document: Buffer) => Buffer {
  const tree: Tree = new Map();
  const assign = (fields: readonly Field[], prefix: string): void =>
    fields.forEach((entry) => {
      const path = prefix + entry.name;
      checkPath(path);
      const inner = entry.type === BsonType.object ? fieldsOf(entry) : [];
      if (inner.length > 0 && !hasOperators(entry)) return assign(inner, `${path}.`);
      plant(
        tree,
        path.split('.'),
        { kind: 'compute', compute: compileExpression(entry, variables.names) },
        path,
      );
    });
  assign(fieldsOf(assignments), '');
  return applying(tree, 'add', variables);
}

/** `$unset`: the paths are left out. */
export function compileRemovals(paths: readonly string[]): (document: Buffer) => Buffer {
  const tree: Tree = new Map();
  for (const path of paths) {
    checkPath(path);
    plant(tree, path.split('.'), { kind: 'out' }, path);
  }
  return applying(tree, 'exclude', noVariables);
}

const applying =
  (tree: Tree, mode: Mode, variables: Variables) =>
  (bytes: Buffer): Buffer => {
    const document = documentValue(bytes);
    return encodeNode(inDocument(document, tree, mode, scopeOf(document, variables)));
  };

function checkMode(path: string, leaf: Leaf, including: boolean): void {
  const { kind } = leaf;
  if (including && kind === 'out')
    throw new StoreError(31254, `Cannot do exclusion on field ${path} in inclusion projection`);
  if (!including && kind === 'in')
    throw new StoreError(31253, `Cannot do inclusion on field ${path} in exclusion projection`);
  if (!including && kind === 'compute')
    throw new StoreError(31252, 'Cannot use an expression in an exclusion projection');
}

function checkPath(path: string): void {
  for (const part of path.split('.')) {
    if (part === '') throw new StoreError(40353, `FieldPath must not have an empty field: '${path}'`);
    if (part.startsWith('$'))
      throw new StoreError(16410, `FieldPath field names may not start with '$': '${path}'`);
  }
}

function leavesOf(fields: readonly Field[], prefix: string, options: ProjectionOptions): [string, Leaf][] {
  return fields.flatMap((entry): [string, Leaf][] => {
    const path = prefix + entry.name;
    if (options.filter && path.endsWith('.$'))
      return [[path.slice(0, -2), positional(path.slice(0, -2), options.filter)]];
    checkPath(path);
    if (entry.type === BsonType.object && !hasOperators(entry)) {
      const inner = fieldsOf(entry);
      if (inner.length === 0)
        throw new StoreError(51270, `An empty sub-projection is not a valid value at '${path}'`);
      return leavesOf(inner, `${path}.`, options);
    }
    return [[path, leafOf(entry, options)]];
  });
}

function leafOf(entry: Field, { filter, variables = noVariables }: ProjectionOptions): Leaf {
  if (isNumber(entry) || entry.type === BsonType.boolean) return { kind: truth(entry) ? 'in' : 'out' };
  const [operator] = entry.type === BsonType.object ? fieldsOf(entry) : [];
  if (filter && operator?.name === '$slice' && !isExpressionSlice(operator))
    return { kind: 'change', change: slicing(operator), selects: false };
  if (filter && operator?.name === '$elemMatch')
    return { kind: 'compute', compute: firstMatch(entry.name, operator) };
  return { kind: 'compute', compute: compileExpression(entry, variables.names) };
}

/** In a find `$slice` takes numbers; with an array first it is the expression. */
const isExpressionSlice = (operand: Value): boolean =>
  operand.type === BsonType.array && fieldsOf(operand).some((part) => !isNumber(part));

function slicing(operand: Value): (value: Value) => Value {
  const numbers = (operand.type === BsonType.array ? fieldsOf(operand) : [operand]).map((part) =>
    isNumber(part) ? Number(toInteger(part) ?? NaN) : NaN,
  );
  const [first = 0, count] = numbers;
  if (numbers.length > 2 || numbers.some(Number.isNaN)) throw new StoreError(28667, 'Invalid $slice syntax');
  if (numbers.length === 2 && (count as number) <= 0)
    throw new StoreError(28724, `Third argument to $slice must be positive: ${count}`);
  return (value) => {
    if (value.type !== BsonType.array) return value;
    const items = fieldsOf(value);
    if (count === undefined) return arrayOf(first < 0 ? items.slice(first) : items.slice(0, first));
    const start = first < 0 ? Math.max(items.length + first, 0) : first;
    return arrayOf(items.slice(start, start + count));
  };
}

/** The array with only the first element that satisfies the condition; nothing when there is none. */
function firstMatch(name: string, operand: Value): Expression {
  if (operand.type !== BsonType.object)
    throw new StoreError(31274, 'elemMatch: Invalid argument, object required');
  const bare = hasOperators(operand) ? compileOperand(operand) : undefined;
  const test = bare ?? compileFilter(operand);
  return ({ root }) => {
    const array = fieldsOf(root).find((entry) => entry.name === name);
    if (array?.type !== BsonType.array) return missing;
    const found = fieldsOf(array).find((item) => (bare || item.type === BsonType.object) && test(item));
    return found ? arrayOf([found]) : missing;
  };
}

function positional(path: string, filter: Value): Leaf {
  return {
    kind: 'change',
    selects: true,
    change: (value, document) => {
      if (value.type !== BsonType.array) return value;
      const position = positionIn(document, filter, path);
      return arrayOf(fieldsOf(value).filter(({ name }) => name === position));
    },
  };
}

function positionIn(document: Value, filter: Value, path: string): string {
  try {
    return matchedPosition(document, filter, path.split('.'));
  } catch (error) {
    if (error instanceof StoreError && error.code === 2)
      throw new StoreError(
        51246,
        "Executor error during find command :: caused by :: positional operator '.$' couldn't find a matching element in the array",
      );
    throw error;
  }
}

function plant(tree: Tree, parts: readonly string[], leaf: Leaf, path: string): void {
  const [first = '', ...rest] = parts;
  const known = tree.get(first);
  if (known && rest.length === 0) throw new StoreError(31249, `Path collision at ${path}`);
  if (known && !(known instanceof Map))
    throw new StoreError(31250, `Path collision at ${path} remaining portion ${rest.join('.')}`);
  if (rest.length === 0) tree.set(first, leaf);
  else {
    const branch: Tree = known ?? new Map<string, Leaf | Tree>();
    tree.set(first, branch);
    plant(branch, rest, leaf, path);
  }
}

function inDocument(document: Value, tree: Tree, mode: Mode, scope: Scope): DocumentNode {
  const kept = new DocumentNode();
  const done = new Set<string>();
  for (const entry of document.type === BsonType.object ? fieldsOf(document) : []) {
    const branch = tree.get(entry.name);
    const node = branch ? onField(entry, branch, mode, scope) : mode === 'include' ? undefined : entry;
    if (branch instanceof Map || (branch?.kind === 'compute' && mode === 'add')) done.add(entry.name);
    if (node) kept.entries.push([entry.name, node]);
  }
  for (const [name, branch] of tree) {
    if (done.has(name)) continue;
    const node =
      branch instanceof Map
        ? made(branch, scope)
        : branch.kind === 'compute'
          ? computed(branch.compute, scope)
          : undefined;
    if (node) kept.entries.push([name, node]);
  }
  return kept;
}

function onField(entry: Field, branch: Leaf | Tree, mode: Mode, scope: Scope): Node | undefined {
  if (branch instanceof Map) return below(entry, branch, mode, scope);
  switch (branch.kind) {
    case 'in':
      return entry;
    case 'out':
      return undefined;
    case 'change':
      return branch.change(entry, scope.root);
    case 'compute':
      return mode === 'add' ? computed(branch.compute, scope) : undefined;
  }
}

/** A path goes through every element of an array; a value that has no fields is replaced where some are computed. */
function below(value: Value, tree: Tree, mode: Mode, scope: Scope): Node | undefined {
  if (value.type === BsonType.array)
    return new ArrayNode(fieldsOf(value).flatMap((element) => below(element, tree, mode, scope) ?? []));
  if (value.type === BsonType.object) return inDocument(value, tree, mode, scope);
  return made(tree, scope) ?? (mode === 'include' ? undefined : value);
}

/** The document of what is computed below a path that is not there. */
function made(tree: Tree, scope: Scope): Node | undefined {
  const document = new DocumentNode();
  let computes = false;
  for (const [name, branch] of tree) {
    const node =
      branch instanceof Map
        ? made(branch, scope)
        : branch.kind === 'compute'
          ? computed(branch.compute, scope)
          : undefined;
    computes ||= node !== undefined || (!(branch instanceof Map) && branch.kind === 'compute');
    if (node) document.entries.push([name, node]);
  }
  return computes ? document : undefined;
}

function computed(expression: Expression, scope: Scope): Node | undefined {
  const value = expression(scope);
  return value.type === BsonType.missing ? undefined : nodeValue(value);
}
