import { StoreError, notSupported } from '../errors.js';
import { ArrayNode, DocumentNode, encodeNode, nodeValue, toValue, type Node } from '../bson/encode.js';
import { toDouble, toInteger } from '../bson/numbers.js';
import { compareValues, keyText } from '../bson/order.js';
import {
  BsonType,
  documentValue,
  field,
  fieldsOf,
  isNumber,
  missing,
  textOf,
  type Field,
  type Value,
} from '../bson/values.js';

/** A constant, a field path, or a document of them. */
type Expression = (document: Value) => Node | undefined;

interface Accumulator {
  add(value: Value): void;
  result(): Node;
}

/** Distinct groups one stage may hold, and bytes of their keys and values. */
const maximumGroups = 500_000;
const maximumBytes = 100 * 1024 * 1024;

export function compileExpression(operand: Value): Expression {
  if (operand.type === BsonType.string && textOf(operand).startsWith('$'))
    return pathExpression(textOf(operand));
  if (operand.type === BsonType.array) throw notSupported('an array in an expression');
  if (operand.type !== BsonType.object) return () => operand;
  const members = fieldsOf(operand).map((member): [string, Expression] => {
    if (member.name === '$literal') return ['$literal', () => member];
    if (member.name.startsWith('$') || member.name.includes('.'))
      throw notSupported(`${member.name} in an expression`);
    return [member.name, compileExpression(member)];
  });
  const literal = members.find(([name]) => name === '$literal');
  if (literal) return literal[1];
  return (document) => {
    const made = new DocumentNode();
    for (const [name, expression] of members) {
      const node = expression(document);
      if (node) made.entries.push([name, node]);
    }
    return made;
  };
}

function pathExpression(text: string): Expression {
  if (text.startsWith('$$')) {
    if (text === '$$ROOT') return (document) => document;
    throw notSupported(`variable ${text}`);
  }
  const parts = text.slice(1).split('.');
  if (parts.some((part) => part === '' || part.startsWith('$')))
    throw new StoreError(2, `invalid field path '${text}'`);
  return (document) => valueAlong(document, parts);
}

/** In expressions a path through an array gives the array of what its documents have there. */
function valueAlong(value: Value, parts: readonly string[]): Node | undefined {
  const [first, ...rest] = parts;
  if (first === undefined) return value;
  if (value.type === BsonType.array)
    return new ArrayNode(
      fieldsOf(value).flatMap((element) =>
        element.type === BsonType.object || element.type === BsonType.array
          ? (valueAlong(element, parts) ?? [])
          : [],
      ),
    );
  const next = value.type === BsonType.object ? field(value, first) : undefined;
  return next && valueAlong(next, rest);
}

function sum(): Accumulator {
  let integer = 0n;
  let double = 0;
  let type: number = BsonType.int32;
  return {
    add(value) {
      if (!isNumber(value)) return;
      if (value.type === BsonType.decimal) throw notSupported('$sum of Decimal128');
      if (value.type === BsonType.double) {
        type = BsonType.double;
        double += toDouble(value);
      } else {
        if (value.type === BsonType.int64 && type === BsonType.int32) type = BsonType.int64;
        integer += toInteger(value) ?? 0n;
      }
    },
    result() {
      if (type === BsonType.double) return doubleValue(double + Number(integer));
      if (BigInt.asIntN(64, integer) !== integer) return doubleValue(Number(integer));
      const small = type === BsonType.int32 && BigInt.asIntN(32, integer) === integer;
      return toValue(small ? Number(integer) : integer);
    },
  };
}

function doubleValue(number: number): Value {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeDoubleLE(number);
  return { type: BsonType.double, bytes, at: 0 };
}

function average(): Accumulator {
  let total = 0;
  let count = 0;
  return {
    add(value) {
      if (!isNumber(value)) return;
      if (value.type === BsonType.decimal) throw notSupported('$avg of Decimal128');
      total += toDouble(value);
      count++;
    },
    result: () => (count === 0 ? toValue(null) : doubleValue(total / count)),
  };
}

function extreme(direction: 1 | -1): Accumulator {
  let kept: Value | undefined;
  return {
    add(value) {
      if (value.type === BsonType.missing || value.type === BsonType.null) return;
      if (!kept || compareValues(value, kept) * direction > 0) kept = value;
    },
    result: () => kept ?? toValue(null),
  };
}

function positioned(last: boolean): Accumulator {
  let kept: Value | undefined;
  return {
    add(value) {
      if (last || !kept) kept = value;
    },
    result: () => (kept && kept.type !== BsonType.missing ? kept : toValue(null)),
  };
}

function pushed(): Accumulator {
  const items: Value[] = [];
  return {
    add(value) {
      if (value.type !== BsonType.missing) items.push(value);
    },
    result: () => new ArrayNode(items),
  };
}

/** Accumulators of `$group`. */
export const accumulators: Readonly<Record<string, () => Accumulator>> = {
  $sum: sum,
  $avg: average,
  $min: () => extreme(-1),
  $max: () => extreme(1),
  $first: () => positioned(false),
  $last: () => positioned(true),
  $push: pushed,
};

interface Output {
  readonly name: string;
  readonly make: () => Accumulator;
  readonly expression: Expression;
}

function compileOutput(entry: Field): Output {
  const [operator, ...more] = entry.type === BsonType.object ? fieldsOf(entry) : [];
  if (!operator || more.length > 0)
    throw new StoreError(2, `The field '${entry.name}' must be an accumulator object`);
  const make = Object.hasOwn(accumulators, operator.name) ? accumulators[operator.name] : undefined;
  if (!make) throw notSupported(`accumulator ${operator.name}`);
  return { name: entry.name, make, expression: compileExpression(operator) };
}

/** Groups by the value of `_id`; groups come in the order their first document came. */
export function* group(
  documents: Generator<Buffer | undefined>,
  stage: Value,
): Generator<Buffer | undefined, void, void> {
  const id = field(stage, '_id');
  if (stage.type !== BsonType.object || !id)
    throw new StoreError(2, 'a group specification must include an _id');
  const keyOfDocument = compileExpression(id);
  const outputs = fieldsOf(stage)
    .filter(({ name }) => name !== '_id')
    .map(compileOutput);
  const groups = new Map<string, { id: Value; accumulators: Accumulator[] }>();
  let bytes = 0;
  for (const document of documents) {
    if (!document) {
      yield undefined;
      continue;
    }
    const value = documentValue(document);
    const key = nodeValue(keyOfDocument(value) ?? toValue(null));
    const text = keyText(key);
    let known = groups.get(text);
    if (!known) groups.set(text, (known = { id: key, accumulators: outputs.map(({ make }) => make()) }));
    outputs.forEach(({ expression, make }, i) => {
      const input = nodeValue(expression(value) ?? missing);
      if (make === pushed) bytes += document.length;
      known.accumulators[i]?.add(input);
    });
    if (groups.size > maximumGroups || bytes > maximumBytes)
      throw new StoreError(146, `$group holds at most ${maximumGroups} groups and ${maximumBytes} bytes`);
  }
  for (const { id: key, accumulators: results } of groups.values()) {
    const made = new DocumentNode([['_id', key]]);
    outputs.forEach(({ name }, i) => made.entries.push([name, (results[i] as Accumulator).result()]));
    yield encodeNode(made);
  }
}
