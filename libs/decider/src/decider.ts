import type { z } from 'zod';

/** Something that happened. `type` is stored as it stands here; `data` is a JSON object. */
export interface DomainEvent<Type extends string = string, Data = unknown> {
  readonly type: Type;
  readonly data: Data;
}

/** The union of the events that a table of schemas (`events.ts`) describes: `{ type: key, data: its value }`. */
export type EventOf<Schemas extends Record<string, z.ZodType>> = {
  [Type in keyof Schemas & string]: DomainEvent<Type, z.infer<Schemas[Type]>>;
}[keyof Schemas & string];

/** The rule says no. `code` comes from a closed union; `detail` is for a person; `extra` is what the code needs. */
export interface Refusal<Code extends string = string> {
  readonly refused: Code;
  readonly detail: string;
  readonly extra: Readonly<Record<string, unknown>>;
}

export function refuse<Code extends string>(
  code: Code,
  detail: string,
  extra: Readonly<Record<string, unknown>> = {},
): Refusal<Code> {
  return { refused: code, detail, extra };
}

export function isRefusal(outcome: readonly unknown[] | Refusal): outcome is Refusal {
  return !Array.isArray(outcome);
}

/**
 * The rules of one kind of stream. Pure: no clock, no store, no randomness; time and ids travel in the command.
 *
 * `evolve` may change the state it is given and returns it, so that folding the ten-thousandth event costs what
 * the first did; whoever folds owns that state alone. `decide` never changes it, and returns the events that
 * follow (none: the command holds already), or a refusal.
 */
export interface Decider<State, Command, Event extends DomainEvent, Code extends string = string> {
  initialState(): State;
  evolve(state: State, event: Event): State;
  decide(command: Command, state: State): Event[] | Refusal<Code>;
}

/** Makes an event. Members that are undefined are left out, so that it equals what the store gives back. */
export function happened<Type extends string, Data extends object>(
  type: Type,
  data: Data,
): DomainEvent<Type, Data> {
  const entries = Object.entries(data).filter(([, value]) => value !== undefined);
  return { type, data: Object.fromEntries(entries) as Data };
}
