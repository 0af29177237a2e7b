import { StoreError, notSupported } from '../errors.js';
import { truth } from '../bson/options.js';
import { BsonType, field, fieldsOf, firstName, typeName, type Field, type Value } from '../bson/values.js';
import { isTrue } from './expressions.js';
import { compileSchema } from './json-schema.js';
import { compileExpression } from './language.js';
import {
  bitTest,
  comparison,
  equalTo,
  modulo,
  oneOf,
  regexTest,
  sizeTest,
  typeTest,
  type LeafTest,
} from './leaf-tests.js';
import { parsePath, someElement, somePathValue, type Path } from './paths.js';
import { noVariables, scopeOf, type Variables } from './variables.js';

/** Whether a document satisfies a filter, with MongoDB's semantics for missing fields, arrays and types. */
export type Predicate = (document: Value) => boolean;

/** One condition on a path; `onValue` is the same condition on a bare value, as `$elemMatch` and `$pull` need it. */
interface Condition {
  onPath(path: Path): Predicate;
  onValue(value: Value): boolean;
}

/** Names of the operators a filter may use, for the generated table of what is promised. */
export const queryOperators = [
  '$eq $ne $gt $gte $lt $lte $in $nin $exists $type $regex $mod $size $all $elemMatch $not',
  '$bitsAllSet $bitsAllClear $bitsAnySet $bitsAnyClear $and $or $nor $expr $jsonSchema $comment',
].flatMap((line) => line.split(' '));

/** Compiles a filter. An operator outside the promised set is refused by name, never ignored. */
export function compileFilter(filter: Value, variables: Variables = noVariables): Predicate {
  const all = fieldsOf(filter).map((entry) => compileEntry(entry, variables));
  if (all.length === 0) return () => true;
  if (all.length === 1) return all[0] as Predicate;
  return (document) => all.every((test) => test(document));
}

function compileEntry(entry: Field, variables: Variables): Predicate {
  const { name } = entry;
  if (name === '$and' || name === '$or' || name === '$nor') {
    const tests = branches(entry).map((branch) => compileFilter(branch, variables));
    if (name === '$and') return (document) => tests.every((test) => test(document));
    if (name === '$or') return (document) => tests.some((test) => test(document));
    return (document) => !tests.some((test) => test(document));
  }
  if (name === '$comment') return () => true;
  if (name === '$expr') {
    const expression = compileExpression(entry, variables.names);
    return (document) => isTrue(expression(scopeOf(document, variables)));
  }
  if (name === '$jsonSchema') return compileSchema(entry);
  if (name === '$where') throw notSupported('server-side JavaScript ($where)');
  if (name === '$text' || name === '$sampleRate') throw notSupported(name);
  if (name.startsWith('$')) throw new StoreError(2, `unknown top level operator: ${name}`);
  const path = parsePath(name);
  const tests = conditions(entry).map((condition) => condition.onPath(path));
  return tests.length === 1 ? (tests[0] as Predicate) : (document) => tests.every((test) => test(document));
}

export function branches(entry: Field): Field[] {
  const members = entry.type === BsonType.array ? fieldsOf(entry) : [];
  if (members.length === 0) throw new StoreError(2, `${entry.name} must be a nonempty array`);
  if (members.some((member) => member.type !== BsonType.object))
    throw new StoreError(2, '$or/$and/$nor entries need to be full objects');
  return members;
}

const dollar = 0x24;

/** True for `{$op: …}`; a document with ordinary fields is an equality. */
export function hasOperators(value: Value): boolean {
  if (value.type !== BsonType.object) return false;
  if (value.bytes[value.at + 4] === 0 || value.bytes[value.at + 5] !== dollar) return false;
  return !['$ref', '$id', '$db'].includes(firstName(value));
}

/** The test of a `$pull` or `$elemMatch` operand on a bare value. */
export function compileOperand(operand: Value): (value: Value) => boolean {
  const all = conditions(operand);
  return (value) => all.every((condition) => condition.onValue(value));
}

function conditions(operand: Value): Condition[] {
  if (operand.type === BsonType.regex) return [leaf(regexTest(operand))];
  if (!hasOperators(operand)) return [leaf(equalTo(operand))];
  return fieldsOf(operand).flatMap((entry) => operatorConditions(entry, operand));
}

function operatorConditions(entry: Field, whole: Value): Condition[] {
  switch (entry.name) {
    case '$eq':
      return [leaf(equalTo(entry))];
    case '$ne':
      if (entry.type === BsonType.regex) throw new StoreError(2, "Can't have regex as arg to $ne.");
      return [negated([leaf(equalTo(entry))])];
    case '$gt':
    case '$gte':
    case '$lt':
    case '$lte':
      return [leaf(comparison(entry.name, entry))];
    case '$in':
      return [leaf(oneOf(entry))];
    case '$nin':
      return [negated([leaf(oneOf(entry))])];
    case '$exists': {
      const exists = leaf((value) => value.type !== BsonType.missing);
      return [truth(entry) ? exists : negated([exists])];
    }
    case '$type':
      return [leaf(typeTest(entry))];
    case '$regex':
      return [leaf(regexTest(entry, field(whole, '$options')))];
    case '$options':
      if (!field(whole, '$regex')) throw new StoreError(2, '$options needs a $regex');
      return [];
    case '$mod':
      return [leaf(modulo(entry))];
    case '$size':
      return [leaf(sizeTest(entry))];
    case '$all':
      return allConditions(entry);
    case '$elemMatch':
      return [leaf(elementMatch(entry))];
    case '$bitsAllSet':
    case '$bitsAllClear':
    case '$bitsAnySet':
    case '$bitsAnyClear':
      return [leaf(bitTest(entry.name, entry))];
    case '$geoWithin':
    case '$geoIntersects':
    case '$near':
    case '$nearSphere':
      throw new StoreError(2, `geo queries (${entry.name}) are not supported by this document store`);
    case '$not':
      return [negated(negatable(entry))];
    case '$comment':
      return [];
    default:
      throw new StoreError(2, `unknown operator: ${entry.name}`);
  }
}

function negatable(entry: Field): Condition[] {
  if (entry.type === BsonType.regex) return [leaf(regexTest(entry))];
  if (!hasOperators(entry)) throw new StoreError(2, '$not needs a regex or a document');
  return conditions(entry);
}

function allConditions(entry: Field): Condition[] {
  if (entry.type !== BsonType.array) throw new StoreError(2, '$all needs an array');
  const members = fieldsOf(entry);
  if (members.length === 0) return [leaf(() => false)];
  return members.flatMap((member) => {
    if (!hasOperators(member)) return conditions(member);
    if (fieldsOf(member)[0]?.name !== '$elemMatch') throw new StoreError(2, 'no $ expressions in $all');
    return conditions(member);
  });
}

/** `$elemMatch` on operators tests the elements themselves, on fields the documents among them. */
function elementMatch(entry: Field): LeafTest {
  if (entry.type !== BsonType.object)
    throw new StoreError(2, `$elemMatch needs an Object, not ${typeName(entry.type)}`);
  const logical = ['$and', '$or', '$nor'].includes(fieldsOf(entry)[0]?.name ?? '');
  if (hasOperators(entry) && !logical) {
    const test = compileOperand(entry);
    return (value, isElement) => value.type === BsonType.array && !isElement && someElement(value, test);
  }
  const test = compileFilter(entry);
  return (value, isElement) =>
    value.type === BsonType.array &&
    !isElement &&
    someElement(
      value,
      (element) => (element.type === BsonType.object || element.type === BsonType.array) && test(element),
    );
}

function leaf(test: LeafTest): Condition {
  return {
    onPath: (path) => (document) => somePathValue(document, path, test),
    onValue: (value) =>
      (value.type === BsonType.array && someElement(value, (element) => test(element, true))) ||
      test(value, false),
  };
}

function negated(inner: readonly Condition[]): Condition {
  return {
    onPath: (path) => {
      const tests = inner.map((condition) => condition.onPath(path));
      return (document) => !tests.every((test) => test(document));
    },
    onValue: (value) => !inner.every((condition) => condition.onValue(value)),
  };
}
