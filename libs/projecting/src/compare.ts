import { canonicalJson } from '#libs/canonical';
import { documentsOf, firstEdition } from './editions.js';
import { advance } from './event-log.js';
import type { Projection, View } from './projection.js';
import { type StoredDocument, documentId, openDocument } from './stored.js';
import type { Stores } from './stores.js';

/** How the documents of a projection differ from what they must be. */
export interface FoldComparison {
  readonly compared: number;
  /** Streams in the log without a document. */
  readonly missing: string[];
  /** Documents without a stream in the log. */
  readonly extra: string[];
  /** Documents whose content is not that of their stream, or that stand before its end. */
  readonly differing: string[];
}

/**
 * Compares every document of a read model with a plain fold of its stream, over opened values; names are
 * `<tenant>.<id>`. A document that a running projector has moved on meanwhile is compared at its own revision.
 * A stream is folded as far as its events can be applied, which is where its document must stand.
 *
 * Wait for the projection to reach the head first: one that is behind differs. Holds all documents in memory.
 */
export async function compareWithFold<Doc>(
  projection: Projection<Doc>,
  stores: Stores,
  edition = firstEdition(projection),
): Promise<FoldComparison> {
  const folded = await foldLog(projection, stores);
  const missing = new Set(folded.keys());
  const extra: string[] = [];
  const differing: string[] = [];
  let compared = 0;
  const documents = stores.models
    .openReadModel(projection.name, 'reader')
    .collection<StoredDocument>(documentsOf(edition))
    .find();
  for await (const stored of documents) {
    missing.delete(stored._id);
    const expected = await foldedTo(projection, stores, folded.get(stored._id), stored);
    if (!expected) {
      extra.push(stored._id);
      continue;
    }
    compared += 1;
    const actual = await openDocument(projection, stores.vault, stored);
    if (fingerprint(actual) !== fingerprint(expected)) differing.push(stored._id);
  }
  return { compared, missing: [...missing], extra, differing };
}

async function foldLog<Doc>(projection: Projection<Doc>, { log }: Stores): Promise<Map<string, View<Doc>>> {
  const views = new Map<string, View<Doc>>();
  const held = new Set<string>();
  const done = new AbortController();
  const { prefix } = projection;
  try {
    for await (const delivery of log.subscribe({ prefix, after: 'start', signal: done.signal })) {
      if (delivery.kind === 'caught-up') break;
      if (delivery.kind !== 'event' || held.has(delivery.event.stream)) continue;
      const { event } = delivery;
      const _id = documentId(event.tenant, event.id);
      const next = await advance(projection, log, views.get(_id), event);
      if ('view' in next) views.set(_id, next.view);
      else held.add(event.stream);
    }
  } finally {
    done.abort();
  }
  return views;
}

async function foldedTo<Doc>(
  projection: Projection<Doc>,
  { log }: Stores,
  folded: View<Doc> | undefined,
  { tenant, id, revision }: StoredDocument,
): Promise<View<Doc> | undefined> {
  if (folded && folded.revision >= revision) return folded;
  let view = folded;
  const from = folded ? folded.revision + 1n : 0n;
  for await (const event of log.read(`${projection.category}-${tenant}.${id}`, { from, to: revision })) {
    const next = await advance(projection, log, view, event);
    if ('code' in next) return view;
    view = next.view;
  }
  return view;
}

function fingerprint({ revision, position, created, doc }: View<unknown>): string {
  return canonicalJson({ place: [revision, position, created].map(String), doc });
}
