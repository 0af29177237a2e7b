import { Unopenable } from '#libs/vault';
import type { Filter } from 'mongodb';
import type { Stores } from './stores.js';
import { advance } from './event-log.js';
import { type Projection, type View, codeOf } from './projection.js';
import { ReadModelUnavailable } from './read-models.js';
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

/** Reads of one projection's documents. */
export class Views<Doc> {
  constructor(
    private readonly projection: Projection<Doc>,
    private readonly stores: Stores,
  ) {}

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
    const stored = await this.stored(tenant, id);
    let view = stored && upTo !== undefined && stored.revision > upTo ? undefined : stored;
    const stream = `${this.projection.category}-${tenant}.${id}`;
    const from = view ? view.revision + 1n : 0n;
    const range = upTo === undefined ? { from } : { from, to: upTo };
    for await (const event of this.stores.log.read(stream, range)) {
      const next = await advance(this.projection, this.stores.log, view, event);
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
    filters: readonly Filter<StoredDocument>[],
    { limit, cursor }: PageRequest,
  ): Promise<Page<View<Doc>>> {
    const before = cursor === undefined ? [] : [{ created: { $lt: positionOf(cursor) } }];
    const found = await this.stores.models.read(() =>
      this.documents()
        .find({ $and: [{ tenant }, ...before, ...filters] })
        .sort({ created: -1 })
        .limit(limit + 1)
        .toArray(),
    );
    const shown = found.slice(0, limit);
    const items = await Promise.all(
      shown.map((stored) => openDocument(this.projection, this.stores.vault, stored)),
    );
    const last = shown.at(-1);
    return { items, nextCursor: found.length > limit && last ? cursorOf(last.created) : null };
  }

  /** How many documents, of all tenants, a filter matches. @throws ReadModelUnavailable */
  count(filter: Filter<StoredDocument>): Promise<number> {
    return this.stores.models.read(() => this.documents().countDocuments(filter));
  }

  /** The condition that a declared search field holds a text. */
  async searched(tenant: string, field: string, text: string): Promise<Filter<StoredDocument>> {
    return { [`search.${field}`]: await searchKey(this.stores.vault, tenant, text) };
  }

  private async stored(tenant: string, id: string): Promise<View<Doc> | undefined> {
    try {
      const found = await this.stores.models.read(() =>
        this.documents().findOne({ _id: documentId(tenant, id) }),
      );
      return found ? await openDocument(this.projection, this.stores.vault, found) : undefined;
    } catch (error) {
      if (!(error instanceof ReadModelUnavailable || error instanceof Unopenable)) throw error;
      this.stores.notice('a document cannot be read; its stream is folded instead', {
        tenant,
        id,
        code: codeOf(error),
      });
      return undefined;
    }
  }

  private documents() {
    return this.stores.models
      .openReadModel(this.projection.name, 'reader')
      .collection<StoredDocument>(this.projection.collection);
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
