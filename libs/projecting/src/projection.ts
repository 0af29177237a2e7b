import type { DomainEvent, FieldPath, DataKind } from '#libs/decider';
import { personalFields } from '#libs/decider';
import type { Json } from '#libs/canonical';
import type { z } from 'zod';

/** An event as a projector sees it: its personal fields are open, its place in stream and log is beside it. */
export type Recorded<Event extends DomainEvent = DomainEvent> = Event & {
  readonly stream: string;
  readonly tenant: string;
  readonly id: string;
  readonly revision: bigint;
  readonly position: bigint;
  readonly eventId: string;
  readonly metadata: { readonly recordedAt: string; readonly schemaVersion: number };
};

/** Folds one event into the document of its stream. Pure: it returns a new document and leaves the old one. */
export type Fold<Doc, Event extends DomainEvent> = (doc: Doc, event: Recorded<Event>) => Doc;

/**
 * What becomes of one type of event: `begins` makes the document from a stream's first event, a fold changes
 * it, `'pass'` leaves it (its revision moves on all the same).
 */
export type Handling<Doc, Event extends DomainEvent> =
  Fold<Doc, Event> | { readonly begins: (event: Recorded<Event>) => Doc } | 'pass';

export interface ProjectionIndex {
  readonly key: Readonly<Record<string, 1 | -1>>;
}

export interface ProjectionDefinition<Doc, Event extends DomainEvent> {
  /** Name of the projection and of its database. */
  readonly name: string;
  /** Raised whenever the document changes shape or meaning; each version has its own collection and position. */
  readonly version: number;
  /** Streams `<category>-<tenant>.<id>` are heard; the document of a stream is `<tenant>.<id>`. */
  readonly category: string;
  /** Shape of the document; its fields marked personal are sealed wherever the document rests. */
  readonly document: z.ZodType<Doc>;
  readonly indexes: readonly ProjectionIndex[];
  readonly fold: { readonly [E in Event as E['type']]: Handling<Doc, E> };
  /** Whose keys seal the document; not asked where no field of it is personal. */
  readonly customerOf: (doc: Doc) => string;
  /** Searchable personal texts; what is stored is their keyed HMAC under `search.<name>`. */
  readonly search?: Readonly<Record<string, (doc: Doc) => string>>;
  /** The version before, shipped beside this one so that it stays current until readers are switched, and after. */
  readonly previous?: Predecessor<Doc>;
}

/** A version before this one. `Doc` describes the documents of both: what only the newer has is optional. */
export interface Predecessor<Doc> {
  readonly projection: Projection<Doc>;
  /** A document of the newer version as the older one would have it: what differs beyond that is not meant to. */
  readonly expected: (newer: Doc) => Doc;
}

/** A projection ready to run. Build one with `defineProjection`. */
export interface Projection<Doc> {
  readonly name: string;
  readonly version: number;
  readonly category: string;
  readonly prefix: string;
  readonly document: z.ZodType<Doc>;
  readonly personal: readonly { path: FieldPath; kind: DataKind }[];
  readonly indexes: readonly ProjectionIndex[];
  readonly fold: Readonly<Record<string, Handling<Doc, DomainEvent>>>;
  readonly customerOf: (doc: Doc) => string;
  readonly search: Readonly<Record<string, (doc: Doc) => string>>;
  readonly previous?: Predecessor<Doc>;
}

/** A document with its place: `revision` is the last event folded in, `created` the position of the first. */
export interface View<Doc> {
  readonly tenant: string;
  readonly id: string;
  readonly revision: bigint;
  readonly position: bigint;
  readonly created: bigint;
  readonly doc: Doc;
}

/** Names that a stored document uses itself; a projection's document has no field of these names. */
const RESERVED = ['_id', 'tenant', 'id', 'revision', 'position', 'created', 'search'];

/**
 * Checks and completes a definition.
 * @throws TypeError when the document uses a reserved field name or a name is no database or category name.
 */
export function defineProjection<Doc extends Record<string, Json | undefined>, Event extends DomainEvent>(
  definition: ProjectionDefinition<Doc, Event>,
): Projection<Doc> {
  const { name, category, document } = definition;
  if (!/^[a-z][a-z0-9-]{0,37}$/.test(name))
    throw new TypeError(`projection name ${name}: lower-case letters`);
  if (!/^[a-z]+$/.test(category)) throw new TypeError(`category ${category} of ${name}: lower-case letters`);
  const fields = 'shape' in document ? Object.keys(document.shape as object) : [];
  const taken = fields.filter((field) => RESERVED.includes(field));
  if (taken.length > 0) throw new TypeError(`document of ${name} uses reserved fields: ${taken.join(', ')}`);
  return {
    ...definition,
    prefix: `${category}-`,
    personal: personalFields(document),
    fold: definition.fold as unknown as Projection<Doc>['fold'],
    search: definition.search ?? {},
  };
}

/** Why an event cannot be applied. `code` is what a dead letter stores; it never carries content. */
export class Unprojectable extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
    this.name = 'Unprojectable';
  }
}

/** The code of an error for a dead letter or a notice: never its message, which may carry content. */
export function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  if (typeof code === 'string' && /^[a-z][a-z0-9-]{0,63}$/.test(code)) return code;
  const name = error instanceof Error ? error.name : 'unknown';
  return name.replace(/(?<=[a-z])(?=[A-Z])/g, '-').toLowerCase();
}

/** Told of what was passed over or failed and goes on: a text for operators and codes, never content. */
export type Notice = (text: string, fields: Readonly<Record<string, unknown>>) => void;

/** Newest schema version of each event type that this build knows. */
const SCHEMA_VERSION = 1;

/** How a type is handled, or `'pass'` for the log's own types. @throws Unprojectable for what nobody declared. */
export function handlingOf<Doc>(
  projection: Projection<Doc>,
  event: { type: string; metadata: { schemaVersion: number } },
): Handling<Doc, DomainEvent> {
  if (event.type.startsWith('$')) return 'pass';
  const handling = Object.hasOwn(projection.fold, event.type) ? projection.fold[event.type] : undefined;
  if (handling === undefined) throw new Unprojectable('unknown-event-type', `unknown type ${event.type}`);
  const version = event.metadata.schemaVersion;
  if (version !== SCHEMA_VERSION)
    throw new Unprojectable('unknown-schema-version', `${event.type} has schema version ${version}`);
  return handling;
}

/**
 * Applies the next event of a stream. A revision that the view has already is a no-op (the same view is
 * returned), so a second delivery changes nothing; a revision that skips one is refused as `revision-gap`.
 *
 * @throws Unprojectable, or whatever the projector throws; the view given is unchanged then.
 */
export function project<Doc>(
  projection: Projection<Doc>,
  view: View<Doc> | undefined,
  event: Recorded,
): View<Doc> {
  if (event.id === '')
    throw new Unprojectable('foreign-stream', `${event.stream} is not a stream of this category`);
  if (view && event.revision <= view.revision) return view;
  const expected = view ? view.revision + 1n : 0n;
  if (event.revision !== expected)
    throw new Unprojectable('revision-gap', `${event.stream}: expected ${expected}, got ${event.revision}`);
  const { tenant, id, revision, position } = event;
  const place = { tenant, id, revision, position, created: view?.created ?? position };
  return { ...place, doc: next(handlingOf(projection, event), view?.doc, event) };
}

function next<Doc>(handling: Handling<Doc, DomainEvent>, doc: Doc | undefined, event: Recorded): Doc {
  if (typeof handling === 'object') return handling.begins(event);
  if (doc === undefined)
    throw new Unprojectable('no-document', `${event.type} cannot be the first event of ${event.stream}`);
  return handling === 'pass' ? doc : handling(doc, event);
}
