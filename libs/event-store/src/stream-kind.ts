import type { z } from 'zod';
import type { Json } from '#libs/canonical';
import { type DataKind, type Decider, type DomainEvent, personalFields } from '#libs/decider';
import type { PersonalField } from '#libs/vault';

/** One kind of stream: its rules, its stored shapes, whose data it holds, and how its fold is saved. */
export interface StreamKind<State, Command, Event extends DomainEvent> {
  /** The first part of its streams' names. */
  readonly category: string;
  readonly decider: Decider<State, Command, Event>;
  /** The schema of each event's data, by type. A stored type that stands not here makes its stream refuse commands. */
  readonly events: Readonly<Record<string, z.ZodType>>;
  /** The kind of data that its streams are; absent for streams about nobody. */
  readonly dataKind?: DataKind;
  /** The customer whose keys seal what is personal in new events; `state` is that before them. Not asked without `dataKind`. */
  customerOf(state: State, newEvents: readonly Event[]): string;
  /** Changes whenever `evolve`, `save` or `load` do: a snapshot of another version is not used. */
  readonly foldVersion: number;
  save(state: State): Json;
  load(json: Json): State;
}

/** What is known of an event type: made from its schema once. */
export interface EventType {
  readonly schema: z.ZodType;
  readonly personal: readonly PersonalField[];
  readonly kinds: readonly DataKind[];
}

type Schemas = StreamKind<never, never, never>['events'];

const kindsKnown = new WeakMap<Schemas, readonly DataKind[]>();

/**
 * Every kind of data that a stream can come to hold, its own first; none for a stream about nobody.
 *
 * @throws Error if such a stream has personal fields.
 */
export function kindsOfData({ category, dataKind, events }: KindOfData): readonly DataKind[] {
  const found = kindsKnown.get(events);
  if (found) return found;
  const inFields = Object.keys(events).flatMap((type) => eventType(events, type)?.kinds ?? []);
  if (dataKind === undefined && inFields.length > 0)
    throw new Error(`${category} has personal fields and no kind of data`);
  const kinds = [...new Set(dataKind === undefined ? [] : [dataKind, ...inFields])];
  kindsKnown.set(events, kinds);
  return kinds;
}

type KindOfData = Pick<StreamKind<never, never, never>, 'category' | 'dataKind' | 'events'>;

const known = new WeakMap<z.ZodType, EventType>();

/** The event type of that name in a table of schemas; `undefined` if there is none. */
export function eventType(events: Readonly<Record<string, z.ZodType>>, type: string): EventType | undefined {
  const schema = Object.hasOwn(events, type) ? events[type] : undefined;
  if (!schema) return undefined;
  const found = known.get(schema);
  if (found) return found;
  const personal = distinct(personalFields(schema));
  const made = { schema, personal, kinds: [...new Set(personal.map(({ kind }) => kind))] };
  known.set(schema, made);
  return made;
}

/** A path that several options of a union share is one field: sealed once. */
function distinct(fields: readonly PersonalField[]): PersonalField[] {
  return [...new Map(fields.map((field) => [field.path.join('/'), field])).values()];
}
