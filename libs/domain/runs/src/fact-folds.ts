import type { RunEvent } from './events.js';
import type { RunState } from './state.js';

type DataOf<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>['data'];

export const factFolds = {
  FactsRecorded(state: RunState, { facts, observedAt }: DataOf<'FactsRecorded'>): void {
    for (const fact of facts) {
      const version = (state.facts.get(fact.name)?.version ?? 0) + 1;
      state.facts.set(fact.name, { ...fact, observedAt, version });
    }
  },
  /** What was found is what the run knows from here on: a value that is said to have changed is the new one. */
  FactsRechecked(state: RunState, data: DataOf<'FactsRechecked'>): void {
    const { unchanged, changed, recheckedAt } = data;
    state.recheck = data;
    for (const name of unchanged) {
      const fact = state.facts.get(name);
      if (fact && fact.source.kind !== 'statement')
        state.facts.set(name, { ...fact, observedAt: recheckedAt });
    }
    for (const { name, now } of changed) {
      const fact = state.facts.get(name);
      if (!fact) continue;
      const known =
        now === undefined ? {} : { value: now, observedAt: recheckedAt, version: fact.version + 1 };
      state.facts.set(name, { ...fact, ...known, changedAt: recheckedAt });
    }
  },
};

/** Whoever asks for an approval on a fact has seen that it changed. */
export function acknowledge(state: RunState, basedOn: readonly string[]): void {
  for (const name of basedOn) {
    const fact = state.facts.get(name);
    if (fact?.changedAt === undefined) continue;
    const { changedAt: _, ...seen } = fact;
    state.facts.set(name, seen);
  }
}
