import { LRUCache } from 'lru-cache';
import { canonicalJson, type Json, sha256 } from '#libs/canonical';
import { PayloadMissing } from '#libs/event-store';
import { answered, type Notice, type ReadModel, type ReadModels } from '#libs/projecting';
import { Unopenable, type Vault } from '#libs/vault';
import { Binary } from 'mongodb';

/** Where a payload is: the SHA-256 of its sealed bytes, and how many they are. */
export interface Payload {
  readonly digest: string;
  readonly bytes: number;
}

interface StoredPayload {
  /** `<tenant>.<digest>` */
  readonly _id: string;
  readonly tenant: string;
  readonly customerId: string;
  /** Streams that may come to cite it: it was put for them, and whether they do has not been looked up since. */
  readonly pending: string[];
  /** Streams that were seen to cite it. */
  readonly streams: string[];
  /** When it was last put or kept for a stream. */
  readonly touchedAt: Date;
  readonly sealed: Binary;
}

type CitedBy = (stream: string) => Promise<ReadonlySet<string>>;

const NAME = 'payloads';
const CACHED_BYTES = 64 * 1024 * 1024;
const SWEPT_AT_ONCE = 100;

/**
 * What is too large for an event, sealed with the customer's run key, under the digest of the sealed bytes: two that
 * say the same have different digests, and a digest tells nothing.
 *
 * A payload is durable before an event cites it. A crash between the two leaves one that nobody cites: `sweep` finds
 * it by reading the streams that it was put for, and removes it. Forks share a payload: each keeps it for its own
 * stream first, and it goes with the last of them.
 *
 * Every method throws `ReadModelUnavailable` when the document store does not answer.
 */
export class Payloads {
  private readonly model: ReadModel;
  private readonly recent = new LRUCache<string, { state: Json; customerId: string }>({
    maxSize: CACHED_BYTES,
  });
  private prepared: Promise<void> | undefined;

  constructor(
    models: ReadModels,
    private readonly vault: Vault,
    private readonly notice: Notice,
  ) {
    this.model = models.openReadModel(NAME);
  }

  /** Stores a value for a stream that will cite it. When this returns, it survives a crash. */
  async put(tenant: string, customerId: string, stream: string, state: Json, at: Date): Promise<Payload> {
    await this.prepare();
    const keys = await this.vault.person(tenant, customerId);
    const text = Buffer.from(canonicalJson(state), 'utf8');
    const sealed = keys.sealBytes('run', text, placeOf(tenant, customerId));
    const digest = sha256(sealed);
    const _id = idOf(tenant, digest);
    const stored = { _id, tenant, customerId, pending: [stream], streams: [], touchedAt: at };
    await answered(this.payloads().insertOne({ ...stored, sealed: new Binary(sealed) }));
    this.recent.set(_id, { state, customerId }, { size: text.length });
    return { digest, bytes: sealed.length };
  }

  /**
   * The value under a digest: the caller's to read, not to change. Nothing is answered from memory unless the
   * customer's key is there.
   *
   * @throws PayloadMissing
   */
  async open(tenant: string, { digest }: Payload): Promise<Json> {
    const _id = idOf(tenant, digest);
    const known = this.recent.get(_id);
    if (known && (await this.vault.person(tenant, known.customerId)).lacks('run') === undefined)
      return known.state;
    this.recent.delete(_id);
    const found = await answered(this.payloads().findOne({ _id }));
    if (found === null) throw new PayloadMissing(`there is no payload ${digest}`);
    const { customerId, sealed } = found;
    const keys = await this.vault.person(tenant, customerId);
    try {
      const text = keys.openBytes('run', sealed.buffer, placeOf(tenant, customerId));
      const state = JSON.parse(text.toString('utf8')) as Json;
      this.recent.set(_id, { state, customerId }, { size: Math.max(text.length, 1) });
      return state;
    } catch (error) {
      if (!(error instanceof Unopenable)) throw error;
      throw new PayloadMissing(`the payload ${digest} cannot be opened: ${error.code}`);
    }
  }

  /** Keeps a payload for another stream that will cite it. @throws PayloadMissing */
  async keep(tenant: string, { digest }: Payload, stream: string, at: Date): Promise<void> {
    const { matchedCount } = await answered(
      this.payloads().updateOne(
        { _id: idOf(tenant, digest) },
        { $addToSet: { pending: stream }, $set: { touchedAt: at } },
      ),
    );
    if (matchedCount === 0) throw new PayloadMissing(`there is no payload ${digest}`);
  }

  /** Lets go of everything that a stream cites, when the stream is erased. */
  async release(tenant: string, stream: string): Promise<void> {
    await this.prepare();
    const of = { tenant, $or: [{ pending: stream }, { streams: stream }] };
    const ids = (
      await answered(
        this.payloads()
          .find(of, { projection: { _id: 1 } })
          .toArray(),
      )
    ).map(({ _id }) => _id);
    await answered(
      this.payloads().updateMany({ _id: { $in: ids } }, { $pull: { pending: stream, streams: stream } }),
    );
    await answered(this.payloads().deleteMany({ _id: { $in: ids }, pending: [], streams: [] }));
    for (const id of ids) this.recent.delete(id);
  }

  /**
   * Looks up whether the streams that payloads were put for before a time cite them, and removes what nobody does.
   * That time must lie further back than any command takes. Works through batches, and looks each stream of one up once.
   *
   * @param citedBy the digests that a stream cites, as it now stands.
   * @returns how many were removed.
   * @throws the reason of `signal` once that is aborted; what is left is looked at next time.
   */
  async sweep(before: Date, citedBy: CitedBy, signal?: AbortSignal): Promise<number> {
    await this.prepare();
    const waiting = { 'pending.0': { $exists: true }, touchedAt: { $lt: before } };
    let removed = 0;
    for (;;) {
      const found = await answered(
        this.payloads()
          .find(waiting, { projection: { pending: 1, touchedAt: 1, tenant: 1 } })
          .limit(SWEPT_AT_ONCE)
          .toArray(),
      );
      const cited = new Map<string, ReadonlySet<string>>();
      for (const stream of new Set(found.flatMap(({ pending }) => pending))) {
        signal?.throwIfAborted();
        cited.set(stream, await citedBy(stream));
      }
      for (const payload of found) {
        signal?.throwIfAborted();
        removed += await this.settle(payload, cited);
      }
      if (found.length < SWEPT_AT_ONCE) break;
    }
    if (removed > 0) this.notice('payloads that no event cites were removed', { removed });
    return removed;
  }

  /** Nothing is taken from one that was kept for another stream meanwhile: it is looked at again next time. */
  private async settle(
    { _id, pending, touchedAt }: Pick<StoredPayload, '_id' | 'pending' | 'touchedAt'>,
    citedBy: ReadonlyMap<string, ReadonlySet<string>>,
  ): Promise<number> {
    const digest = _id.slice(_id.indexOf('.') + 1);
    const cited = pending.filter((stream) => citedBy.get(stream)?.has(digest));
    await answered(
      this.payloads().updateOne(
        { _id, touchedAt },
        { $set: { pending: [] }, $addToSet: { streams: { $each: cited } } },
      ),
    );
    const { deletedCount } = await answered(
      this.payloads().deleteOne({ _id, touchedAt, pending: [], streams: [] }),
    );
    return deletedCount;
  }

  private async prepare(): Promise<void> {
    this.prepared ??= answered(this.index());
    try {
      await this.prepared;
    } catch (error) {
      this.prepared = undefined;
      throw error;
    }
  }

  private async index(): Promise<void> {
    await this.payloads().createIndex({ tenant: 1, customerId: 1 });
    await this.payloads().createIndex({ pending: 1 });
    await this.payloads().createIndex({ streams: 1 });
  }

  private payloads() {
    return this.model.collection<StoredPayload>('payloads');
  }
}

function idOf(tenant: string, digest: string): string {
  return `${tenant}.${digest}`;
}

/** Not of one stream: forks of a customer's run share it. */
function placeOf(tenant: string, customerId: string): string {
  return `${NAME}/${tenant}/${customerId}`;
}
