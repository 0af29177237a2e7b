import {
  type ClientSession,
  type Collection,
  type Document,
  MongoClient,
  type MongoClientOptions,
  MongoError,
  MongoServerError,
} from 'mongodb';

/** The document store does not answer. Nothing was read; what was being written may or may not stand. */
export class ReadModelUnavailable extends Error {
  override readonly name = 'ReadModelUnavailable';
}

/** Whether a database is opened to write it or only to read it. */
export type Access = 'writer' | 'reader';

/** Who opens a database for what: each has a user of its own. */
export type Credentials = (
  database: string,
  access: Access,
) => { readonly username: string; readonly password: string };

/**
 * The one opener of read-model databases: each model has a database of its own name, reached only through
 * `openReadModel(name)`. Longs are `bigint`; writes are acknowledged by a majority.
 *
 * The server may be down when this connects and come and go later: whatever is asked meanwhile fails with
 * `ReadModelUnavailable` within about two seconds.
 */
export class ReadModels {
  private lost = false;
  /** Fails the reads under way. */
  private readonly underWay = new Set<() => void>();

  /** One for each database and access, where there are credentials; they connect when first used. */
  private readonly clients = new Map<string, MongoClient>();

  private constructor(
    private readonly client: MongoClient,
    private readonly url: string,
    private readonly credentials: Credentials | undefined,
  ) {
    this.watch(client);
  }

  /** Whichever client finds the server gone, or back, has found it for all. */
  private watch(client: MongoClient): void {
    client.on('topologyDescriptionChanged', ({ newDescription }) => {
      const servers = [...newDescription.servers.values()];
      if (servers.some(({ type }) => WRITABLE.has(type))) this.lost = false;
      else if (servers.some(({ error }) => error !== null)) this.lost = true;
      if (this.lost) for (const fail of this.underWay) fail();
    });
  }

  /** With `credentials` every database is opened by its own writer and its own reader, without them by what `url` says. */
  static async connect({
    url,
    credentials,
  }: {
    url: string;
    credentials?: Credentials | undefined;
  }): Promise<ReadModels> {
    const client = new MongoClient(url, { ...OPTIONS, heartbeatFrequencyMS: 1_000 });
    const models = new ReadModels(client, url, credentials);
    await client.connect().catch((error: unknown) => {
      if (!isUnavailable(error)) throw error;
    });
    return models;
  }

  /** The database of a read model. Its name is the model's, and there is no other way to it. */
  openReadModel(name: string, access: Access = 'writer'): ReadModel {
    return new ReadModel(this.clientOf(name, access), name);
  }

  private clientOf(name: string, access: Access): MongoClient {
    if (!this.credentials) return this.client;
    const key = `${name}/${access}`;
    const known = this.clients.get(key);
    if (known) return known;
    const auth = this.credentials(name, access);
    const client = new MongoClient(this.url, { ...OPTIONS, auth, authSource: name });
    this.watch(client);
    this.clients.set(key, client);
    return client;
  }

  /**
   * What a reader asks of a read model. It fails as soon as the server is known to be gone, so that whoever has
   * another way loses no time, and does not wait for it to come back; the driver looks for it every second.
   * @throws ReadModelUnavailable
   */
  async read<Result>(ask: () => Promise<Result>): Promise<Result> {
    if (this.lost) throw down();
    return new Promise((resolve, reject) => {
      const fail = () => reject(down());
      this.underWay.add(fail);
      answered(ask())
        .then(resolve, reject)
        .finally(() => this.underWay.delete(fail));
    });
  }

  async ping(): Promise<void> {
    await answered(this.client.db('admin').command({ ping: 1 }));
  }

  /** Ends all connections; reads and writes under way fail. */
  async close(): Promise<void> {
    await Promise.all([this.client, ...this.clients.values()].map((client) => client.close()));
  }
}

const OPTIONS: MongoClientOptions = {
  appName: 'waymark',
  useBigInt64: true,
  ignoreUndefined: true,
  writeConcern: { w: 'majority' },
  readConcern: { level: 'majority' },
  maxPoolSize: 16,
  waitQueueTimeoutMS: 2_000,
  serverSelectionTimeoutMS: 1_500,
  connectTimeoutMS: 1_500,
  socketTimeoutMS: 10_000,
};

const WRITABLE = new Set(['RSPrimary', 'Standalone', 'Mongos', 'LoadBalancer']);

const COMMIT_ATTEMPTS = 3;

/** One read model's database. */
export class ReadModel {
  constructor(
    private readonly client: MongoClient,
    readonly name: string,
  ) {}

  collection<Doc extends Document>(collection: string): Collection<Doc> {
    return this.client.db(this.name).collection<Doc>(collection);
  }

  /**
   * Makes a collection whose documents a validator has to hold for, or gives the one that is there this validator;
   * with `expires`, the store removes each document once the date in that field has passed. Repeated, nothing changes.
   */
  async define(collection: string, validator: Document, expires?: string): Promise<void> {
    const database = this.client.db(this.name);
    try {
      await whereOffered(database.createCollection(collection, { validator }));
    } catch (error) {
      if (!(error instanceof MongoServerError && error.code === NAMESPACE_EXISTS)) throw error;
      await database.command({ collMod: collection, validator });
    }
    if (expires === undefined) return;
    await whereOffered(
      database.collection(collection).createIndex({ [expires]: 1 }, { expireAfterSeconds: 0 }),
    );
  }

  /** Drops a collection, if there is one. */
  async remove(collection: string): Promise<void> {
    await this.collection(collection)
      .drop()
      .catch((error: unknown) => {
        if (!(error instanceof MongoServerError && error.code === NAMESPACE_NOT_FOUND)) throw error;
      });
  }

  /**
   * Runs writes as one transaction with majority: all of them stand or none. One that lost a conflict is run
   * again, three times at most, so `work` must write the same each time.
   *
   * @throws ReadModelUnavailable when the server does not answer; whether the commit stands is unknown then.
   */
  async transaction(work: (session: ClientSession) => Promise<void>): Promise<void> {
    const session = this.client.startSession();
    try {
      for (let attempt = 1; ; attempt += 1) {
        try {
          await answered(this.attempt(session, work));
          return;
        } catch (error) {
          const transient = error instanceof MongoError && error.hasErrorLabel('TransientTransactionError');
          if (!transient || attempt === COMMIT_ATTEMPTS) throw error;
        }
      }
    } finally {
      await session.endSession();
    }
  }

  private async attempt(
    session: ClientSession,
    work: (session: ClientSession) => Promise<void>,
  ): Promise<void> {
    session.startTransaction({ writeConcern: { w: 'majority' } });
    try {
      await work(session);
    } catch (error) {
      await session.abortTransaction();
      throw error;
    }
    await session.commitTransaction();
  }
}

const NAMESPACE_NOT_FOUND = 26;
const NAMESPACE_EXISTS = 48;
const NOT_IMPLEMENTED = 238;

/** The embedded document store does without validators and expiry; whoever relies on either filters what it reads. */
async function whereOffered(request: Promise<unknown>): Promise<void> {
  await request.catch((error: unknown) => {
    if (!(error instanceof MongoServerError && error.code === NOT_IMPLEMENTED)) throw error;
  });
}

function down(cause?: unknown): ReadModelUnavailable {
  return new ReadModelUnavailable('the document store is down', { cause });
}

/** The answer of the document store, with every way of not answering as `ReadModelUnavailable`. */
export async function answered<Result>(request: Promise<Result>): Promise<Result> {
  try {
    return await request;
  } catch (error) {
    if (isUnavailable(error)) throw down(error);
    throw error;
  }
}

/** Codes by which a server says that it is stopping, not yet up, or not the primary any more. */
const NOT_SERVING = new Set<unknown>([91, 189, 10107, 11600, 11602, 13435, 13436]);

function isUnavailable(error: unknown): boolean {
  if (error instanceof MongoServerError) return NOT_SERVING.has(error.code);
  return (
    error instanceof MongoError &&
    /^Mongo(Network|ServerSelection|Topology|PoolCleared|WaitQueueTimeout|NotConnected|ServerClosed)/.test(
      error.name,
    )
  );
}
