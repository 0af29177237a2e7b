import type { Decider, DomainEvent, Refusal } from './decider.js';

/**
 * `given(events).when(command).then(events | refusal)`: the exact events, or the exact code of the refusal.
 * Throws on a difference, so that any test runner reports it. `state()` gives the fold after the new events.
 */
export function specification<State, Command, Event extends DomainEvent, Code extends string>(
  decider: Decider<State, Command, Event, Code>,
  assertEqual: (actual: unknown, expected: unknown) => void,
) {
  const fold = (events: readonly Event[]) =>
    events.reduce((state, event) => decider.evolve(state, event), decider.initialState());
  return {
    given: (...history: Event[]) => ({
      state: () => fold(history),
      when: (command: Command) => {
        const outcome = decider.decide(command, fold(history));
        return {
          outcome,
          then: (...expected: Event[]) => assertEqual(outcome, expected),
          thenRefused: (code: Code, extra: Readonly<Record<string, unknown>> = {}) => {
            const { refused, extra: actual } = outcome as Refusal<Code>;
            assertEqual({ refused, extra: actual }, { refused: code, extra });
          },
          state: () => fold([...history, ...(Array.isArray(outcome) ? outcome : [])]),
        };
      },
    }),
  };
}
