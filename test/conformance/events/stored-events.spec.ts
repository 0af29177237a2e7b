import { readdirSync, readFileSync } from 'node:fs';
import type { Json } from '#libs/canonical';
import type { Decider, DomainEvent } from '#libs/decider';
import { claimStream } from '#libs/domain/claims';
import { profileStream } from '#libs/domain/profiles';
import { runStream } from '#libs/domain/runs';
import { staffStream } from '#libs/domain/staff';
import { z } from 'zod';

/**
 * An example of every stored shape, as it was when it was first stored and before sealing: `<type>[.<case>].v<n>.json`
 * holds the data. They are added to and never changed: what was stored once is read for ever. `folded.json` holds
 * what histories of them fold to; another state under the same `foldVersion` would bring old snapshots back wrongly.
 */
const folder = 'test/conformance/events';

interface Stream {
  category: string;
  events: Record<string, z.ZodObject>;
  foldVersion: number;
  fold: (events: DomainEvent[]) => Json;
}

function streamOf<State, Event extends DomainEvent>(kind: {
  category: string;
  decider: Pick<Decider<State, never, Event>, 'initialState' | 'evolve'>;
  events: Record<string, z.ZodObject>;
  foldVersion: number;
  save: (state: State) => Json;
}): Stream {
  const { category, decider, events, foldVersion, save } = kind;
  const fold = (history: DomainEvent[]) =>
    save(history.reduce((state, event) => decider.evolve(state, event as Event), decider.initialState()));
  return { category, events, foldVersion, fold };
}

const streams = [streamOf(runStream), streamOf(claimStream), streamOf(staffStream), streamOf(profileStream)];

interface Folded {
  foldVersion: number;
  histories: Record<string, { events: string[]; state: Json }>;
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(`${folder}/${path}.json`, 'utf8'));
}

function typeOf(example: string): string {
  return example.split('.')[0] ?? '';
}

/** The fields and the cases of unions below a schema, however deep, that no example holds. */
function untold(schema: z.core.$ZodType, values: Json[], path: string): string[] {
  if (values.length === 0) return [path];
  if (schema instanceof z.ZodOptional) return untold(schema.unwrap(), values, path);
  if (schema instanceof z.ZodObject)
    return Object.entries(schema.shape).flatMap(([name, field]) => {
      const held = values.map((value) => (value as Record<string, Json>)[name]);
      const present = held.filter((value): value is Json => value !== undefined);
      return untold(field as z.core.$ZodType, present, `${path}.${name}`);
    });
  if (schema instanceof z.ZodArray)
    return untold(
      schema.element,
      values.flatMap((value) => value as Json[]),
      `${path}[]`,
    );
  if (schema instanceof z.ZodUnion)
    return schema.options.flatMap((option, at) => {
      const fitting = values.filter((value) => z.safeParse(option, value).success);
      return untold(option, fitting, `${path} case ${at + 1}`);
    });
  return [];
}

describe.each(streams)('stored $category events', ({ category, events, foldVersion, fold }) => {
  const examples = readdirSync(`${folder}/${category}`)
    .filter((name) => name !== 'folded.json')
    .map((name) => name.replace(/\.json$/, ''));
  const dataOf = (example: string) => readJson(`${category}/${example}`) as Record<string, Json>;
  const { histories, ...folded } = readJson(`${category}/folded`) as Folded;

  it('have an example of every type, and none of a type unknown', () => {
    expect(new Set(examples.map(typeOf))).toEqual(new Set(Object.keys(events)));
  });

  it.each(examples)('%s is read unchanged', (example) => {
    const data = dataOf(example);
    expect(events[typeOf(example)]?.parse(data)).toStrictEqual(data);
  });

  it.each(Object.entries(events))('%s has an example of every field and of every case', (type, schema) => {
    const told = examples.filter((example) => typeOf(example) === type).map(dataOf);
    expect(untold(schema, told, type)).toEqual([]);
  });

  it('all stand in a recorded history', () => {
    const told = Object.values(histories).flatMap((history) => history.events.map(typeOf));
    expect(new Set(told)).toEqual(new Set(Object.keys(events)));
  });

  it.each(Object.entries(histories))('fold to the recorded state: %s', (_name, history) => {
    const state = fold(history.events.map((example) => ({ type: typeOf(example), data: dataOf(example) })));
    expect(state).toStrictEqual(history.state);
    expect(folded).toEqual({ foldVersion });
  });
});
