import { join } from 'node:path';
import { type DynamicModule, Global, Injectable, Module, type OnApplicationShutdown } from '@nestjs/common';
import { Conversations } from '#libs/conversations';
import { type Appends, EventStore } from '#libs/event-store';
import { Leases } from '#libs/leases';
import { Payloads } from '#libs/payloads';
import { type Credentials, type Notice, ReadModels } from '#libs/projecting';
import { MongoSnapshots } from '#libs/snapshots';
import { Vault } from '#libs/vault';
import { Clock } from './clock.js';
import { Config, StoreUsers } from '#apps/settings';
import { Log } from './logger.js';
import { Metrics } from './metrics.js';
import { RunningProjections } from './projections.js';
import { Rechecks } from './rechecks.js';

/** Where libraries tell of what went wrong and was coped with. */
export function noticeIn(log: Log): Notice {
  return (text, fields) => log.warn(fields, text);
}

/** Closes the stores once, after everything that uses them: HTTP is closed and the runners have drained by then. */
@Injectable()
class ClosingStores implements OnApplicationShutdown {
  constructor(
    private readonly store: EventStore,
    private readonly snapshots: MongoSnapshots,
    private readonly leases: Leases,
    private readonly models: ReadModels,
    private readonly log: Log,
  ) {}

  /** The event store first: it still saves snapshots. */
  async onApplicationShutdown(): Promise<void> {
    await this.store.close();
    await this.snapshots.close();
    await this.leases.disconnect();
    await this.models.close();
    this.log.info({}, 'the stores are closed');
  }
}

/** What is otherwise than by default. */
interface Otherwise {
  readonly clock?: Clock;
  /** What appends, where it is not this thread. */
  readonly appending?: (url: string) => Appends;
}

/** The stores of the process, its settings, its log, its metrics and its clock, each by its class. */
@Global()
@Module({})
export class StoresModule {
  /** @throws Error at start-up when a store's address is missing, or the key folder cannot be opened. */
  static with(config: Config, log: Log, { clock = new Clock(), appending }: Otherwise = {}): DynamicModule {
    const given = [
      { provide: Config, useValue: config },
      { provide: Log, useValue: log },
      { provide: Clock, useValue: clock },
      Metrics,
      RunningProjections,
      ...connected(appending),
      Rechecks,
    ];
    return {
      module: StoresModule,
      providers: [...given, ClosingStores],
      exports: given,
    };
  }
}

const connected = (appending: Otherwise['appending']) => [
  {
    provide: Vault,
    inject: [Config],
    useFactory: ({ dataFolder }: Config) => Vault.open({ folder: join(dataFolder, 'keys') }),
  },
  {
    provide: ReadModels,
    inject: [Config],
    useFactory: (config: Config) =>
      ReadModels.connect({ url: mongoUrl(config), credentials: credentialsOf(config) }),
  },
  {
    provide: Leases,
    inject: [Config],
    useFactory: (config: Config) => Leases.connect({ url: mongoUrl(config, 'leases') }),
  },
  {
    provide: Conversations,
    inject: [ReadModels, Vault, Config, Log],
    useFactory: (models: ReadModels, vault: Vault, { conversationDays }: Config, log: Log) =>
      new Conversations(models, vault, conversationDays, noticeIn(log)),
  },
  {
    provide: Payloads,
    inject: [ReadModels, Vault, Log],
    useFactory: (models: ReadModels, vault: Vault, log: Log) => new Payloads(models, vault, noticeIn(log)),
  },
  {
    provide: MongoSnapshots,
    inject: [Config],
    useFactory: (config: Config) => MongoSnapshots.connect({ url: mongoUrl(config, 'snapshots') }),
  },
  {
    provide: EventStore,
    inject: [Config, Vault, MongoSnapshots, Payloads, Log],
    useFactory: (config: Config, vault: Vault, snapshots: MongoSnapshots, payloads: Payloads, log: Log) =>
      EventStore.connect({
        url: eventStoreUrl(config),
        appends: appending?.(eventStoreUrl(config)),
        vault,
        snapshots,
        payloads,
        maxAppendBytes: config.appendLimit,
        cachedStreams: config.cachedStreams,
        onNotice: noticeIn(log),
      }),
  },
];

/** The address of the document store; for a database, as its writer. */
function mongoUrl(config: Config, database?: string): string {
  const { mongoUrl: url } = config;
  if (url === undefined) throw new Error('WAYMARK_MONGODB_URL is not set, and no document store was started');
  const credentials = database === undefined ? undefined : credentialsOf(config)?.(database, 'writer');
  if (database === undefined || !credentials) return url;
  const address = new URL(url);
  address.username = encodeURIComponent(credentials.username);
  address.password = encodeURIComponent(credentials.password);
  address.searchParams.set('authSource', database);
  return address.href;
}

function credentialsOf({ mongoUsersFile }: Config): Credentials | undefined {
  if (mongoUsersFile === undefined) return undefined;
  const users = StoreUsers.read(mongoUsersFile);
  return (database, access) => users.credentials(database, access);
}

function eventStoreUrl({ eventStoreUrl: url }: Config): string {
  if (url === undefined) throw new Error('WAYMARK_EVENTSTORE_URL is not set, and no event store was started');
  return url;
}
