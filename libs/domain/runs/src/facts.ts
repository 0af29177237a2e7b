import { canonicalJson, type Json } from '#libs/canonical';
import { happened, refuse, type Refusal } from '#libs/decider';
import { isOpen, isOutdated } from './approvals.js';
import type { FactReading, Outcome, RecordFacts, RunRefusal } from './commands.js';
import type { RunEvent } from './events.js';
import type { Fact, Run, RunState } from './state.js';

const MOST_FACTS = 200;

type Recheck = Extract<RunEvent, { type: 'FactsRechecked' }>['data'];
type Changed = Recheck['changed'][number];

export function recordFacts({ facts, at }: RecordFacts, run: Run): Outcome {
  const names = new Set([...run.facts.keys(), ...facts.map(({ name }) => name)]);
  if (names.size > MOST_FACTS)
    return refuse('too-many-facts', `The run would have ${names.size} facts.`, { limit: MOST_FACTS });
  const changed = facts.flatMap((fact) => {
    const { name, value: now } = fact;
    const known = run.facts.get(name);
    return known && !isSame(known, fact) ? [{ name, was: known.value, now }] : [];
  });
  if (facts.every((fact) => isKnown(fact, run, at))) return [];
  return [happened('FactsRecorded', { facts, observedAt: at }), ...invalidated(run, changed, at)];
}

function isKnown(fact: RecordFacts['facts'][number], { facts }: Run, at: string): boolean {
  const known = facts.get(fact.name);
  if (known?.observedAt !== at || known.changedAt !== undefined) return false;
  return isSame(known, fact);
}

function isSame(known: Fact, fact: RecordFacts['facts'][number]): boolean {
  const { observedAt: _, version: __, changedAt: ___, ...recorded } = known;
  return canonicalJson(recorded) === canonicalJson(fact);
}

/** The facts that have to be looked up for what is about to happen, in the order in which they were recorded. */
export function factsDue(run: RunState, on: Recheck['on']): Fact[] {
  return due(run, on).filter(({ source }) => source.kind !== 'statement');
}

function due({ facts, approvals }: RunState, on: Recheck['on']): Fact[] {
  const rests = on.kind === 'resume' ? undefined : approvals.get(on.approvalId)?.basedOn;
  return [...facts.values()].filter((fact) => isWanted(fact, on) && rests?.includes(fact.name) !== false);
}

function isWanted({ recheck }: Fact, on: Recheck['on']): boolean {
  return recheck === 'both' || recheck === (on.kind === 'resume' ? 'on-resume' : 'on-execution');
}

/** What an approval rests on, is not looked up when it is executed, and is too old by then. */
function outdated({ facts, approvals }: RunState, on: Recheck['on'], at: string): Fact[] {
  if (on.kind === 'resume') return [];
  const rests = approvals.get(on.approvalId)?.basedOn ?? [];
  return [...facts.values()].filter(
    (fact) => rests.includes(fact.name) && !isWanted(fact, on) && isOutdated(fact, at),
  );
}

/**
 * What a recheck comes to: events that note it, and invalidate what rests on a fact that changed. Refused where a
 * fact was not looked up as it now stands, or one could not be looked up that is required or, at execution, rested on.
 */
export function recheck(
  run: Run,
  on: Recheck['on'],
  readings: readonly FactReading[],
  at: string,
): { events: RunEvent[]; changed: boolean } | Refusal<RunRefusal> {
  const facts = due(run, on);
  const old = outdated(run, on, at);
  if (facts.length + old.length === 0) return { events: [], changed: false };
  const found: Pick<Recheck, 'unchanged' | 'changed' | 'unavailable'> = {
    unchanged: [],
    changed: old.map(({ name, value: was }) => ({ name, was })),
    unavailable: [],
  };
  for (const fact of facts) {
    const now = look(fact, readings, at);
    if (now === 'moved') return refuseMoved();
    if (now === 'unavailable') found.unavailable.push(fact.name);
    else if (now === 'outdated') found.changed.push({ name: fact.name, was: fact.value });
    else if (equal(now.value, fact.value)) found.unchanged.push(fact.name);
    else found.changed.push({ name: fact.name, was: fact.value, now: now.value });
  }
  const missing = found.unavailable.filter(
    (name) => on.kind === 'execution' || run.facts.get(name)?.required,
  );
  const decided = on.kind === 'execution' && found.changed.length > 0;
  if (missing.length > 0 && !decided)
    return refuse(
      'facts-unavailable',
      on.kind === 'resume'
        ? 'Facts that are required cannot be looked up.'
        : 'Facts that the approval rests on cannot be looked up.',
      { facts: missing },
    );
  return {
    events: [
      happened('FactsRechecked', { on, ...found, recheckedAt: at }),
      ...invalidated(run, found.changed, at),
    ],
    changed: found.changed.length > 0,
  };
}

function look(
  fact: Fact,
  readings: readonly FactReading[],
  at: string,
): { value: Json } | 'moved' | 'unavailable' | 'outdated' {
  if (fact.source.kind === 'statement') return isOutdated(fact, at) ? 'outdated' : { value: fact.value };
  const reading = readings.find(({ name, version }) => name === fact.name && version === fact.version);
  if (!reading) return 'moved';
  return reading.found === undefined ? 'unavailable' : { value: inFormOf(fact.value, reading.found) };
}

function refuseMoved(): Refusal<RunRefusal> {
  return refuse('facts-moved', 'The facts of the run changed while they were looked up.');
}

/**
 * What a source says, in the form in which the fact was recorded: of an object the members it names, of another
 * value the first member of its kind (text, number, truth value, list).
 */
function inFormOf(value: Json, found: { [name: string]: Json }): Json {
  if (kindOf(value) === 'object') {
    const names = Object.keys(value as object);
    return Object.fromEntries(names.map((name) => [name, memberOf(found, name)]));
  }
  const fitting = Object.values(found).find((member) => kindOf(member) === kindOf(value));
  return fitting ?? (Object.keys(found).length === 1 ? (Object.values(found)[0] ?? null) : found);
}

function memberOf(found: { [name: string]: Json }, name: string): Json {
  return Object.hasOwn(found, name) ? (found[name] ?? null) : null;
}

function kindOf(value: Json): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

function invalidated(run: Run, changed: readonly Changed[], at: string): RunEvent[] {
  return [...run.approvals.values()]
    .filter((approval) => isOpen(approval, at))
    .flatMap(({ approvalId, basedOn }) => {
      const facts = changed.filter(({ name }) => basedOn.includes(name));
      if (facts.length === 0) return [];
      const cause = { kind: 'facts-changed' as const, facts };
      return [happened('ApprovalInvalidated', { approvalId, cause, invalidatedAt: at })];
    });
}

function equal(one: Json, other: Json): boolean {
  return canonicalJson(one) === canonicalJson(other);
}
