import { Unopenable } from '#libs/vault';
import type { Collection, Filter } from 'mongodb';
import { documentsOf, editionToRead, firstEdition, shipped, versionOf } from './editions.js';
import type { Stores } from './stores.js';
import { advance } from './event-log.js';
import { type Projection, type View, codeOf } from './projection.js';
import { type ReadModel, ReadModelUnavailable } from './read-models.js';
import { type StoredDocument, documentId, openDocument, searchKey } from './stored.js';

/** A cursor that no list of this kind has given out. */
export class InvalidCursor extends Error {
  override readonly name = 'InvalidCursor';
}

export interface PageRequest {
  /** 1..200 */
  readonly limit: number;
  readonly cursor?: string | undefined;
}

export interface Page<Item> {
  readonly items: Item[];
  /** Of the next page; null on the last one. */
  readonly nextCursor: string | null;
}

/** Conditions on the stored documents, which may differ by the version that is read. */
export type Conditions =
  | readonly Filter<StoredDocument>[]
  | ((version: number) => readonly Filter<StoredDocument>[] | Promise<readonly Filter<StoredDocument>[]>);

/**
 * Reads of one projection's documents. Each read is of one edition as a whole: the one that is live when it begins.
 */
export class Views<Doc> {
  /** The edition that was live when last asked. */
  private known: string;

  constructor(
    private readonly projection: Projection<Doc>,
    private readonly stores: Stores,
  ) {
    this.known = firstEdition(projection);
  }

  /**
   * The document of one stream as fresh as the stream: the stored one and the events after it. With the document
   * store down, or a document that cannot be opened, the whole stream is folded instead. An event that cannot be
   * applied ends the fold with a notice, as it holds the read model: `revision` says how far it went.
   *
   * With `upTo` it is the document as of that revision, whatever has happened since.
   *
   * @throws whatever the event store throws when it does not answer.
   */
  async fresh(tenant: string, id: string, upTo?: bigint): Promise<View<Doc> | undefined> {
    const { stored, projection } = await this.stored(tenant, id);
    let view = stored && upTo !== undefined && stored.revision > upTo ? undefined : stored;
    const stream = `${projection.category}-${tenant}.${id}`;
    const from = view ? view.revision + 1n : 0n;
    const range = upTo === undefined ? { from } : { from, to: upTo };
    for await (const event of this.stores.log.read(stream, range)) {
      const next = await advance(projection, this.stores.log, view, event);
      if ('code' in next) {
        const { revision } = event;
        this.stores.notice('a read stops before an event that cannot be applied', {
          stream,
          revision,
          code: next.code,
        });
        return view;
      }
      view = next.view;
    }
    return view;
  }

  /**
   * Documents that a filter matches, newest first by the position of their first event: an order that no later
   * write changes, so that following the cursor shows no document twice and leaves out none that was there
   * before the first page.
   *
   * @throws InvalidCursor, ReadModelUnavailable
   */
  async page(
    tenant: string,
    conditions: Conditions,
    { limit, cursor }: PageRequest,
  ): Promise<Page<View<Doc>>> {
    const before = cursor === undefined ? [] : [{ created: { $lt: positionOf(cursor) } }];
    const { answer: found, projection } = await this.read(async (documents, { version }) => {
      const filters = typeof conditions === 'function' ? await conditions(version) : conditions;
      return documents
        .find({ $and: [{ tenant }, ...before, ...filters] })
        .sort({ created: -1 })
        .limit(limit + 1)
        .toArray();
    });
    const shown = found.slice(0, limit);
    const items = await Promise.all(
      shown.map((stored) => openDocument(projection, this.stores.vault, stored)),
    );
    const last = shown.at(-1);
    return { items, nextCursor: found.length > limit && last ? cursorOf(last.created) : null };
  }

  /** How many documents, of all tenants, a filter matches. @throws ReadModelUnavailable */
  async count(filter: Filter<StoredDocument>): Promise<number> {
    return (await this.read((documents) => documents.countDocuments(filter))).answer;
  }

  /** The condition that a declared search field holds a text. */
  async searched(tenant: string, field: string, text: string): Promise<Filter<StoredDocument>> {
    return { [`search.${field}`]: await searchKey(this.stores.vault, tenant, text) };
  }

  private async stored(
    tenant: string,
    id: string,
  ): Promise<{ stored: View<Doc> | undefined; projection: Projection<Doc> }> {
    try {
      const { answer, projection } = await this.read((documents) =>
        documents.findOne({ _id: documentId(tenant, id) }),
      );
      const stored = answer ? await openDocument(projection, this.stores.vault, answer) : undefined;
      return { stored, projection };
    } catch (error) {
      if (!(error instanceof ReadModelUnavailable || error instanceof Unopenable)) throw error;
      this.stores.notice('a document cannot be read; its stream is folded instead', {
        tenant,
        id,
        code: codeOf(error),
      });
      return { stored: undefined, projection: this.projection };
    }
  }

  /** Asks the edition known last while it is looked up which one is live, and asks again where that is another. */
  private async read<Answer>(
    ask: (documents: Collection<StoredDocument>, projection: Projection<Doc>) => Promise<Answer>,
  ): Promise<{ answer: Answer; projection: Projection<Doc> }> {
    const { models } = this.stores;
    const model = models.openReadModel(this.projection.name, 'reader');
    return models.read(async () => {
      const guessed = this.known;
      const [live, answer] = await Promise.all([
        editionToRead(this.projection, model),
        this.askOf(guessed, model, ask),
      ]);
      if (live === undefined)
        throw new ReadModelUnavailable(`no version of ${this.projection.name} is known`);
      this.known = live;
      return live === guessed ? answer : this.askOf(live, model, ask);
    });
  }

  private async askOf<Answer>(
    edition: string,
    model: ReadModel,
    ask: (documents: Collection<StoredDocument>, projection: Projection<Doc>) => Promise<Answer>,
  ): Promise<{ answer: Answer; projection: Projection<Doc> }> {
    const projection = shipped(this.projection, versionOf(edition)) ?? this.projection;
    return {
      answer: await ask(model.collection<StoredDocument>(documentsOf(edition)), projection),
      projection,
    };
  }
}

function cursorOf(position: bigint): string {
  return Buffer.from(position.toString()).toString('base64url');
}

function positionOf(cursor: string): bigint {
  const text = Buffer.from(cursor, 'base64url').toString();
  if (!/^\d{1,19}$/.test(text)) throw new InvalidCursor('not a cursor that this list gave out');
  return BigInt(text);
}
