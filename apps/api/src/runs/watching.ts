import { type BeforeApplicationShutdown, Injectable } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Gauge } from 'prom-client';
import { CheckpointQueries } from '#projections/current-checkpoints';
import { Config, Log, Metrics } from '#apps/platform';
import { EventStore, StoreUnavailable, type StoredEvent, streamName } from '#libs/event-store';
import type { Call } from '../calls.js';
import { Problem } from '../problems.js';
import { Understanding } from '../understanding.js';
import { LiveRuns, type Watcher } from './live-runs.js';
import { runFor } from './runs.queries.js';
import { runIdOf } from './runs.js';
import { entryOf } from './timeline.js';

const HEARTBEAT_MS = 15_000;
/** How long a client may take to take its end. */
const LONGEST_END_MS = 2_000;
const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  connection: 'close',
  'x-accel-buffering': 'no',
};

/** Server-sent events of runs (HTML standard, 9.2): each event of the stream once, its revision as its id. */
@Injectable()
export class Watching implements BeforeApplicationShutdown {
  private readonly watches = new Set<Watch>();
  private closing = false;

  constructor(
    private readonly live: LiveRuns,
    private readonly store: EventStore,
    private readonly queries: CheckpointQueries,
    private readonly understanding: Understanding,
    private readonly config: Config,
    private readonly log: Log,
    metrics: Metrics,
  ) {
    const { watches } = this;
    new Gauge({
      name: 'waymark_watchers',
      help: 'Clients that watch a run.',
      registers: [metrics],
      collect() {
        this.set(watches.size);
      },
    });
  }

  /** Answers with what happened after a revision, and then with what happens; returns once the client is served. */
  async begin(call: Call, after: bigint, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { customerId } = (await runFor(call, this.queries)).doc;
    if (this.closing || this.watches.size >= this.config.watcherLimit) throw this.full();
    const stream = streamName('run', call.who.tenant, runIdOf(call));
    const watch = new Watch(reply, after + 1n, (from) => this.store.read(stream, { from }));
    this.watches.add(watch);
    try {
      const leave = await this.live.watch(stream, watch);
      const stillMay = async () => {
        await this.understanding.identify(request);
        return call.judge({ customerId }) === 'yes';
      };
      void watch.ended.then(leave);
      if (this.closing) throw this.full();
      if (watch.isOver) throw new StoreUnavailable('what is appended cannot be heard');
      watch.serve(stillMay, call.who.expiresAt + this.config.auth.toleranceSeconds * 1000);
    } catch (error) {
      this.watches.delete(watch);
      throw error;
    }
    void watch.ended.then((failure) => {
      this.watches.delete(watch);
      if (failure) this.log.warn({ error: String(failure) }, 'a client that watched a run was cut off');
    });
  }

  private full(): Problem {
    const limit = this.config.watcherLimit;
    const detail = `As many clients watch as this process takes: ${limit}.`;
    return new Problem('too-many-watchers', detail, { limit }, { 'retry-after': '5' });
  }

  /** Before the server closes: it waits for every answer to end. */
  async beforeApplicationShutdown(): Promise<void> {
    this.closing = true;
    for (const watch of this.watches) watch.end('closing');
    await this.live.close();
  }
}

/**
 * One client. What it is sent follows from one number, the revision that comes next: an event of that revision is
 * sent as it is heard; after a gap, and whenever the client has taken what was sent, the stream is read from there.
 * So nothing is kept for a slow client beyond what its socket holds.
 */
class Watch implements Watcher {
  /** With what failed, where something did. */
  readonly ended: Promise<Error | undefined>;
  private finish: (failure?: Error) => void = () => undefined;
  private reading = true;
  private more = false;
  private over = false;
  private beat: NodeJS.Timeout | undefined;
  private expiry: NodeJS.Timeout | undefined;

  constructor(
    private readonly reply: FastifyReply,
    private next: bigint,
    private readonly read: (from: bigint) => AsyncIterable<StoredEvent>,
  ) {
    this.ended = new Promise((resolve) => (this.finish = resolve));
  }

  get isOver(): boolean {
    return this.over;
  }

  /** @param stillMay asked with every heartbeat and when the token ends: false or a throw ends the watch. */
  serve(stillMay: () => Promise<boolean>, tokenEndsAt: number): void {
    const { raw } = this.reply.hijack();
    if (raw.destroyed) return this.release();
    raw.writeHead(200, HEADERS);
    const check = () =>
      stillMay().then(
        (may) => (may ? this.send(': still here\n\n') : this.end('not-permitted')),
        () => this.end('unauthenticated'),
      );
    this.beat = setInterval(() => void check(), HEARTBEAT_MS);
    const longest = 2 ** 31 - 1;
    const left = Math.min(Math.max(tokenEndsAt - Date.now(), 0) + 1, longest);
    this.expiry = setTimeout(() => void check(), left);
    raw.once('close', () => this.release());
    raw.on('error', () => raw.destroy());
    void this.catchUp();
  }

  hears(event: StoredEvent): void {
    if (this.over || event.revision < this.next) return;
    if (this.reading) this.more = true;
    else if (event.revision > this.next || !this.tell(event)) void this.catchUp();
  }

  /** Says why, in an event of its own, and closes; a client that takes nothing is cut off two seconds later. */
  end(code: string): void {
    if (this.over) return;
    this.release();
    const { raw } = this.reply;
    if (!raw.headersSent) return;
    const late = setTimeout(() => raw.destroy(), LONGEST_END_MS);
    raw.once('close', () => clearTimeout(late));
    raw.end(`event: end\ndata: ${JSON.stringify({ code })}\n\n`);
  }

  cutOff(error: Error): void {
    if (this.over) return;
    this.release(error);
    if (this.reply.raw.headersSent) this.reply.raw.destroy();
  }

  /** Gives its place back, whatever the client still has to take. */
  private release(error?: Error): void {
    this.over = true;
    clearInterval(this.beat);
    clearTimeout(this.expiry);
    this.finish(error);
  }

  private async catchUp(): Promise<void> {
    this.reading = true;
    try {
      do {
        this.more = false;
        await this.taken();
        for await (const event of this.read(this.next)) {
          if (this.over) return;
          if (event.revision >= this.next && !this.tell(event)) await this.taken();
        }
      } while (this.more && !this.over);
      this.reading = false;
    } catch (error) {
      this.cutOff(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** @returns whether the client can take more at once. */
  private tell(event: StoredEvent): boolean {
    this.next = event.revision + 1n;
    const { type, revision, ...rest } = entryOf(event);
    return this.send(
      `id: ${revision}\nevent: ${type}\ndata: ${JSON.stringify({ revision, type, ...rest })}\n\n`,
    );
  }

  private send(text: string): boolean {
    return this.over || this.reply.raw.write(text);
  }

  private async taken(): Promise<void> {
    const { raw } = this.reply;
    if (!raw.writableNeedDrain) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        raw.off('drain', done).off('close', done);
        resolve();
      };
      raw.on('drain', done).on('close', done);
    });
  }
}
