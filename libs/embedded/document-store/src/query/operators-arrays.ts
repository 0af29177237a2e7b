import { StoreError } from '../errors.js';
import { DocumentNode, nodeValue, toValue } from '../bson/encode.js';
import { int32Value, toInteger } from '../bson/numbers.js';
import { compareValues, keyText } from '../bson/order.js';
import {
  BsonType,
  field,
  fieldsOf,
  isNumber,
  missing,
  textOf,
  typeName,
  type Value,
} from '../bson/values.js';
import { sortFields, sortKey } from './sort-keys.js';
import {
  arrayOf,
  boolean,
  eager,
  isNullish,
  isTrue,
  namedOf,
  nullValue,
  withVariable,
  type Expression,
  type Operator,
  type Scope,
} from './expressions.js';

const isArray = ({ type }: Value): boolean => type === BsonType.array;

function itemsOf(value: Value, code: number, message: (type: string) => string): Value[] {
  if (!isArray(value)) throw new StoreError(code, message(typeName(value.type)));
  return fieldsOf(value);
}

function wholeOf(value: Value, code: number, what: string): number {
  const whole = isNumber(value) ? toInteger(value) : undefined;
  if (whole === undefined || BigInt.asIntN(32, whole) !== whole)
    throw new StoreError(code, `${what} must be a 32-bit integer, found: ${typeName(value.type)}`);
  return Number(whole);
}

function elementAt([array = missing, at = missing]: readonly Value[]): Value {
  if (isNullish(array) || isNullish(at)) return nullValue;
  const items = itemsOf(
    array,
    28689,
    (type) => `$arrayElemAt's first argument must be an array, but is ${type}`,
  );
  return items.at(wholeOf(at, 28691, "$arrayElemAt's second argument")) ?? missing;
}

const edge = (index: 0 | -1): Operator =>
  eager(1, 1, ([array = missing], name) => {
    if (isNullish(array)) return nullValue;
    return (
      itemsOf(array, 28689, (type) => `${name}'s argument must be an array, but is ${type}`).at(index) ??
      missing
    );
  });

function slice([array = missing, first = missing, count]: readonly Value[]): Value {
  if (isNullish(array) || isNullish(first) || (count && isNullish(count))) return nullValue;
  const items = itemsOf(
    array,
    28724,
    (type) => `First argument to $slice must be an array, but is of type: ${type}`,
  );
  const from = wholeOf(first, 28725, 'Second argument to $slice');
  if (!count) return arrayOf(from < 0 ? items.slice(from) : items.slice(0, from));
  const number = wholeOf(count, 28727, 'Third argument to $slice');
  if (number <= 0) throw new StoreError(28729, `Third argument to $slice must be positive: ${number}`);
  const start = from < 0 ? Math.max(items.length + from, 0) : from;
  return arrayOf(items.slice(start, start + number));
}

function concatenated(args: readonly Value[]): Value {
  if (args.some(isNullish)) return nullValue;
  return arrayOf(
    args.flatMap((array) =>
      itemsOf(array, 28664, (type) => `$concatArrays only supports arrays, not ${type}`),
    ),
  );
}

function range([start = missing, end = missing, step = int32Value(1)]: readonly Value[]): Value {
  const [from, to] = [
    wholeOf(start, 34443, "$range's starting value"),
    wholeOf(end, 34444, "$range's ending value"),
  ];
  const by = wholeOf(step, 34447, "$range's step value");
  if (by === 0) throw new StoreError(34449, '$range requires a non-zero step value');
  if ((to - from) / by > 1_000_000) throw new StoreError(146, '$range would give more than 1000000 elements');
  const items: Value[] = [];
  for (let at = from; by > 0 ? at < to : at > to; at += by) items.push(int32Value(at));
  return arrayOf(items);
}

function indexOf([array = missing, wanted = missing, start, end]: readonly Value[]): Value {
  if (isNullish(array)) return nullValue;
  const items = itemsOf(
    array,
    40090,
    (type) => `$indexOfArray requires an array as a first argument, found: ${type}`,
  );
  const from = start ? wholeOf(start, 40096, '$indexOfArray starting index') : 0;
  const to = end ? wholeOf(end, 40096, '$indexOfArray ending index') : items.length;
  if (from < 0 || to < 0) throw new StoreError(40097, '$indexOfArray requires non-negative indexes');
  const found = items.findIndex(
    (item, i) => i >= from && i < to && wanted.type !== BsonType.missing && compareValues(item, wanted) === 0,
  );
  return int32Value(found);
}

/** `$map`, `$filter` and `$reduce` bind a variable to each element in turn. */
function each(
  operand: Parameters<Operator>[0],
  compile: Parameters<Operator>[1],
  part: string,
  code: number,
): {
  input: Expression;
  inner: Expression;
  bind: (scope: Scope, item: Value) => Scope;
  items: (value: Value) => Value[];
} {
  const optional = part === 'cond' ? ['as', 'limit'] : ['as'];
  const given = namedOf(operand, ['input', part], optional);
  const as = given.get('as');
  if (as && as.type !== BsonType.string) throw new StoreError(9, `${operand.name}'s 'as' must be a string`);
  const name = as ? textOf(as) : 'this';
  return {
    input: compile(given.get('input') as Value),
    inner: compile(given.get(part) as Value, [name]),
    bind: (scope, item) => withVariable(scope, name, item),
    items: (value) => itemsOf(value, code, (type) => `input to ${operand.name} must be an array not ${type}`),
  };
}

const map: Operator = (operand, compile) => {
  const { input, inner, bind, items } = each(operand, compile, 'in', 16883);
  return (scope) => {
    const array = input(scope);
    return isNullish(array) ? nullValue : arrayOf(items(array).map((item) => inner(bind(scope, item))));
  };
};

const filter: Operator = (operand, compile) => {
  const { input, inner, bind, items } = each(operand, compile, 'cond', 28651);
  const limitOperand = field(operand, 'limit');
  const limit = limitOperand && compile(limitOperand);
  return (scope) => {
    const array = input(scope);
    if (isNullish(array)) return nullValue;
    const kept = items(array).filter((item) => isTrue(inner(bind(scope, item))));
    const most = limit ? limit(scope) : nullValue;
    if (isNullish(most)) return arrayOf(kept);
    const count = wholeOf(most, 327391, "$filter's limit");
    if (count < 1) throw new StoreError(327392, `$filter: limit must be greater than 0: ${count}`);
    return arrayOf(kept.slice(0, count));
  };
};

const reduce: Operator = (operand, compile) => {
  const given = namedOf(operand, ['input', 'initialValue', 'in']);
  const [input, initial] = [
    compile(given.get('input') as Value),
    compile(given.get('initialValue') as Value),
  ];
  const inner = compile(given.get('in') as Value, ['this', 'value']);
  return (scope) => {
    const array = input(scope);
    if (isNullish(array)) return nullValue;
    return itemsOf(
      array,
      40080,
      (type) => `$reduce requires that 'input' be an array, found: ${type}`,
    ).reduce<Value>(
      (value, item) => inner(withVariable(withVariable(scope, 'this', item), 'value', value)),
      initial(scope),
    );
  };
};

const sortArray: Operator = (operand, compile) => {
  const given = namedOf(operand, ['input', 'sortBy']);
  const input = compile(given.get('input') as Value);
  const order = given.get('sortBy') as Value;
  const compare = comparatorOf(order);
  return (scope) => {
    const array = input(scope);
    if (isNullish(array)) return nullValue;
    const items = itemsOf(
      array,
      2942504,
      (type) => `The input argument to $sortArray must be an array, but was of type: ${type}`,
    );
    return arrayOf([...items].sort(compare));
  };
};

function comparatorOf(order: Value): (a: Value, b: Value) => number {
  if (order.type !== BsonType.object) {
    const direction = isNumber(order) ? Number(toInteger(order)) : 0;
    if (Math.abs(direction) !== 1) throw new StoreError(2, 'The $sort element value must be either 1 or -1');
    return (a, b) => direction * compareValues(a, b);
  }
  const fields = sortFields(order);
  const keyed = (item: Value): Buffer =>
    sortKey(fields, item.type === BsonType.object ? itemBytes(item) : Buffer.from([5, 0, 0, 0, 0]));
  return (a, b) => keyed(a).compare(keyed(b));
}

const itemBytes = (item: Value): Buffer =>
  item.bytes.subarray(item.at, item.at + item.bytes.readInt32LE(item.at));

function toObject([array = missing]: readonly Value[]): Value {
  if (isNullish(array)) return nullValue;
  const made = new DocumentNode();
  for (const item of itemsOf(
    array,
    40386,
    (type) => `$arrayToObject requires an array input, found: ${type}`,
  )) {
    const [key, value] = isArray(item) ? fieldsOf(item) : [field(item, 'k'), field(item, 'v')];
    if ((item.type !== BsonType.object && !isArray(item)) || key?.type !== BsonType.string || !value)
      throw new StoreError(40392, '$arrayToObject requires an array of key-value pairs, as [k, v] or {k, v}');
    made.set(textOf(key), value);
  }
  return nodeValue(made);
}

function toPairs([document = missing]: readonly Value[]): Value {
  if (isNullish(document)) return nullValue;
  if (document.type !== BsonType.object)
    throw new StoreError(
      40390,
      `$objectToArray requires a document input, found: ${typeName(document.type)}`,
    );
  return arrayOf(
    fieldsOf(document).map((entry) =>
      nodeValue(
        new DocumentNode([
          ['k', toValue(entry.name)],
          ['v', entry],
        ]),
      ),
    ),
  );
}

/** Sets: each value once, in the order of values. */
function setOf(value: Value, name: string): Map<string, Value> {
  const items = itemsOf(
    value,
    17043,
    (type) => `All operands of ${name} must be arrays. One argument is of type: ${type}`,
  );
  return new Map(items.map((item) => [keyText(item), item]));
}

const inOrder = (values: Iterable<Value>): Value => arrayOf([...values].sort(compareValues));

const setOperator = (act: (sets: Map<string, Value>[]) => Value, least: number, most = Infinity): Operator =>
  eager(least, most, (args, name) =>
    args.some(isNullish) ? nullValue : act(args.map((value) => setOf(value, name))),
  );

const quantified = (holds: (items: Value[]) => boolean): Operator =>
  eager(1, 1, ([array = missing], name) =>
    boolean(holds(itemsOf(array, 17040, (type) => `${name}'s argument must be an array, but is ${type}`))),
  );

type Set1 = Map<string, Value>;
const [firstOf, secondOf] = [(sets: Set1[]) => sets[0] as Set1, (sets: Set1[]) => sets[1] as Set1];

export const arrayOperators: Readonly<Record<string, Operator>> = {
  $arrayElemAt: eager(2, 2, elementAt),
  $first: edge(0),
  $last: edge(-1),
  $size: eager(1, 1, ([array = missing]) =>
    int32Value(
      itemsOf(array, 17124, (type) => `The argument to $size must be an array, but was of type: ${type}`)
        .length,
    ),
  ),
  $isArray: eager(1, 1, ([value]) => boolean(isArray(value as Value))),
  $in: eager(2, 2, ([wanted = missing, array = missing]) => {
    const items = itemsOf(
      array,
      40081,
      (type) => `$in requires an array as a second argument, found: ${type}`,
    );
    return boolean(
      wanted.type !== BsonType.missing && items.some((item) => compareValues(item, wanted) === 0),
    );
  }),
  $concatArrays: eager(0, Infinity, concatenated),
  $slice: eager(2, 3, slice),
  $range: eager(2, 3, range),
  $reverseArray: eager(1, 1, ([array = missing]) =>
    isNullish(array)
      ? nullValue
      : arrayOf(
          itemsOf(
            array,
            34435,
            (type) => `The argument to $reverseArray must be an array, but was of type: ${type}`,
          ).reverse(),
        ),
  ),
  $indexOfArray: eager(2, 4, indexOf),
  $map: map,
  $filter: filter,
  $reduce: reduce,
  $sortArray: sortArray,
  $arrayToObject: eager(1, 1, toObject),
  $objectToArray: eager(1, 1, toPairs),
  $setUnion: setOperator((sets) => inOrder(new Map(sets.flatMap((set) => [...set])).values()), 0),
  $setIntersection: setOperator((sets) => {
    const [first, ...others] = sets;
    return inOrder(
      [...(first ?? [])].filter(([key]) => others.every((set) => set.has(key))).map(([, value]) => value),
    );
  }, 0),
  $setDifference: setOperator(
    (sets) =>
      arrayOf([...firstOf(sets)].filter(([key]) => !secondOf(sets).has(key)).map(([, value]) => value)),
    2,
    2,
  ),
  $setEquals: eager(2, Infinity, (args, name) => {
    const [first, ...others] = args.map((value) => setOf(value, name));
    return boolean(
      others.every((set) => set.size === first?.size && [...set.keys()].every((key) => first.has(key))),
    );
  }),
  $setIsSubset: eager(2, 2, ([a, b], name) => {
    const [inner, outer] = [setOf(a as Value, name), setOf(b as Value, name)];
    return boolean([...inner.keys()].every((key) => outer.has(key)));
  }),
  $anyElementTrue: quantified((items) => items.some(isTrue)),
  $allElementsTrue: quantified((items) => items.every(isTrue)),
};
