import { StoreError, notSupported } from '../errors.js';
import { ArrayNode, DocumentNode, nodeValue, toValue } from '../bson/encode.js';
import { truth } from '../bson/options.js';
import { BsonType, field, fieldsOf, missing, textOf, type Field, type Value } from '../bson/values.js';

/** What an expression is evaluated in: the document, and the variables around the place where it stands. */
export interface Scope {
  readonly root: Value;
  readonly name?: string;
  readonly value?: Value;
  readonly outer?: Scope;
}

/** Gives a value, `missing` where there is none. */
export type Expression = (scope: Scope) => Value;

/** Compiles an operand in which, beside the variables around it, those of `more` are known. */
export type Compile = (operand: Value, more?: readonly string[]) => Expression;

/** Makes an expression from the operand of an operator; wrong arguments are refused here, before any document. */
export type Operator = (operand: Field, compile: Compile) => Expression;

const operators = new Map<string, Operator>();

/** Adds operators to the language; their names make the table of what is promised. */
export function defineOperators(defined: Readonly<Record<string, Operator>>): void {
  for (const [name, operator] of Object.entries(defined)) operators.set(name, operator);
}

/** Names of the operators an expression may use. */
export const expressionOperators = (): string[] => ['$literal', ...operators.keys()];

const serverSide = ['$function', '$accumulator', '$where'];

/**
 * Compiles an aggregation expression (MongoDB's manual, "Aggregation Expressions"). Unknown operators are 168, unknown
 * variables 17276, and nothing is read before all of it is compiled.
 */
export function compileExpression(operand: Value, known: readonly string[] = []): Expression {
  const compile: Compile = (inner, more = []) => compileExpression(inner, [...known, ...more]);
  if (operand.type === BsonType.string) return textExpression(operand, known);
  if (operand.type === BsonType.array) {
    const items = fieldsOf(operand).map((item) => compile(item));
    return (scope) => arrayOf(items.map((item) => item(scope)));
  }
  if (operand.type !== BsonType.object) return () => operand;
  const members = fieldsOf(operand);
  const [first] = members;
  if (first?.name.startsWith('$')) {
    if (members.length > 1)
      throw new StoreError(15983, `an object representing an expression must have exactly one field`);
    return operatorExpression(first, compile);
  }
  return objectExpression(members, compile);
}

function operatorExpression(operand: Field, compile: Compile): Expression {
  const { name } = operand;
  if (name === '$literal' || name === '$const') return () => operand;
  if (serverSide.includes(name)) throw notSupported(`server-side JavaScript (${name})`);
  const operator = operators.get(name);
  if (operator) return operator(operand, compile);
  if (knownElsewhere.has(name)) throw notSupported(`the expression ${name}`);
  throw new StoreError(168, `Unrecognized expression '${name}'`);
}

/** Operators MongoDB has and this store does not. */
const knownElsewhere = new Set(
  `$meta $sampleRate $toHashedIndexKey $tsSecond $tsIncrement $binarySize $bsonSize $median $percentile
  $dateFromString $dateFromParts $dateToParts $regexFindAll $setField $unsetField $toUUID $sigmoid $createObjectId
  $encStrStartsWith $bitAnd $bitOr $bitXor $bitNot $zip`.split(/\s+/),
);

function objectExpression(members: readonly Field[], compile: Compile): Expression {
  const compiled = members.map((member): [string, Expression] => {
    if (member.name.startsWith('$') || member.name.includes('.') || member.name === '')
      throw new StoreError(
        16410,
        `FieldPath field names may not start with '$' or contain '.': '${member.name}'`,
      );
    return [member.name, compile(member)];
  });
  return (scope) => {
    const made = new DocumentNode();
    for (const [name, expression] of compiled) {
      const value = expression(scope);
      if (value.type !== BsonType.missing) made.entries.push([name, value]);
    }
    return nodeValue(made);
  };
}

function textExpression(operand: Value, known: readonly string[]): Expression {
  const text = textOf(operand);
  if (!text.startsWith('$')) return () => operand;
  const [head = '', ...parts] = text.split('.');
  if (parts.some((part) => part === '' || part.startsWith('$')) || head === '$')
    throw new StoreError(16872, `'${text}' is not a valid field path`);
  if (!head.startsWith('$$')) {
    const path = [head.slice(1), ...parts];
    return ({ root }) => valueAlong(root, path);
  }
  const variable = variableNamed(head.slice(2), known);
  return (scope) => valueAlong(variable(scope), parts);
}

function variableNamed(name: string, known: readonly string[]): Expression {
  if (known.includes(name)) return (scope) => lookUp(scope, name);
  switch (name) {
    case 'ROOT':
    case 'CURRENT':
      return ({ root }) => root;
    case 'REMOVE':
      return () => missing;
    case 'NOW': {
      const now = toValue(new Date());
      return () => now;
    }
    case 'CLUSTER_TIME':
    case 'USER_ROLES':
      throw notSupported(`the variable $$${name}`);
    default:
      throw new StoreError(17276, `Use of undefined variable: ${name}`);
  }
}

function lookUp(scope: Scope, name: string): Value {
  for (let at: Scope | undefined = scope; at; at = at.outer) if (at.name === name) return at.value ?? missing;
  return missing;
}

export const withVariable = (outer: Scope, name: string, value: Value): Scope => ({
  root: outer.root,
  name,
  value,
  outer,
});

/** In expressions a path through an array gives the array of what its documents have there. */
export function valueAlong(value: Value, parts: readonly string[], from = 0): Value {
  if (from === parts.length) return value;
  if (value.type === BsonType.object)
    return valueAlong(field(value, parts[from] as string) ?? missing, parts, from + 1);
  if (value.type !== BsonType.array) return missing;
  const found = fieldsOf(value)
    .map((element) =>
      element.type === BsonType.object || element.type === BsonType.array
        ? valueAlong(element, parts, from)
        : missing,
    )
    .filter(({ type }) => type !== BsonType.missing);
  return nodeValue(new ArrayNode(found));
}

export const nullValue = toValue(null);
const yes = toValue(true);
const no = toValue(false);

export const boolean = (value: boolean): Value => (value ? yes : no);

export const isNullish = ({ type }: Value): boolean =>
  type === BsonType.null || type === BsonType.missing || type === BsonType.undefined;

/** True for everything but false, null, zero and nothing. */
export const isTrue = (value: Value): boolean => value.type !== BsonType.missing && truth(value);

/** An array of values; what is missing becomes null. */
export const arrayOf = (values: readonly Value[]): Value =>
  nodeValue(new ArrayNode(values.map((value) => (value.type === BsonType.missing ? nullValue : value))));

/** The arguments of an operator that takes a list, or a single one without its list. */
export function listOf(operand: Field, least: number, most = least): Value[] {
  const list = operand.type === BsonType.array ? fieldsOf(operand) : [operand];
  if (list.length < least || list.length > most)
    throw new StoreError(
      16020,
      `Expression ${operand.name} takes ${least === most ? `exactly ${least}` : `at least ${least} arguments, and at most ${most}`} arguments. ${list.length} were passed in.`,
    );
  return list;
}

/** The arguments of an operator that takes a document of them. */
export function namedOf(operand: Field, required: readonly string[], optional: readonly string[] = []) {
  if (operand.type !== BsonType.object)
    throw new StoreError(9, `${operand.name} only supports an object as its argument`);
  const given = new Map(fieldsOf(operand).map((member): [string, Field] => [member.name, member]));
  for (const name of given.keys())
    if (!required.includes(name) && !optional.includes(name))
      throw new StoreError(9, `${operand.name} found an unknown argument: ${name}`);
  for (const name of required)
    if (!given.has(name)) throw new StoreError(9, `${operand.name} requires '${name}' to be specified`);
  return given;
}

/** An operator that evaluates all its arguments first. */
export const eager =
  (least: number, most: number, act: (args: readonly Value[], name: string) => Value): Operator =>
  (operand, compile) => {
    const args = listOf(operand, least, most).map((argument) => compile(argument));
    return (scope) =>
      act(
        args.map((argument) => argument(scope)),
        operand.name,
      );
  };

/** An operator whose arguments stand in a document. */
export const named =
  (
    required: readonly string[],
    optional: readonly string[],
    act: (given: Readonly<Record<string, Value>>, name: string) => Value,
  ): Operator =>
  (operand, compile) => {
    const parts = [...namedOf(operand, required, optional)].map(([name, part]): [string, Expression] => [
      name,
      compile(part),
    ]);
    return (scope) => act(Object.fromEntries(parts.map(([name, part]) => [name, part(scope)])), operand.name);
  };
