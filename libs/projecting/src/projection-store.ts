import { Unopenable } from '#libs/vault';
import type { ClientSession, Collection } from 'mongodb';
import { MongoServerError } from 'mongodb';
import {
  DEAD_LETTERS,
  documentsOf,
  EditionGone,
  firstEdition,
  keptIn,
  lettersOf,
  POSITIONS,
  readEditions,
} from './editions.js';
import { advance } from './event-log.js';
import type { Projection, View } from './projection.js';
import { type ReadModel, answered } from './read-models.js';
import { type StoredDocument, documentId, openDocument, sealDocument } from './stored.js';
import type { Stores } from './stores.js';

/** Where one edition of a projection stands in the log; `null` before its first event. */
export interface PositionDocument {
  /** The edition. */
  readonly _id: string;
  readonly projection: string;
  readonly version: number;
  readonly position: bigint | null;
  /** The event handled last, so that a log that went back in time can be told. */
  readonly lastEvent?: {
    readonly stream: string;
    readonly revision: bigint;
    readonly eventId: string;
    readonly position?: bigint;
  };
  readonly savedAt: string;
}

/** An event set aside because it cannot be applied; later events of its stream wait behind it. */
export interface DeadLetter {
  readonly stream: string;
  readonly tenant: string;
  readonly id: string;
  readonly revision: bigint;
  readonly eventId: string;
  /** Never a message: that could carry content. */
  readonly code: string;
  readonly attempts: number;
  readonly failedAt: string;
}
type StoredDeadLetter = DeadLetter & { readonly _id: string; readonly version: number };

/** What one transaction makes durable. */
export interface Batch<Doc> {
  readonly views: readonly View<Doc>[];
  readonly setAside: readonly DeadLetter[];
  /** Streams whose dead letter was applied after all. */
  readonly released: readonly string[];
  readonly through: bigint | null;
  readonly last?: PositionDocument['lastEvent'];
}

/** Another writer moved the position: what this one holds in memory is stale. */
export class PositionMoved extends Error {
  override readonly name = 'PositionMoved';
}

const DUPLICATE_KEY = 11_000;

/**
 * Documents, position and dead letters of one edition of a projection: all in its database, all written in one
 * transaction whose condition is the position it was computed from. Of two writers only one can commit; the other
 * gets `PositionMoved` and has written nothing.
 */
export class ProjectionStore<Doc> {
  private readonly model: ReadModel;

  constructor(
    private readonly projection: Projection<Doc>,
    private readonly stores: Stores,
    private readonly edition = firstEdition(projection),
  ) {
    this.model = stores.models.openReadModel(projection.name);
  }

  /**
   * Creates what is missing (collections, indexes, the position) and gives the stored position and dead letters.
   * @throws EditionGone when the edition is one of those that were dropped.
   * @throws Error when the collection lacks the unique index on tenant and id after all.
   */
  async open(): Promise<{ position: bigint | null; deadLetters: DeadLetter[] }> {
    const editions = await answered(readEditions(this.model));
    if (editions && !keptIn(editions).includes(this.edition))
      throw new EditionGone(`${this.projection.name} ${this.edition} was dropped`);
    await answered(this.prepare());
    const found = await answered(this.positions().findOne({ _id: this.edition }));
    const deadLetters = await answered(this.deadLetters().find(lettersOf(this.edition)).toArray());
    return { position: found?.position ?? null, deadLetters };
  }

  private async prepare(): Promise<void> {
    const documents = this.documents();
    await documents.createIndex({ tenant: 1, id: 1 }, { unique: true });
    for (const { key } of this.projection.indexes) await documents.createIndex({ ...key });
    const indexes = await documents.listIndexes().toArray();
    const unique = indexes.some(
      ({ key, unique }) => unique && Object.keys(key as object).join() === 'tenant,id',
    );
    if (!unique) throw new Error(`${this.projection.name} has no unique index on tenant and id`);
    await this.deadLetters().createIndex({ version: 1, stream: 1 });
    const { name, version } = this.projection;
    const first = { _id: this.edition, projection: name, version, position: null, savedAt: now() };
    await this.positions()
      .insertOne(first)
      .catch((error: unknown) => {
        if (!(error instanceof MongoServerError && error.code === DUPLICATE_KEY)) throw error;
      });
  }

  /** The stored documents of some streams. One that cannot be read is made again from its stream. */
  async load(streams: readonly { tenant: string; id: string }[]): Promise<View<Doc>[]> {
    if (streams.length === 0) return [];
    const ids = streams.map(({ tenant, id }) => documentId(tenant, id));
    const found = await answered(
      this.documents()
        .find({ _id: { $in: ids } })
        .toArray(),
    );
    const views = await Promise.all(found.map((stored) => this.read(stored)));
    return views.filter((view) => view !== undefined);
  }

  private async read(stored: StoredDocument): Promise<View<Doc> | undefined> {
    try {
      return await openDocument(this.projection, this.stores.vault, stored);
    } catch (error) {
      if (!(error instanceof Unopenable)) throw error;
      const stream = `${this.projection.category}-${stored._id}`;
      this.stores.notice('a document that cannot be opened is made again from its stream', {
        stream,
        code: error.code,
      });
      return this.refold(stream, stored.revision);
    }
  }

  /** `undefined` where the stream cannot be read as far as that: its next event is then set aside. */
  private async refold(stream: string, to: bigint): Promise<View<Doc> | undefined> {
    const { log } = this.stores;
    let view: View<Doc> | undefined;
    for await (const event of log.read(stream, { to })) {
      const next = await advance(this.projection, log, view, event);
      if ('code' in next) return undefined;
      view = next.view;
    }
    return view;
  }

  /**
   * Makes a batch durable, if the position is still `from`. A document is replaced only by a later revision.
   * @throws PositionMoved, ReadModelUnavailable (the batch may stand then: read the position again).
   */
  async commit(from: bigint | null, batch: Batch<Doc>): Promise<void> {
    const { vault } = this.stores;
    const documents = await Promise.all(
      batch.views.map((view) => sealDocument(this.projection, vault, view)),
    );
    await this.model.transaction(async (session) => {
      await this.move(from, batch, session);
      await this.replace(documents, session);
      await this.keepDeadLetters(batch, session);
    });
  }

  /** Saves a position that was reached without an event to apply. */
  savePosition(from: bigint | null, through: bigint): Promise<void> {
    return answered(this.move(from, { through }));
  }

  private async move(
    from: bigint | null,
    { through, last }: Pick<Batch<Doc>, 'through' | 'last'>,
    session?: ClientSession,
  ): Promise<void> {
    const change = { position: through, savedAt: now(), ...(last && { lastEvent: last }) };
    const { matchedCount } = await this.positions().updateOne(
      { _id: this.edition, position: from },
      { $set: change },
      session ? { session } : {},
    );
    if (matchedCount !== 1) throw new PositionMoved(`${this.projection.name} no longer stands at ${from}`);
  }

  private async replace(documents: readonly StoredDocument[], session: ClientSession): Promise<void> {
    if (documents.length === 0) return;
    const writes = documents.map((replacement) => ({
      replaceOne: {
        filter: { _id: replacement._id, revision: { $lt: replacement.revision } },
        replacement,
        upsert: true,
      },
    }));
    await this.documents().bulkWrite(writes, { session, ordered: false });
  }

  private async keepDeadLetters(
    { setAside, released }: Pick<Batch<Doc>, 'setAside' | 'released'>,
    session: ClientSession,
  ): Promise<void> {
    const { version } = this.projection;
    for (const letter of setAside) {
      const replacement = { ...letter, version };
      const _id = this.letterId(letter.stream);
      await this.deadLetters().replaceOne({ _id }, replacement, { upsert: true, session });
    }
    if (released.length > 0) {
      const ids = released.map((stream) => this.letterId(stream));
      await this.deadLetters().deleteMany({ _id: { $in: ids } }, { session });
    }
  }

  private letterId(stream: string): string {
    return `${this.edition}:${stream}`;
  }

  documents(): Collection<StoredDocument> {
    return this.model.collection<StoredDocument>(documentsOf(this.edition));
  }

  private positions(): Collection<PositionDocument> {
    return this.model.collection<PositionDocument>(POSITIONS);
  }

  private deadLetters(): Collection<StoredDeadLetter> {
    return this.model.collection<StoredDeadLetter>(DEAD_LETTERS);
  }
}

function now(): string {
  return new Date().toISOString();
}
