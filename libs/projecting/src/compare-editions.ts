import { canonicalJson } from '#libs/canonical';
import { Unopenable } from '#libs/vault';
import { documentsOf } from './editions.js';
import { advance } from './event-log.js';
import type { Projection, View } from './projection.js';
import { type StoredDocument, openDocument } from './stored.js';
import type { Stores } from './stores.js';

/** How the documents of a new edition differ from those of the live one. */
export interface Comparison {
  readonly compared: number;
  /** Documents of the live edition that the new one lacks. */
  readonly missing: number;
  /** Documents of the new edition that the live one lacks. */
  readonly extra: number;
  readonly differing: number;
  /** Of those compared, how many differ only as the new version declares. */
  readonly expected: number;
  /** Some that are missing, extra or differ, with the fields that do; never a value. */
  readonly examples: readonly Example[];
}
export interface Example {
  readonly id: string;
  readonly kind: 'missing' | 'extra' | 'differing';
  readonly fields: readonly string[];
}

/** One of the two editions that are compared. */
export interface Side<Doc> {
  readonly edition: string;
  readonly projection: Projection<Doc>;
}

const MOST_EXAMPLES = 20;

export function isClean({ missing, extra, differing }: Comparison): boolean {
  return missing + extra + differing === 0;
}

/**
 * Compares a new edition with the live one, document by document, over opened values and at equal revisions, while
 * both move on. Both must have reached `through`: what lies behind it has to be in both, and a document that one of
 * them has moved on further is compared with the other's folded forward over its later events. Reads both in the
 * order of their ids and holds one document of each.
 *
 * Across versions a document that differs is carried back by what the new version declares; what is equal then
 * counts as expected.
 */
export async function compareEditions<Doc>(
  live: Side<Doc>,
  next: Side<Doc>,
  through: bigint,
  stores: Stores,
  signal: AbortSignal,
): Promise<Comparison> {
  const tally = new Tally();
  const model = stores.models.openReadModel(live.projection.name, 'writer');
  const documents = ({ edition }: Side<Doc>) =>
    model.collection<StoredDocument>(documentsOf(edition)).find().sort({ _id: 1 });
  const [ones, others] = [documents(live), documents(next)];
  let one = await ones.next();
  let other = await others.next();
  while (one || other) {
    signal.throwIfAborted();
    if (!other || (one && one._id < other._id)) {
      if (one && one.created <= through) tally.note('missing', one._id);
      one = await ones.next();
    } else if (!one || other._id < one._id) {
      if (other.created <= through) tally.note('extra', other._id);
      other = await others.next();
    } else {
      tally.compared += 1;
      const fields = await difference([live, one], [next, other], through, stores);
      if (fields === 'expected') tally.expected += 1;
      else if (fields.length > 0) tally.note('differing', one._id, fields);
      one = await ones.next();
      other = await others.next();
    }
  }
  return tally.result();
}

class Tally {
  compared = 0;
  expected = 0;
  private readonly counts = { missing: 0, extra: 0, differing: 0 };
  private readonly examples: Example[] = [];

  note(kind: Example['kind'], id: string, fields: readonly string[] = []): void {
    this.counts[kind] += 1;
    if (this.examples.length < MOST_EXAMPLES) this.examples.push({ id, kind, fields });
  }

  result(): Comparison {
    const { compared, expected, counts, examples } = this;
    return { compared, ...counts, expected, examples };
  }
}

/** The fields in which two documents of one stream differ; none where they are equal. */
async function difference<Doc>(
  [live, one]: [Side<Doc>, StoredDocument],
  [next, other]: [Side<Doc>, StoredDocument],
  through: bigint,
  stores: Stores,
): Promise<readonly string[] | 'expected'> {
  const opened = [await openedOf(live, one, stores), await openedOf(next, other, stores)];
  if (opened[0] === undefined && opened[1] === undefined)
    return one.revision === other.revision ? [] : ['revision'];
  if (opened[0] === undefined || opened[1] === undefined) return ['unopenable'];
  const revision = one.revision > other.revision ? one.revision : other.revision;
  const left = await forward(live, opened[0], revision, through, stores);
  const right = await forward(next, opened[1], revision, through, stores);
  if (!left || !right) return ['revision'];
  const differing = fieldsThatDiffer(left, right);
  const previous = next.projection.previous;
  if (differing.length === 0 || previous?.projection.version !== live.projection.version) return differing;
  const carried = fieldsThatDiffer(left, { ...right, doc: previous.expected(right.doc) });
  return carried.length === 0 ? 'expected' : carried;
}

async function openedOf<Doc>(
  { projection }: Side<Doc>,
  stored: StoredDocument,
  { vault }: Stores,
): Promise<View<Doc> | undefined> {
  try {
    return await openDocument(projection, vault, stored);
  } catch (error) {
    if (error instanceof Unopenable) return undefined;
    throw error;
  }
}

/** The view at a later revision; undefined where one that both had to hold was not applied, or cannot be. */
async function forward<Doc>(
  { projection }: Side<Doc>,
  view: View<Doc>,
  to: bigint,
  through: bigint,
  { log }: Stores,
): Promise<View<Doc> | undefined> {
  if (view.revision === to) return view;
  let reached = view;
  const stream = `${projection.category}-${view.tenant}.${view.id}`;
  for await (const event of log.read(stream, { from: view.revision + 1n, to })) {
    if (event.position <= through) return undefined;
    const next = await advance(projection, log, reached, event);
    if ('code' in next) return undefined;
    reached = next.view;
  }
  return reached.revision === to ? reached : undefined;
}

function fieldsThatDiffer<Doc>(one: View<Doc>, other: View<Doc>): string[] {
  const [left, right] = [one, other].map(fieldsOf) as [Map<string, string>, Map<string, string>];
  const names = new Set([...left.keys(), ...right.keys()]);
  return [...names].filter((name) => left.get(name) !== right.get(name)).sort();
}

/** Each field's content in one form. */
function fieldsOf<Doc>({ revision, position, created, doc }: View<Doc>): Map<string, string> {
  const place = { revision: `${revision}`, position: `${position}`, created: `${created}` };
  const entries = Object.entries({ ...(doc as Record<string, unknown>), ...place });
  return new Map(
    entries.filter(([, value]) => value !== undefined).map(([name, value]) => [name, canonicalJson(value)]),
  );
}
