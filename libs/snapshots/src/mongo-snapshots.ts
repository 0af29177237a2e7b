import { Binary, type Collection, MongoClient, MongoServerError } from 'mongodb';
import type { Snapshot, Snapshots } from '#libs/event-store';

interface StoredSnapshot {
  readonly _id: string;
  readonly revision: bigint;
  readonly position: bigint;
  readonly foldVersion: number;
  readonly digest: string;
  readonly customerId: string;
  readonly sealed: Binary;
}

const ANSWER_MS = 1_500;
const DUPLICATE_KEY = 11_000;

/**
 * The snapshots of streams, one document for each, in the database `snapshots`: a cache of the event store, which
 * may be dropped at any moment. Its content is sealed under each customer's run key before it comes here.
 *
 * Saving is one conditional upsert: two processes may save in any order, and the later revision stays. A store that
 * is down costs a folded stream, and makes `load` and `save` fail within about two seconds.
 */
export class MongoSnapshots implements Snapshots {
  private readonly snapshots: Collection<StoredSnapshot>;

  private constructor(private readonly client: MongoClient) {
    this.snapshots = client.db('snapshots').collection<StoredSnapshot>('snapshots');
  }

  /** Ready to use; the store itself may come up later. */
  static async connect({ url }: { url: string }): Promise<MongoSnapshots> {
    const client = new MongoClient(url, {
      appName: 'waymark-snapshots',
      useBigInt64: true,
      maxPoolSize: 4,
      serverSelectionTimeoutMS: ANSWER_MS,
      connectTimeoutMS: ANSWER_MS,
      waitQueueTimeoutMS: ANSWER_MS,
      socketTimeoutMS: 10_000,
    });
    return new MongoSnapshots(client);
  }

  async load(stream: string): Promise<Snapshot | undefined> {
    const found = await this.snapshots.findOne({ _id: stream });
    if (found === null) return undefined;
    const { _id, sealed, foldVersion, ...rest } = found;
    return { ...rest, stream: _id, foldVersion: Number(foldVersion), sealed: sealed.buffer };
  }

  /** Replaces one of an earlier revision or of another fold version; otherwise leaves the one that stands. */
  async save({ stream, sealed, ...rest }: Snapshot): Promise<void> {
    const replaceable = [{ revision: { $lt: rest.revision } }, { foldVersion: { $ne: rest.foldVersion } }];
    try {
      await this.snapshots.updateOne(
        { _id: stream, $or: replaceable },
        { $set: { ...rest, sealed: new Binary(sealed) } },
        { upsert: true },
      );
    } catch (error) {
      if (error instanceof MongoServerError && error.code === DUPLICATE_KEY) return;
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.client.close();
  }
}
