import { StoreError } from '../errors.js';
import { DocumentNode, nodeValue } from '../bson/encode.js';
import { addDecimals, decimalValue, divideDecimals, toDecimal } from '../bson/decimals.js';
import { doubleValue, toDouble, toInteger } from '../bson/numbers.js';
import { compareValues, keyText } from '../bson/order.js';
import { BsonType, fieldsOf, isNumber, missing, valueBytes, type Field, type Value } from '../bson/values.js';
import { sortFields, sortKey } from './sort-keys.js';
import { arrayOf, namedOf, nullValue, type Compile, type Expression, type Operator } from './expressions.js';
import { wholeResult } from './operators-numbers.js';

/** Collects one value per document. */
export interface Accumulator {
  add(value: Value): void;
  result(): Value;
}

/** An accumulator with its operand compiled; `keeps` says that it holds every value it is given. */
export interface Accumulation {
  readonly make: () => Accumulator;
  readonly input: Expression;
  readonly keeps: boolean;
}

/** Doubles are summed with the rounding error carried along, so that the order matters little. */
class Sum {
  private whole = 0n;
  private double = 0;
  private carried = 0;
  private decimal: ReturnType<typeof toDecimal> | undefined;
  private widest: number = BsonType.int32;
  count = 0;

  add(value: Value): void {
    if (!isNumber(value)) return;
    this.count++;
    const { type } = value;
    if (type === BsonType.decimal)
      this.decimal = addDecimals(this.decimal ?? { coefficient: 0n, exponent: 0 }, toDecimal(value));
    else if (type === BsonType.double) this.addDouble(toDouble(value));
    else this.whole += toInteger(value) ?? 0n;
    if (rankOfType(type) > rankOfType(this.widest)) this.widest = type;
  }

  private addDouble(value: number): void {
    const sum = this.double + value;
    const bigger = Math.abs(this.double) >= Math.abs(value);
    this.carried += bigger ? this.double - sum + value : value - sum + this.double;
    this.double = sum;
  }

  private get asDouble(): number {
    const real = Number.isFinite(this.double) ? this.double + this.carried : this.double;
    return real + Number(this.whole);
  }

  private get asDecimal(): ReturnType<typeof toDecimal> {
    const rest = addDecimals(
      { coefficient: this.whole, exponent: 0 },
      toDecimal(doubleValue(this.double + this.carried)),
    );
    return addDecimals(this.decimal ?? { coefficient: 0n, exponent: 0 }, rest);
  }

  total(): Value {
    if (this.widest === BsonType.decimal) return decimalValue(this.asDecimal);
    if (this.widest === BsonType.double) return doubleValue(this.asDouble);
    return wholeResult(this.whole, this.widest === BsonType.int32);
  }

  mean(): Value {
    if (this.count === 0) return nullValue;
    if (this.widest === BsonType.decimal)
      return decimalValue(divideDecimals(this.asDecimal, { coefficient: BigInt(this.count), exponent: 0 }));
    return doubleValue(this.asDouble / this.count);
  }
}

const ranks: readonly number[] = [BsonType.int32, BsonType.int64, BsonType.double, BsonType.decimal];
const rankOfType = (type: number): number => ranks.indexOf(type);

function summing(result: (sum: Sum) => Value): Accumulator {
  const sum = new Sum();
  return { add: (value) => sum.add(value), result: () => result(sum) };
}

function deviation(sample: boolean): Accumulator {
  let [count, mean, squares] = [0, 0, 0];
  return {
    add(value) {
      if (!isNumber(value)) return;
      const x = toDouble(value);
      const delta = x - mean;
      mean += delta / ++count;
      squares += delta * (x - mean);
    },
    result() {
      const divisor = sample ? count - 1 : count;
      return divisor <= 0 ? nullValue : doubleValue(Math.sqrt(squares / divisor));
    },
  };
}

function extreme(direction: 1 | -1): Accumulator {
  let kept: Value | undefined;
  return {
    add(value) {
      if (value.type === BsonType.missing || value.type === BsonType.null) return;
      if (!kept || compareValues(value, kept) * direction > 0) kept = value;
    },
    result: () => kept ?? nullValue,
  };
}

function positioned(last: boolean): Accumulator {
  let kept: Value | undefined;
  return {
    add(value) {
      if (last || !kept) kept = value;
    },
    result: () => (kept && kept.type !== BsonType.missing ? kept : nullValue),
  };
}

function collected(result: (items: Value[]) => Value, wanted: (value: Value) => boolean): Accumulator {
  const items: Value[] = [];
  return {
    add(value) {
      if (wanted(value)) items.push(value);
    },
    result: () => result(items),
  };
}

const present = ({ type }: Value): boolean => type !== BsonType.missing;
const notNull = ({ type }: Value): boolean => type !== BsonType.missing && type !== BsonType.null;

function set(): Accumulator {
  const items = new Map<string, Value>();
  return {
    add(value) {
      if (present(value) && !items.has(keyText(value))) items.set(keyText(value), value);
    },
    result: () => arrayOf([...items.values()]),
  };
}

function merged(): Accumulator {
  const document = new DocumentNode();
  return {
    add(value) {
      if (!notNull(value)) return;
      if (value.type !== BsonType.object) throw new StoreError(40400, '$mergeObjects requires object inputs');
      for (const entry of fieldsOf(value)) document.set(entry.name, entry);
    },
    result: () => nodeValue(document),
  };
}

type Definition = (operand: Field, compile: Compile) => Accumulation;

const simple =
  (make: () => Accumulator, keeps = false): Definition =>
  (operand, compile) => ({ make, input: compile(operand), keeps });

const emptyRoot: Value = { type: BsonType.object, bytes: Buffer.from([5, 0, 0, 0, 0]), at: 0 };

function countArgument(operand: Field, given: Map<string, Field>, compile: Compile): number {
  const value = compile(given.get('n') as Value)({ root: emptyRoot });
  const n = isNumber(value) ? toInteger(value) : undefined;
  if (n === undefined || n < 1n)
    throw new StoreError(5787908, `'n' must be greater than 0 for ${operand.name}`);
  return Number(n);
}

/** `{input, n}`: the first, last, smallest or largest n values. */
const several =
  (pick: (items: Value[], n: number) => Value[], wanted: (value: Value) => boolean): Definition =>
  (operand, compile) => {
    const given = namedOf(operand, ['input', 'n']);
    const n = countArgument(operand, given, compile);
    const make = (): Accumulator => collected((items) => arrayOf(pick(items, n)), wanted);
    return { make, input: compile(given.get('input') as Value), keeps: true };
  };

/** `{sortBy, output}`: values in the order of their documents, with `n` several of them. */
const ranked =
  (last: boolean, many: boolean): Definition =>
  (operand, compile) => {
    const given = namedOf(operand, many ? ['sortBy', 'output', 'n'] : ['sortBy', 'output']);
    const n = many ? countArgument(operand, given, compile) : 1;
    const fields = sortFields(given.get('sortBy'));
    const output = compile(given.get('output') as Value);
    let key: Buffer = Buffer.alloc(0);
    const input: Expression = (scope) => {
      key = sortKey(fields, valueBytes(scope.root));
      return output(scope);
    };
    const make = (): Accumulator => {
      const items: { key: Buffer; value: Value }[] = [];
      return {
        add: (value) => void items.push({ key, value: present(value) ? value : nullValue }),
        result() {
          items.sort((a, b) => a.key.compare(b.key));
          const kept = (last ? items.slice(-n) : items.slice(0, n)).map(({ value }) => value);
          return many ? arrayOf(kept) : (kept[0] ?? nullValue);
        },
      };
    };
    return { make, input, keeps: true };
  };

const one: Field = { ...wholeResult(1n, true), name: '$sum' };

const counted: Definition = (operand, compile) => {
  if (operand.type !== BsonType.object || fieldsOf(operand).length > 0)
    throw new StoreError(9, '$count takes no arguments, i.e. $count:{}');
  return simple(() => summing((sum) => sum.total()))(one, compile);
};

const sorted = (items: Value[]): Value[] => [...items].sort(compareValues);

/** Accumulators of `$group`. */
export const accumulators: Readonly<Record<string, Definition>> = {
  $sum: simple(() => summing((sum) => sum.total())),
  $avg: simple(() => summing((sum) => sum.mean())),
  $min: simple(() => extreme(-1)),
  $max: simple(() => extreme(1)),
  $first: simple(() => positioned(false)),
  $last: simple(() => positioned(true)),
  $push: simple(() => collected(arrayOf, present), true),
  $addToSet: simple(set, true),
  $mergeObjects: simple(merged, true),
  $stdDevPop: simple(() => deviation(false)),
  $stdDevSamp: simple(() => deviation(true)),
  $count: counted,
  $firstN: several(
    (items, n) => items.slice(0, n),
    () => true,
  ),
  $lastN: several(
    (items, n) => items.slice(-n),
    () => true,
  ),
  $minN: several((items, n) => sorted(items).slice(0, n), notNull),
  $maxN: several((items, n) => sorted(items).reverse().slice(0, n), notNull),
  $top: ranked(false, false),
  $topN: ranked(false, true),
  $bottom: ranked(true, false),
  $bottomN: ranked(true, true),
};

/** Some accumulators are expressions too: over their arguments, or over the array that is the only one. */
const overArguments =
  (make: () => Accumulator): Operator =>
  (operand, compile) => {
    const args = (operand.type === BsonType.array ? fieldsOf(operand) : [operand]).map((argument) =>
      compile(argument),
    );
    return (scope) => {
      const values = args.map((argument) => argument(scope));
      const [only = missing] = values;
      const all = values.length === 1 && only.type === BsonType.array ? fieldsOf(only) : values;
      const accumulator = make();
      all.forEach((value) => accumulator.add(value));
      return accumulator.result();
    };
  };

export const accumulatingOperators: Readonly<Record<string, Operator>> = {
  $sum: overArguments(() => summing((sum) => sum.total())),
  $avg: overArguments(() => summing((sum) => sum.mean())),
  $min: overArguments(() => extreme(-1)),
  $max: overArguments(() => extreme(1)),
  $stdDevPop: overArguments(() => deviation(false)),
  $stdDevSamp: overArguments(() => deviation(true)),
};
