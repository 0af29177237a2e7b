/** What an append expects of its stream: section 2.2 of the protocol; a number is the last revision. */
export type Expected = 'any' | 'no_stream' | 'stream_exists' | bigint;

/** A stream as the next append must see it. */
export interface StreamFacts {
  /** Revision of the last event, −1 without one. */
  readonly last: number;
  readonly tombstoned: boolean;
  readonly softDeleted: boolean;
  readonly hasMetadata: boolean;
}

/** Which event ids the stream is known to hold. */
export interface KnownIds {
  /** The id of the event at a revision, where there is one. */
  idAt(revision: number): string | undefined;
  /** The revision under which an id was lately written to this stream; forgets, and says undefined, freely. */
  revisionOf(id: string): number | undefined;
}

export type Verdict =
  | { readonly kind: 'write' }
  /** The same events were written before; `revision` is that of the last of them. */
  | { readonly kind: 'repeat'; readonly revision: number }
  | { readonly kind: 'wrong-revision'; readonly last: number }
  | { readonly kind: 'stream-deleted' };

const WRITE: Verdict = { kind: 'write' };
const DELETED: Verdict = { kind: 'stream-deleted' };

/**
 * The table of section 2.2 and the re-sends of 2.3. An expectation equal to the last revision always writes; only a
 * lower one is taken for a re-send. `any` and `stream_exists` recognise a re-send as far as `revisionOf` remembers.
 */
export function decide(
  facts: StreamFacts,
  expected: Expected,
  ids: readonly string[],
  known: KnownIds,
): Verdict {
  if (facts.tombstoned) return DELETED;
  if (expected === 'stream_exists') {
    if (facts.softDeleted) return DELETED;
    if (facts.last < 0 && !facts.hasMetadata) return wrong(facts);
    return lately(facts, ids, known);
  }
  if (expected === 'any') return lately(facts, ids, known);
  const revision = expected === 'no_stream' ? -1n : expected;
  if (revision === BigInt(facts.last)) return WRITE;
  if (revision > BigInt(facts.last)) return wrong(facts);
  return resent(facts, Number(revision), expected, ids, known);
}

const wrong = (facts: StreamFacts): Verdict => ({ kind: 'wrong-revision', last: facts.last });

function lately(facts: StreamFacts, ids: readonly string[], known: KnownIds): Verdict {
  let revision: number | undefined;
  for (const [i, id] of ids.entries()) {
    const seen = known.revisionOf(id);
    if (seen === undefined) return i === 0 ? WRITE : wrong(facts);
    revision = seen;
  }
  return revision === undefined ? WRITE : { kind: 'repeat', revision };
}

function resent(
  facts: StreamFacts,
  revision: number,
  expected: Expected,
  ids: readonly string[],
  known: KnownIds,
): Verdict {
  for (const [i, id] of ids.entries()) {
    if (known.idAt(revision + 1 + i) === id) continue;
    return i === 0 && expected === 'no_stream' && facts.softDeleted ? WRITE : wrong(facts);
  }
  return ids.length === 0 ? wrong(facts) : { kind: 'repeat', revision: revision + ids.length };
}

/** What the metadata of a stream means for its readers (section 5.1). */
export interface StreamMetadata {
  /** Events below are hidden. */
  readonly truncateBefore?: number;
  readonly maxCount?: number;
  /** Seconds. */
  readonly maxAge?: number;
  readonly softDeleted: boolean;
  /** Who may do what; absent where it says nothing. */
  readonly access?: AccessList;
}

/** To read, to write, to delete, and to read and write the metadata. */
const RIGHTS = ['$r', '$w', '$d', '$mr', '$mw'] as const;
export type Right = (typeof RIGHTS)[number];
/** Names of users and groups; a right without a list is not spoken of. */
export type AccessList = { readonly [right in Right]?: readonly string[] };

export const NO_METADATA: StreamMetadata = { softDeleted: false };

/** The metadata document of a soft-deleted stream: everything before the last possible revision is hidden. */
export const SOFT_DELETED_DOCUMENT = '{"$tb":9223372036854775807}';

export const METADATA_TYPE = '$metadata';
export const metadataStreamOf = (stream: string): string => `$$${stream}`;
export const isMetadataStream = (stream: string): boolean => stream.startsWith('$$');
export const ownerOfMetadata = (metadataStream: string): string => metadataStream.slice(2);

/** Bytes that are no JSON object, and limits that are not positive whole numbers, mean nothing and break nothing. */
export function parseMetadata(document: Buffer): StreamMetadata {
  const fields = parseDocument(document);
  const truncateBefore = wholeNumber(fields['$tb'], 0);
  return {
    truncateBefore,
    maxCount: wholeNumber(fields['$maxCount'], 1),
    maxAge: wholeNumber(fields['$maxAge'], 1),
    softDeleted: truncateBefore !== undefined && truncateBefore > Number.MAX_SAFE_INTEGER,
    access: fields['$acl'] === undefined ? undefined : accessList(document, '$acl'),
  };
}

/** The list under a key of a document; what is neither a name nor an array of names speaks of nothing. */
export function accessList(document: Buffer, key: string): AccessList {
  const lists = parseDocument(document)[key];
  if (typeof lists !== 'object' || lists === null) return {};
  return Object.fromEntries(
    RIGHTS.flatMap((right) => {
      const names: unknown = (lists as Record<string, unknown>)[right];
      const list = typeof names === 'string' ? [names] : names;
      return Array.isArray(list) && list.every((name) => typeof name === 'string') ? [[right, list]] : [];
    }),
  );
}

/** A document that shows a soft-deleted stream again from `revision` on and keeps its other keys. */
export function reviveDocument(document: Buffer, revision: number): string {
  return JSON.stringify({ ...parseDocument(document), $tb: revision });
}

function parseDocument(document: Buffer): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(document.toString());
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed) ? { ...parsed } : {};
  } catch (error) {
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}

const wholeNumber = (value: unknown, least: number): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value >= least ? value : undefined;

/** The lowest revision that readers see (section 3.4); age is a matter of each event. */
export function firstVisible(metadata: StreamMetadata, last: number, isMetadata: boolean): number {
  const maxCount = isMetadata ? 1 : metadata.maxCount;
  return Math.max(0, metadata.truncateBefore ?? 0, maxCount === undefined ? 0 : last - maxCount + 1);
}
