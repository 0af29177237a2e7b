import { StoreError, notSupported } from '../errors.js';
import { ArrayNode, DocumentNode, encodeNode, Raw, toValue } from '../bson/encode.js';
import { BsonType, documentValue, field, fieldsOf, type Field, type Value } from '../bson/values.js';
import type { Documents } from '../storage/cursors.js';
import { placeOf } from '../update/places.js';
import {
  isNullish,
  nullValue,
  valueAlong,
  withVariable,
  type Expression,
  type Scope,
} from './expressions.js';
import { find } from './find.js';
import { compileExpression } from './language.js';
import { requireDocument, textMember, type MakeStage, type Pipeline, type Sources } from './pipelines.js';
import { asDocuments, given as documentsGiven, held } from './streams.js';
import { scopeOf, type Variables } from './variables.js';

const facet: MakeStage = (operand, sources, variables) => {
  const pipelines = fieldsOf(requireDocument(operand, 40169)).map((entry): [string, Pipeline] => {
    if (entry.type !== BsonType.array)
      throw new StoreError(40170, `arguments to $facet must be arrays, ${entry.name} is not`);
    return [entry.name, compiled(fieldsOf(entry), sources, variables)];
  });
  if (pipelines.length === 0)
    throw new StoreError(40169, 'the $facet specification must be a non-empty object');
  return function* (input): Documents {
    const documents = yield* held(input, '$facet');
    const made = new DocumentNode();
    for (const [name, pipeline] of pipelines) {
      const results = yield* held(pipeline.on(documentsGiven(documents)), '$facet');
      made.entries.push([name, new ArrayNode(results.map(documentValue))]);
    }
    yield encodeNode(made);
  };
};

function compiled(pipeline: readonly Value[], sources: Sources, variables: Variables): Pipeline {
  if (!sources.compile) throw new StoreError(1, 'pipelines inside a stage need their compiler');
  return sources.compile(pipeline, sources, variables);
}

const lookup: MakeStage = (operand, sources, variables) => {
  const given = new Map(
    fieldsOf(requireDocument(operand, 9)).map((entry): [string, Field] => [entry.name, entry]),
  );
  for (const name of given.keys())
    if (!['from', 'localField', 'foreignField', 'as', 'let', 'pipeline'].includes(name))
      throw new StoreError(9, `unknown argument to $lookup: ${name}`);
  const [from, as] = [
    textMember(given.get('from'), '$lookup from'),
    textMember(given.get('as'), '$lookup as'),
  ];
  const [local, foreign, inner] = ['localField', 'foreignField', 'pipeline'].map((name) => given.get(name));
  if ((local === undefined) !== (foreign === undefined) || (!local && !inner))
    throw new StoreError(9, '$lookup requires both or neither of localField and foreignField, or a pipeline');
  const bind = bindings(given.get('let'), variables);
  const own: Variables = { names: [...variables.names, ...bind.names] };
  const pipeline = compiled(inner ? fieldsOf(inner) : [], sources, own);
  const key = local && textMember(local, 'localField').split('.');
  const foreignName = foreign && textMember(foreign, 'foreignField');
  return function* (input): Documents {
    for (const document of input) {
      if (!document) {
        yield undefined;
        continue;
      }
      const root = documentValue(document);
      setScope(own, bind.scope(scopeOf(root, variables)));
      const results = yield* held(
        joined(
          sources,
          from,
          pipeline,
          key && foreignName !== undefined ? keyFilter(root, key, foreignName) : undefined,
        ),
        '$lookup',
      );
      const changed = DocumentNode.of(root);
      placeOf(changed, as, true)?.set(new ArrayNode(results.map(documentValue)));
      yield encodeNode(changed);
    }
  };
};

function setScope(variables: Variables, scope: Scope): void {
  variables.scope = scope;
}

function joined(
  { view, collection }: Sources,
  from: string,
  pipeline: Pipeline,
  filter: Value | undefined,
): Documents {
  const other = collection(from);
  if (!filter || !other) return pipeline.over(other);
  return pipeline.on(asDocuments(find(view, other, filter)));
}

/** Elements of a local array match one by one; a missing field matches null and missing. */
function keyFilter(document: Value, path: readonly string[], foreign: string): Value {
  const value = valueAlong(document, path);
  const values = value.type === BsonType.array ? fieldsOf(value) : [isNullish(value) ? nullValue : value];
  if (values.some(({ type }) => type === BsonType.regex))
    throw notSupported('a regular expression as localField of $lookup');
  return toValue({ [foreign]: { $in: values.map((each) => new Raw(each)) } });
}

/** Variables from outside: `let` of a command or of a `$lookup`. */
export function bindings(vars: Value | undefined, variables: Variables) {
  const bound = (vars ? fieldsOf(vars) : []).map((entry): [string, Expression] => [
    entry.name,
    compileExpression(entry, variables.names),
  ]);
  return {
    names: bound.map(([name]) => name),
    /** The outer document is not reachable from inside, only what was bound. */
    scope: (outer: Scope): Scope =>
      bound.reduce((scope, [name, value]) => withVariable(scope, name, value(outer)), outer),
  };
}

const unionWith: MakeStage = (operand, sources) => {
  const wide = operand.type === BsonType.object;
  const name = textMember(wide ? field(operand, 'coll') : operand, '$unionWith coll');
  const inner = wide ? field(operand, 'pipeline') : undefined;
  const pipeline = compiled(inner ? fieldsOf(inner) : [], sources, { names: [] });
  return function* (input): Documents {
    yield* input;
    yield* pipeline.over(sources.collection(name));
  };
};

/** Stages with pipelines of their own. */
export const joiningStages: Readonly<Record<string, MakeStage>> = {
  $facet: facet,
  $lookup: lookup,
  $unionWith: unionWith,
};
