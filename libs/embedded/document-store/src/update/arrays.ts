import { StoreError, notSupported } from '../errors.js';
import { ArrayNode, DocumentNode, nodeValue, type Node } from '../bson/encode.js';
import { compareValues, equalValues, keyText } from '../bson/order.js';
import { toInteger } from '../bson/numbers.js';
import { BsonType, documentValue, field, fieldsOf, isNumber, typeName, type Value } from '../bson/values.js';
import { sortFields, sortKey } from '../query/sort-keys.js';
import { compileFilter, compileOperand, hasOperators } from '../query/match.js';
import { encodeNode } from '../bson/encode.js';
import { opened, type Place } from './places.js';

type ArrayOperator = (place: Place, operand: Value, path: string) => void;

/** The array at a place; `otherwise` makes the refusal when something else is there. */
function arrayAt(place: Place, otherwise: (type: string) => StoreError): ArrayNode | undefined {
  const known = place.get();
  if (!known) return undefined;
  const node = opened(known);
  if (!(node instanceof ArrayNode)) throw otherwise(typeName(nodeValue(node).type));
  return node;
}

const eachOf = (operand: Value): Value | undefined =>
  operand.type === BsonType.object ? field(operand, '$each') : undefined;

function members(operator: string, each: Value): Value[] {
  if (each.type !== BsonType.array)
    throw new StoreError(
      2,
      `The argument to $each in ${operator} must be an array but it was of type ${typeName(each.type)}`,
    );
  return fieldsOf(each);
}

const push: ArrayOperator = (place, operand, path) => {
  const array =
    arrayAt(
      place,
      (type) => new StoreError(2, `The field '${path}' must be an array but is of type ${type}`),
    ) ?? new ArrayNode();
  const each = eachOf(operand);
  if (!each) array.items.push(operand);
  else {
    const modifiers = new Map(fieldsOf(operand).map((entry) => [entry.name, entry]));
    for (const name of modifiers.keys())
      if (!['$each', '$position', '$sort', '$slice'].includes(name))
        throw new StoreError(2, `Unrecognized clause in $push: ${name}`);
    const at = wholeModifier(modifiers.get('$position'), '$position');
    array.items.splice(at ?? array.items.length, 0, ...members('$push', each));
    const sort = modifiers.get('$sort');
    if (sort) sortItems(array, sort);
    const slice = wholeModifier(modifiers.get('$slice'), '$slice');
    if (slice !== undefined)
      array.items.splice(
        0,
        array.items.length,
        ...(slice < 0 ? array.items.slice(slice) : array.items.slice(0, slice)),
      );
  }
  place.set(array);
};

function wholeModifier(value: Value | undefined, name: string): number | undefined {
  if (!value) return undefined;
  const number = isNumber(value) ? toInteger(value) : undefined;
  if (number === undefined) throw new StoreError(2, `The value for ${name} must be an integer value`);
  return Number(number);
}

function sortItems(array: ArrayNode, sort: Value): void {
  if (sort.type === BsonType.object) {
    if (!array.items.every((item) => nodeValue(item).type === BsonType.object))
      throw notSupported('$push with $sort by fields on an array with other elements than documents');
    const fields = sortFields(sort);
    const keyed = array.items.map((item) => ({ item, key: sortKey(fields, encodeNode(asDocument(item))) }));
    keyed.sort((a, b) => a.key.compare(b.key));
    keyed.forEach(({ item }, i) => (array.items[i] = item));
    return;
  }
  const direction = wholeModifier(sort, '$sort');
  if (direction !== 1 && direction !== -1)
    throw new StoreError(2, 'The $sort element value must be either 1 or -1');
  array.items.sort((a, b) => direction * compareValues(nodeValue(a), nodeValue(b)));
}

const asDocument = (node: Node): DocumentNode => opened(node) as DocumentNode;

const addToSet: ArrayOperator = (place, operand, path) => {
  const array =
    arrayAt(
      place,
      (type) =>
        new StoreError(
          2,
          `Cannot apply $addToSet to non-array field. Field named '${path}' has non-array type ${type}`,
        ),
    ) ?? new ArrayNode();
  const known = new Set(array.items.map((item) => keyText(nodeValue(item))));
  const each = eachOf(operand);
  for (const member of each ? members('$addToSet', each) : [operand]) {
    const key = keyText(member);
    if (!known.has(key)) array.items.push(member);
    known.add(key);
  }
  place.set(array);
};

const pop: ArrayOperator = (place, operand, path) => {
  const end = isNumber(operand) ? Number(toInteger(operand)) : NaN;
  if (end !== 1 && end !== -1) throw new StoreError(9, `$pop expects 1 or -1, found: ${end}`);
  const array = arrayAt(
    place,
    (type) => new StoreError(14, `Path '${path}' contains an element of non-array type '${type}'`),
  );
  if (!array) return;
  if (end === 1) array.items.pop();
  else array.items.shift();
  place.set(array);
};

const pull: ArrayOperator = (place, operand) => {
  const array = arrayAt(place, () => new StoreError(2, 'Cannot apply $pull to a non-array value'));
  if (!array) return;
  const matches = pullTest(operand);
  const kept = array.items.filter((item) => !matches(nodeValue(item)));
  if (kept.length !== array.items.length) place.set(new ArrayNode(kept));
};

const pullAll: ArrayOperator = (place, operand) => {
  if (operand.type !== BsonType.array)
    throw new StoreError(2, `$pullAll requires an array argument but was given a ${typeName(operand.type)}`);
  const array = arrayAt(place, () => new StoreError(2, 'Cannot apply $pull to a non-array value'));
  if (!array) return;
  const gone = new Set(fieldsOf(operand).map(keyText));
  const kept = array.items.filter((item) => !gone.has(keyText(nodeValue(item))));
  if (kept.length !== array.items.length) place.set(new ArrayNode(kept));
};

/** A document without operators is a filter on elements that are documents; a bare value is an equality. */
function pullTest(operand: Value): (value: Value) => boolean {
  if (hasOperators(operand) || operand.type === BsonType.regex) return compileOperand(operand);
  if (operand.type !== BsonType.object) return (value) => equalValues(value, operand);
  const test = compileFilter(operand);
  return (value) => value.type === BsonType.object && test(value);
}

export const arrayOperators: Readonly<Record<string, ArrayOperator>> = {
  $push: push,
  $addToSet: addToSet,
  $pop: pop,
  $pull: pull,
  $pullAll: pullAll,
};

/** A document node from raw bytes. */
export const openDocument = (bytes: Buffer): DocumentNode => DocumentNode.of(documentValue(bytes));
