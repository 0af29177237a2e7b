import { type Collection, MongoClient, MongoError, MongoServerError } from 'mongodb';
import { StoreUnavailable } from '#libs/event-store';

/**
 * What is known of a lease beside its event: how far heartbeats have extended it, and whether it was closed, by
 * its holder or by whoever resumes. It counts only for the newest lease of its stream.
 */
export interface LeaseRecord {
  readonly number: number;
  /** ISO 8601 in UTC with milliseconds. */
  readonly expiresAt: string;
  readonly closed: boolean;
}

interface StoredLease extends LeaseRecord {
  readonly _id: string;
}

const DUPLICATE_KEY = 11_000;
const ANSWER_MS = 1_500;
/** Lost only to another first record of the same stream. */
const ATTEMPTS = 5;

/**
 * The records of leases, one for a stream, in a database of their own. A record only grows: its number, within a
 * number its end, and once closed it stays closed until a newer number. Writes are conditional, so that they may
 * be sent twice, by several processes, in any order. A record that is lost costs an extension, never a lease: the
 * stream says whose it is.
 *
 * Every method throws `StoreUnavailable` when the document store does not answer.
 */
export class Leases {
  private readonly records: Collection<StoredLease>;

  private constructor(private readonly client: MongoClient) {
    this.records = client.db('leases').collection<StoredLease>('leases');
  }

  /** Ready to use; the store itself may come up later. */
  static async connect({ url }: { url: string }): Promise<Leases> {
    const client = new MongoClient(url, {
      appName: 'waymark-leases',
      writeConcern: { w: 'majority' },
      readConcern: { level: 'majority' },
      maxPoolSize: 8,
      serverSelectionTimeoutMS: ANSWER_MS,
      connectTimeoutMS: ANSWER_MS,
      waitQueueTimeoutMS: ANSWER_MS,
      heartbeatFrequencyMS: 1_000,
    });
    return new Leases(client);
  }

  async read(stream: string): Promise<LeaseRecord | undefined> {
    const found = await answered(this.records.findOne({ _id: stream }));
    return found === null ? undefined : recordOf(found);
  }

  /**
   * Extends a lease, unless it is closed, a newer one is known, or it ends later already.
   *
   * @returns the record that stands then: of that number and open, or saying why not.
   */
  async extend(stream: string, number: number, expiresAt: string): Promise<LeaseRecord> {
    const older = {
      $or: [{ number: { $lt: number } }, { number, closed: false, expiresAt: { $lt: expiresAt } }],
    };
    const record = { number, expiresAt, closed: false };
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      if (await this.write({ _id: stream, ...older }, record)) return record;
      const standing = await this.read(stream);
      const newer =
        standing && (standing.number > number || standing.closed || standing.expiresAt >= expiresAt);
      if (newer && standing.number >= number) return standing;
    }
    throw new StoreUnavailable('the record of the lease kept changing');
  }

  /**
   * Closes the lease of a number, if the record is still the one that was seen (`undefined`: there was none).
   *
   * @returns whether it was; otherwise read again and decide anew.
   */
  async close(stream: string, number: number, seen: LeaseRecord | undefined): Promise<boolean> {
    const closed = { number, expiresAt: seen?.expiresAt ?? '', closed: true };
    if (seen === undefined) return this.write({ _id: stream, number: { $lt: 0 } }, closed);
    const { modifiedCount } = await answered(
      this.records.updateOne({ _id: stream, ...seen }, { $set: closed }),
    );
    return modifiedCount === 1;
  }

  async disconnect(): Promise<void> {
    await this.client.close();
  }

  /** Writes where the condition holds or there is no record; `false` where there is another one. */
  private async write(condition: object, record: LeaseRecord): Promise<boolean> {
    try {
      await answered(this.records.updateOne(condition, { $set: record }, { upsert: true }));
      return true;
    } catch (error) {
      if (error instanceof MongoServerError && error.code === DUPLICATE_KEY) return false;
      throw error;
    }
  }
}

function recordOf({ number, expiresAt, closed }: StoredLease): LeaseRecord {
  return { number, expiresAt, closed };
}

/** Codes by which a server says that it is stopping, not yet up, or not the primary any more. */
const NOT_SERVING: readonly unknown[] = [91, 189, 10_107, 11_600, 11_602, 13_435, 13_436];

async function answered<Result>(request: Promise<Result>): Promise<Result> {
  try {
    return await request;
  } catch (error) {
    const down =
      error instanceof MongoServerError ? NOT_SERVING.includes(error.code) : error instanceof MongoError;
    if (down) throw new StoreUnavailable('the document store does not answer', { cause: error });
    throw error;
  }
}
