import { StoreError, notSupported } from '../errors.js';
import { ArrayNode, DocumentNode, encodeNode, type Node } from '../bson/encode.js';
import { truth } from '../bson/options.js';
import { BsonType, documentValue, fieldsOf, isNumber, type Field, type Value } from '../bson/values.js';

interface Tree {
  [name: string]: Tree | true;
}

/** Compiles a projection of included or excluded fields; undefined leaves documents as they are. */
export function compileProjection(projection: Value | undefined): ((document: Buffer) => Buffer) | undefined {
  const fields = projection ? fieldsOf(projection) : [];
  if (fields.length === 0) return undefined;
  const tree: Tree = Object.create(null) as Tree;
  const others = flatten(fields, '').filter(([name]) => name !== '_id');
  const id = flatten(fields, '').find(([name]) => name === '_id')?.[1];
  const including = others.length > 0 ? (others[0] as [string, boolean])[1] : id === true;
  for (const [name, included] of others) {
    if (included !== including)
      throw new StoreError(
        included ? 31253 : 31254,
        `Cannot do ${included ? 'inclusion' : 'exclusion'} on field ${name} in ${including ? 'inclusion' : 'exclusion'} projection`,
      );
    plant(tree, name.split('.'), name);
  }
  if (including ? id !== false : id === false) tree['_id'] = true;
  const prune = including ? include : exclude;
  return (document) => encodeNode(prune(documentValue(document), tree) as DocumentNode);
}

function flatten(fields: readonly Field[], prefix: string): [string, boolean][] {
  return fields.flatMap((field): [string, boolean][] => {
    const name = prefix + field.name;
    if (field.name.startsWith('$')) throw notSupported(`${field.name} in a projection`);
    if (name.split('.').some((part) => part === '$' || part === ''))
      throw notSupported(`the projection of '${name}'`);
    if (field.type === BsonType.object) return flatten(fieldsOf(field), `${name}.`);
    if (!isNumber(field) && field.type !== BsonType.boolean)
      throw notSupported(`an expression in the projection of '${name}'`);
    return [[name, truth(field)]];
  });
}

function plant(tree: Tree, parts: readonly string[], path: string): void {
  const [first = '', ...rest] = parts;
  const known = tree[first];
  if (known === true || (known && rest.length === 0)) throw new StoreError(2, `Path collision at ${path}`);
  if (rest.length === 0) tree[first] = true;
  else plant(known ?? (tree[first] = Object.create(null) as Tree), rest, path);
}

function include(value: Value, tree: Tree): Node | undefined {
  if (value.type === BsonType.array)
    return new ArrayNode(fieldsOf(value).flatMap((element) => include(element, tree) ?? []));
  if (value.type !== BsonType.object) return undefined;
  const kept = new DocumentNode();
  for (const field of fieldsOf(value)) {
    const branch = tree[field.name];
    const node = branch === true ? field : branch && include(field, branch);
    if (node) kept.entries.push([field.name, node]);
  }
  return kept;
}

function exclude(value: Value, tree: Tree): Node {
  if (value.type === BsonType.array)
    return new ArrayNode(fieldsOf(value).map((element) => exclude(element, tree)));
  if (value.type !== BsonType.object) return value;
  const kept = new DocumentNode();
  for (const field of fieldsOf(value)) {
    const branch = tree[field.name];
    if (branch !== true) kept.entries.push([field.name, branch ? exclude(field, branch) : field]);
  }
  return kept;
}
