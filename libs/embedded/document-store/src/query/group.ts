import { StoreError, notSupported } from '../errors.js';
import { DocumentNode, encodeNode } from '../bson/encode.js';
import { keyText } from '../bson/order.js';
import { BsonType, documentValue, field, fieldsOf, type Field, type Value } from '../bson/values.js';
import type { Documents } from '../storage/cursors.js';
import { isDue } from '../work.js';
import { accumulators, type Accumulation, type Accumulator } from './accumulators.js';
import { nullValue } from './expressions.js';
import { compileExpression } from './language.js';
import { scopeOf, type Variables } from './variables.js';

/** Distinct groups one stage may hold, and bytes of what its accumulators keep. */
const maximumGroups = 500_000;
const maximumBytes = 100 * 1024 * 1024;

interface Output extends Accumulation {
  readonly name: string;
}

function compileOutput(entry: Field, variables: Variables): Output {
  const [operator, ...more] = entry.type === BsonType.object ? fieldsOf(entry) : [];
  if (!operator || more.length > 0)
    throw new StoreError(40234, `The field '${entry.name}' must be an accumulator object`);
  if (entry.name.includes('.'))
    throw new StoreError(40235, `The field name '${entry.name}' cannot contain '.'`);
  const define = Object.hasOwn(accumulators, operator.name) ? accumulators[operator.name] : undefined;
  if (operator.name === '$accumulator') throw notSupported('server-side JavaScript ($accumulator)');
  if (!define && ['$median', '$percentile'].includes(operator.name))
    throw notSupported(`accumulator ${operator.name}`);
  if (!define) throw new StoreError(15952, `unknown group operator '${operator.name}'`);
  const compile = (operand: Value, names: readonly string[] = []) =>
    compileExpression(operand, [...variables.names, ...names]);
  return { name: entry.name, ...define(operator, compile) };
}

/** Groups by the value of `_id`; groups come in the order their first document came. */
export function compileGroup(stage: Field, variables: Variables): (input: Documents) => Documents {
  if (stage.type !== BsonType.object)
    throw new StoreError(15947, "a group's fields must be specified in an object");
  const id = field(stage, '_id');
  if (!id) throw new StoreError(15955, 'a group specification must include an _id');
  const keyOfDocument = compileExpression(id, variables.names);
  const outputs = fieldsOf(stage)
    .filter(({ name }) => name !== '_id')
    .map((entry) => compileOutput(entry, variables));
  return function* (documents): Documents {
    const groups = new Map<string, { id: Value; accumulators: Accumulator[] }>();
    let bytes = 0;
    for (const document of documents) {
      if (!document || isDue()) yield undefined;
      if (!document) continue;
      const scope = scopeOf(documentValue(document), variables);
      const key = keyOfDocument(scope);
      const text = keyText(key.type === BsonType.missing ? nullValue : key);
      let known = groups.get(text);
      if (!known)
        groups.set(
          text,
          (known = {
            id: key.type === BsonType.missing ? nullValue : key,
            accumulators: outputs.map(({ make }) => make()),
          }),
        );
      outputs.forEach(({ input, keeps }, i) => {
        if (keeps) bytes += document.length;
        known.accumulators[i]?.add(input(scope));
      });
      if (groups.size > maximumGroups || bytes > maximumBytes)
        throw new StoreError(146, `$group holds at most ${maximumGroups} groups and ${maximumBytes} bytes`);
    }
    for (const { id: key, accumulators: results } of groups.values()) {
      const made = new DocumentNode([['_id', key]]);
      outputs.forEach(({ name }, i) => made.entries.push([name, (results[i] as Accumulator).result()]));
      yield encodeNode(made);
      if (isDue()) yield undefined;
    }
  };
}
