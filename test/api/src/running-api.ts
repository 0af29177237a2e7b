import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { ApiModule, createHttpApp } from '#apps/api';
import { Clock, Config, createLog, StoresModule } from '#apps/platform';
import { ProjectorModule } from '#apps/projector';
import { issueToken } from '#libs/access';
import { startDocumentStore } from '#libs/embedded/document-store';
import { startEventStore } from '#libs/embedded/event-store';
import { EventStore, type StoredEvent, streamName } from '#libs/event-store';
import { Vault } from '#libs/vault';
import type { Caller } from './caller.js';

/** The time as a spec sets it. */
export class SetClock extends Clock {
  private set: number | undefined;

  override now(): number {
    return this.set ?? Date.now();
  }

  /** Stops the clock at a time, or lets it go on. */
  stopAt(time: number | undefined): void {
    this.set = time;
  }
}

export interface Sent {
  readonly as?: Caller;
  readonly body?: unknown;
  /** Sent as it stands, instead of `body`. */
  readonly raw?: string | Buffer;
  readonly headers?: Record<string, string>;
}

export interface Answer {
  readonly status: number;
  readonly headers: Record<string, string | undefined>;
  readonly body: Record<string, unknown>;
  readonly text: string;
}

/** The API on embedded engines in this process, with both projections running. */
export class RunningApi {
  private readonly tokens = new Map<string, string>();

  private constructor(
    public app: NestFastifyApplication,
    readonly clock: SetClock,
    readonly engines: { stopDocuments(): Promise<void>; stopEvents(): Promise<void> },
    private readonly build: () => Promise<NestFastifyApplication>,
    private readonly folder: string,
  ) {}

  static async start(
    settings: Record<string, string> = {},
    more: object[] = [],
    patience?: Parameters<typeof createHttpApp>[1]['patience'],
  ): Promise<RunningApi> {
    const folder = await mkdtemp(join(tmpdir(), 'waymark-api-'));
    const events = await startEventStore({ folder: join(folder, 'event-store'), port: 0 });
    const documents = await startDocumentStore({ folder: join(folder, 'document-store'), port: 0 });
    const engines = { stopDocuments: () => documents.close(), stopEvents: () => events.close() };
    const clock = new SetClock();
    const config = Config.from({
      WAYMARK_DATA: folder,
      WAYMARK_EVENTSTORE_URL: events.url,
      WAYMARK_MONGODB_URL: documents.url,
      LOG_LEVEL: 'silent',
      ...settings,
    });
    const log = createLog(config);
    class Root {}
    const build = () =>
      createHttpApp(
        {
          module: Root,
          imports: [StoresModule.with(config, log, { clock }), ApiModule, ProjectorModule, ...more],
        },
        { log, ...(patience && { patience }) },
      );
    try {
      return new RunningApi(await build(), clock, engines, build, folder);
    } catch (error) {
      await Promise.all([events.close(), documents.close()]);
      await rm(folder, { recursive: true });
      throw error;
    }
  }

  /** Ends the app, and starts another one on the same stores. */
  async restart(): Promise<void> {
    await this.app.close();
    this.app = await this.build();
  }

  async close(): Promise<void> {
    await this.app.close();
    await this.engines.stopEvents();
    await this.engines.stopDocuments();
    await rm(this.folder, { recursive: true, force: true });
  }

  async send(method: string, path: string, { as, body, raw, headers = {} }: Sent = {}): Promise<Answer> {
    const answer = await this.app.inject({
      method: method as 'GET',
      url: path,
      headers: {
        ...(as && { authorization: `Bearer ${await this.token(as)}` }),
        ...((body !== undefined || raw !== undefined) && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(raw !== undefined && { payload: raw }),
      ...(raw === undefined && body !== undefined && { payload: JSON.stringify(body) }),
    });
    const json = String(answer.headers['content-type']).includes('json');
    return {
      status: answer.statusCode,
      headers: answer.headers as Record<string, string>,
      body: json ? answer.json() : {},
      text: answer.body,
    };
  }

  /** A token of twelve hours from an hour ago, by the clock. */
  async token({ sub, role, tenant = 'acme', customerId, actFor }: Caller): Promise<string> {
    const hour = 3_600_000;
    const now = (Math.floor(this.clock.now() / hour) - 1) * hour;
    const content = {
      issuer: 'waymark',
      audience: 'waymark',
      sub,
      tenant,
      roles: [role],
      customerId,
      actFor,
      now,
    };
    const name = JSON.stringify(content);
    const known = this.tokens.get(name);
    if (known !== undefined) return known;
    const token = await issueToken(await this.app.get(Vault).signingKeys(), content);
    this.tokens.set(name, token);
    return token;
  }

  /** What is stored of a run, in order. */
  async events(runId: string, tenant = 'acme'): Promise<StoredEvent[]> {
    const found: StoredEvent[] = [];
    for await (const event of this.app.get(EventStore).read(streamName('run', tenant, runId)))
      found.push(event);
    return found;
  }
}
