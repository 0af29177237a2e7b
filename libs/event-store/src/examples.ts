import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { digestOf } from '#libs/canonical';
import { type EventOf, type Refusal, personal, plain, refuse } from '#libs/decider';
import type { CommandCall } from './handle-command.js';
import type { StreamKind } from './stream-kind.js';

export const counterEvents = {
  CounterOpened: z.strictObject({ customerId: plain(z.uuid()), title: personal('run', z.string()) }),
  Added: z.strictObject({
    amount: z.int(),
    note: personal('run', z.string()).optional(),
    people: z.array(z.strictObject({ name: personal('claim', z.string()) })).optional(),
  }),
};
type CounterEvent = EventOf<typeof counterEvents>;

interface Counter {
  customerId: string;
  title: string;
  total: number;
  notes: Map<string, number>;
}

type CounterCommand =
  | { type: 'Open'; customerId: string; title: string }
  | { type: 'Add'; amounts: number[]; note?: string; people?: { name: string }[] };

/** The smallest stream with everything a real one has, for the specs of this room. */
export const counter: StreamKind<Counter, CounterCommand, CounterEvent> = {
  category: 'counter',
  dataKind: 'run',
  events: counterEvents,
  foldVersion: 1,
  customerOf: (state, [first]) =>
    first?.type === 'CounterOpened' ? first.data.customerId : state.customerId,
  save: (state) => ({ ...state, notes: [...state.notes] }),
  load: (json) => {
    const { notes, ...rest } = json as unknown as Omit<Counter, 'notes'> & { notes: [string, number][] };
    return { ...rest, notes: new Map(notes) };
  },
  decider: {
    initialState: () => ({ customerId: '', title: '', total: 0, notes: new Map() }),
    evolve(state, event) {
      if (event.type === 'CounterOpened') return Object.assign(state, event.data);
      state.total += event.data.amount;
      if (event.data.note !== undefined) state.notes.set(event.data.note, state.total);
      return state;
    },
    decide(command, state): CounterEvent[] | Refusal<'open' | 'negative'> {
      if (command.type === 'Open') {
        if (state.customerId) return refuse('open', 'it is open');
        return [{ type: 'CounterOpened', data: { customerId: command.customerId, title: command.title } }];
      }
      const sum = command.amounts.reduce((total, amount) => total + amount, state.total);
      if (sum < 0) return refuse('negative', 'it would fall below zero', { total: state.total });
      const { note, people } = command;
      return command.amounts.map((amount) => ({
        type: 'Added',
        data: { amount, ...(note !== undefined && { note }), ...(people && { people }) },
      }));
    },
  },
};

export const ana = '3f1a4c1e-0b55-4f0e-9a55-0a7d5a1f0001';
export const noon = '2026-03-01T12:00:00.000Z';

export type CounterCall = CommandCall<Counter, CounterCommand, number>;

/** What a call is otherwise than the usual one. */
export interface Otherwise extends Partial<Omit<CounterCall, 'context'>> {
  context?: Partial<CounterCall['context']>;
}

/** A command of Dana's at noon with an id of its own; its answer is the counter's total. */
export function call(
  id: string,
  command: CounterCommand,
  { context, ...changes }: Otherwise = {},
): CounterCall {
  return {
    tenant: 'acme',
    id,
    command,
    context: {
      actor: { sub: 'dana', roles: ['assistant'], actFor: [] },
      commandId: randomUUID(),
      bodyDigest: digestOf(command),
      at: noon,
      ...context,
    },
    answer: (state) => state.total,
    ...changes,
  };
}

export const open = (id: string, otherwise: Otherwise = {}) =>
  call(id, { type: 'Open', customerId: ana, title: 'MARKER title' }, { creates: true, ...otherwise });

export const add = (id: string, amount: number, otherwise: Otherwise = {}) =>
  call(id, { type: 'Add', amounts: [amount] }, otherwise);
