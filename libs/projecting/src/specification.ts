import type { DomainEvent } from '#libs/decider';
import { type Projection, type Recorded, type View, project } from './projection.js';

/** One stream's events in order, as the log would give them; `at` is the time each was recorded. */
interface Subject<Event extends DomainEvent> {
  readonly id: string;
  readonly events: readonly Event[];
  readonly at?: string;
}

/**
 * Events of several streams as one log: taken in turns, so that every subject's lie between the others', at
 * positions 100, 200, … . Streams are `<category>-<tenant>.<id>` of tenant `acme`.
 */
function recordedInTurns<Event extends DomainEvent>(
  category: string,
  subjects: readonly Subject<Event>[],
): Recorded<Event>[] {
  const longest = Math.max(...subjects.map(({ events }) => events.length));
  const turns = Array.from({ length: longest }, (_, turn) =>
    subjects.flatMap(({ id, events, at }) => {
      const event = events[turn];
      return event ? [{ id, event, turn, at: at ?? '2026-03-01T09:00:00.000Z' }] : [];
    }),
  ).flat();
  return turns.map(({ id, event, turn, at }, index) => ({
    ...event,
    stream: `${category}-acme.${id}`,
    tenant: 'acme',
    id,
    revision: BigInt(turn),
    position: BigInt(index + 1) * 100n,
    eventId: `${id}:${turn}`,
    metadata: { recordedAt: at, schemaVersion: 1 },
  }));
}

/** `given(subjects).then(id)` is the document that a projection keeps of a stream. */
export function projectionSpecification<Doc, Event extends DomainEvent>(projection: Projection<Doc>) {
  return {
    given: (...subjects: Subject<Event>[]) => {
      const views = new Map<string, View<Doc>>();
      for (const event of recordedInTurns(projection.category, subjects))
        views.set(event.id, project(projection, views.get(event.id), event));
      return {
        view: (id: string) => views.get(id),
        then: (id: string) => views.get(id)?.doc,
      };
    },
  };
}
