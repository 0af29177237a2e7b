import type { Json } from '#libs/canonical';
import type { DataKind, FieldPath } from '#libs/decider';
import { type PersonKeys, type Sealed, isSealed, splitKeyName } from './person-keys.js';

/** A personal field as `personalFields(schema)` gives it. */
export interface PersonalField {
  readonly path: FieldPath;
  readonly kind: DataKind;
}

type JsonObject = { [key: string]: Json };

/**
 * A copy of an object with each of its personal fields sealed where it stands; absent fields stay absent. The
 * place of a field is `<place>/<path>`, with the index of an element for `*`. The object itself is unchanged, and
 * parts without personal fields are shared with the copy.
 */
export function sealFields(
  value: JsonObject,
  fields: readonly PersonalField[],
  keys: PersonKeys,
  place: string,
): JsonObject {
  return fields.reduce(
    (copy, { path, kind }) =>
      replaceAt(copy, path, 0, place, (field, at) => ({ ...keys.seal(kind, field, at) })) as JsonObject,
    value,
  );
}

/**
 * The reverse: a copy with each sealed field opened. A field that is not sealed stays as it is.
 *
 * @throws Unopenable naming the field.
 */
export function openFields(
  value: JsonObject,
  fields: readonly PersonalField[],
  keys: PersonKeys,
  place: string,
): JsonObject {
  return fields.reduce(
    (copy, { path }) =>
      replaceAt(copy, path, 0, place, (field, at) =>
        isSealed(field) ? keys.open(field, at) : field,
      ) as JsonObject,
    value,
  );
}

/** The customer for whom the personal fields of an object are sealed; `undefined` if none is. */
export function sealedFor(value: JsonObject, fields: readonly PersonalField[]): string | undefined {
  let found: string | undefined;
  for (const { path } of fields)
    replaceAt(value, path, 0, '', (field) => {
      if (isSealed(field)) found ??= splitKeyName(field.key)[1];
      return field;
    });
  return found;
}

/** Whether an object has something personal that would have to be sealed. */
export function holdsPersonal(value: JsonObject, fields: readonly PersonalField[]): boolean {
  let found = false;
  for (const { path } of fields)
    replaceAt(value, path, 0, '', (field) => {
      found = true;
      return field;
    });
  return found;
}

/** A copy of a value with every sealed value in it replaced by what `open` makes of it at its place. */
export function openEach(value: Json, place: string, open: (sealed: Sealed, place: string) => Json): Json {
  if (typeof value !== 'object' || value === null) return value;
  if (isSealed(value)) return open(value, place);
  if (Array.isArray(value)) return value.map((each, index) => openEach(each, `${place}/${index}`, open));
  const copy: JsonObject = {};
  for (const [name, each] of Object.entries(value)) copy[name] = openEach(each, `${place}/${name}`, open);
  return copy;
}

type Replace = (field: Json, place: string) => Json;

function replaceAt(node: Json, path: FieldPath, depth: number, place: string, replace: Replace): Json {
  const step = path[depth];
  if (step === undefined) return replace(node, place);
  if (typeof node !== 'object' || node === null) return node;
  if (step === '*') {
    if (!Array.isArray(node)) return node;
    return node.map((element, index) => replaceAt(element, path, depth + 1, `${place}/${index}`, replace));
  }
  if (Array.isArray(node) || !Object.hasOwn(node, step)) return node;
  const child = node[step];
  if (child === undefined) return node;
  return { ...node, [step]: replaceAt(child, path, depth + 1, `${place}/${step}`, replace) };
}
