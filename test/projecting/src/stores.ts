import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EventStoreDBClient, jsonEvent, NO_STREAM } from '@eventstore/db-client';
import { startDocumentStore } from '#libs/embedded/document-store';
import { startEventStore } from '#libs/embedded/event-store';
import { EventStore } from '#libs/event-store';
import { ReadModels, type Stores } from '#libs/projecting';
import { Vault } from '#libs/vault';

/** An event as a test writes it: nothing sealed, nothing chained, its envelope as odd as wanted. */
export interface RawEvent {
  readonly type: string;
  readonly data: Record<string, unknown>;
  readonly at?: string;
  readonly schemaVersion?: number;
}

export interface Told {
  readonly text: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Both engines in a temporary folder, with everything that projecting works with connected to them. */
export class TestStores implements Stores {
  readonly told: Told[] = [];
  private readonly telling = new EventEmitter();
  private readonly next = new Map<string, bigint>();

  private constructor(
    readonly log: EventStore,
    readonly vault: Vault,
    readonly models: ReadModels,
    private readonly raw: EventStoreDBClient,
    private readonly engines: {
      readonly folder: string;
      readonly events: Awaited<ReturnType<typeof startEventStore>>;
      documents: Awaited<ReturnType<typeof startDocumentStore>>;
    },
  ) {}

  static async start(): Promise<TestStores> {
    const folder = await mkdtemp(join(tmpdir(), 'waymark-projecting-'));
    const events = await startEventStore({ folder: join(folder, 'event-store'), port: 0 });
    const documents = await startDocumentStore({ folder: join(folder, 'document-store'), port: 0 });
    const vault = await Vault.open({ folder: join(folder, 'keys') });
    const url = `esdb://127.0.0.1:${events.port}?tls=false`;
    const log = await EventStore.connect({ url, vault });
    const models = await ReadModels.connect({ url: documents.url });
    const raw = EventStoreDBClient.connectionString(url);
    return new TestStores(log, vault, models, raw, { folder, events, documents });
  }

  /** The settings by which an app uses the same stores. */
  get environment(): Record<string, string> {
    const { folder, events, documents } = this.engines;
    return {
      WAYMARK_DATA: folder,
      WAYMARK_EVENTSTORE_URL: events.url,
      WAYMARK_MONGODB_URL: documents.url,
    };
  }

  readonly notice = (text: string, fields: Told['fields']): void => {
    this.told.push({ text, fields });
    this.telling.emit(text, fields);
  };

  /** The next time that something is told with this text. */
  async tells(text: string): Promise<Told['fields']> {
    const [fields] = (await once(this.telling, text)) as [Told['fields']];
    return fields;
  }

  /** Appends past every rule. Gives the position of the last event. */
  async append(stream: string, ...events: RawEvent[]): Promise<bigint> {
    const from = this.next.get(stream) ?? 0n;
    const written = events.map(({ type, data, at = '2026-03-01T09:00:00.000Z', schemaVersion = 1 }) =>
      jsonEvent({
        id: randomUUID(),
        type,
        data,
        metadata: { commandId: 'raw', recordedAt: at, schemaVersion },
      }),
    );
    const { position } = await this.raw.appendToStream(stream, written, {
      expectedRevision: from === 0n ? NO_STREAM : from - 1n,
    });
    this.next.set(stream, from + BigInt(events.length));
    return position?.commit ?? 0n;
  }

  /** Takes a customer's key of a kind away, or a byte of it; whoever read it before has it still. */
  async spoilKey(customerId: string, kind: string, how: 'erased' | 'damaged'): Promise<void> {
    const file = join(this.engines.folder, 'keys', 'people', 'acme', `${customerId}.${kind}.key`);
    const text = await readFile(file, 'utf8');
    if (how === 'erased') await rm(file);
    else await writeFile(file, text.replace(/.{8}\n$/, 'AAAAAAAA\n'));
  }

  /** The log as another process has it, with keys that it reads anew. */
  async another(): Promise<{ log: EventStore; vault: Vault; close(): Promise<void> }> {
    const vault = await Vault.open({ folder: join(this.engines.folder, 'keys') });
    const log = await EventStore.connect({ url: this.engines.events.url, vault });
    return { log, vault, close: () => log.close() };
  }

  /** Deletes a stream for ever. */
  async tombstone(stream: string): Promise<void> {
    await this.raw.tombstoneStream(stream);
  }

  async stopDocuments(): Promise<void> {
    await this.engines.documents.close();
  }

  async startDocumentsAgain(): Promise<void> {
    const { folder, documents } = this.engines;
    const again = { folder: join(folder, 'document-store'), port: documents.port };
    this.engines.documents = await startDocumentStore(again);
  }

  async close(): Promise<void> {
    await this.models.close();
    await this.log.close();
    await this.raw.dispose();
    await this.engines.events.close();
    await this.engines.documents.close();
    await rm(this.engines.folder, { recursive: true });
  }
}
