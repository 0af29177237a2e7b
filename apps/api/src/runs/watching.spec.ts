import { once } from 'node:events';
import { get, type IncomingMessage, type ServerResponse } from 'node:http';
import { type Caller, dana, heldRun, type HeldRun, RunningApi, customer, stranger, worker } from '#test/api';
import { Metrics } from '#apps/platform';
import { issueToken } from '#libs/access';
import { EventStore, type StoredEvent, streamName } from '#libs/event-store';
import { Vault } from '#libs/vault';
import { LiveRuns } from './live-runs.js';

/** More than the sockets of a connection hold. */
const MUCH = `: ${'.'.repeat(8_000_000)}\n\n`;

let api: RunningApi;
let url: string;
beforeAll(async () => {
  api = await RunningApi.start({ WAYMARK_WATCHERS: '160', AUTH_CLOCK_TOLERANCE_SECONDS: '0' });
  await api.app.listen(0, '127.0.0.1');
  url = await api.app.getUrl();
});
afterAll(() => api.close());

interface Told {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: Record<string, unknown>;
}

/** A client of server-sent events, as a browser or a command line would be one. */
class Client {
  private readonly chunks: AsyncIterator<string, undefined>;
  private text = '';

  private constructor(readonly response: IncomingMessage) {
    this.chunks = (response.setEncoding('utf8') as AsyncIterable<string, undefined>)[Symbol.asyncIterator]();
  }

  static async open({ path }: Pick<HeldRun, 'path'>, token: string, after?: string): Promise<Client> {
    const headers = {
      authorization: `Bearer ${token}`,
      ...(after !== undefined && { 'last-event-id': after }),
    };
    const [response] = (await once(get(`${url}${path}/events`, { agent: false, headers }), 'response')) as [
      IncomingMessage,
    ];
    return new Client(response);
  }

  /** The next so many events; fewer where it ends. */
  async take(count: number): Promise<Told[]> {
    for (;;) {
      const blocks = this.text.split('\n\n');
      const told = blocks.slice(0, -1).filter((block) => !block.startsWith(':'));
      const last = told[count - 1];
      if (last !== undefined) {
        this.text = blocks.slice(blocks.indexOf(last) + 1).join('\n\n');
        return told.slice(0, count).map(parsed);
      }
      const { value, done } = await this.chunks.next();
      if (done) return told.map(parsed);
      this.text += value;
    }
  }

  /** The whole answer, of one that ends. */
  async rest(): Promise<string> {
    for (;;) {
      const { value, done } = await this.chunks.next();
      if (done) return this.text;
      this.text += value;
    }
  }

  close(): void {
    this.response.destroy();
  }
}

function parsed(block: string): Told {
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1];
  const data = JSON.parse(field('data') ?? '{}') as Record<string, unknown>;
  return { id: field('id'), event: field('event') ?? '', data };
}

const enter = ({ path, lease }: HeldRun, phase: string) =>
  api.send('POST', `${path}/phase`, { as: worker, headers: lease, body: { phase } });
const watch = async (run: Pick<HeldRun, 'path'>, as: Caller, after?: string) =>
  Client.open(run, await api.token(as), after);
const idsOf = (told: Told[]) => told.map(({ id }) => id);

describe('watching a run', () => {
  it('tells what happened, and then what happens, each event once with its revision', async () => {
    const run = await heldRun(api);
    const client = await watch(run, dana);
    expect(client.response.headers['content-type']).toBe('text/event-stream; charset=utf-8');
    expect(await client.take(2)).toMatchObject([
      { id: '0', event: 'RunStarted', data: { revision: '0', by: 'worker-1' } },
      { id: '1', event: 'LeaseTaken', data: { text: 'worker-1 resumed the run (lease 1).' } },
    ]);
    await enter(run, 'intake');
    await enter(run, 'drafting');
    expect(idsOf(await client.take(2))).toEqual(['2', '3']);
    client.close();
  });

  it('goes on after the last event that was heard, without gap or repeat, while others write', async () => {
    const run = await heldRun(api);
    const writing = (async () => {
      for (let index = 0; index < 30; index += 1) await enter(run, `phase-${index}`);
    })();
    const heard: (string | undefined)[] = [];
    while (heard.length < 32) {
      const client = await watch(run, dana, heard.at(-1));
      heard.push(...idsOf(await client.take(Math.min(5, 32 - heard.length))));
      client.close();
    }
    await writing;
    expect(heard).toEqual(Array.from({ length: 32 }, (_, index) => String(index)));
  });

  it('is refused to whoever may not, and to a revision that is none', async () => {
    const run = await heldRun(api);
    const answers = await Promise.all([
      watch(run, customer),
      watch(run, stranger),
      watch(run, { ...dana, tenant: 'globex' }),
      watch(run, dana, 'x'),
    ]);
    expect(answers.map(({ response }) => response.statusCode)).toEqual([403, 404, 404, 400]);
    for (const answer of answers) answer.close();
  });

  it('ends when the token does, also for a client that takes nothing, which is cut off soon after', async () => {
    const run = await heldRun(api);
    const token = await issueToken(await api.app.get(Vault).signingKeys(), {
      issuer: 'waymark',
      audience: 'waymark',
      sub: 'dana',
      tenant: 'acme',
      roles: ['adjuster'],
      lifetimeSeconds: 2,
    });
    const client = await Client.open(run, token);
    expect(await client.take(2)).toHaveLength(2);
    const server = api.app.getHttpServer();
    const answering = once(server, 'request') as Promise<[IncomingMessage, ServerResponse]>;
    const stalled = await Client.open(run, token);
    const [, answer] = await answering;
    stalled.response.pause();
    while (!answer.writableNeedDrain || answer.socket?.writableLength === 0) answer.write(MUCH);
    const [ended, closed] = [once(answer, 'prefinish'), once(answer, 'close')];
    expect(await client.take(2)).toEqual([
      { id: undefined, event: 'end', data: { code: 'unauthenticated' } },
    ]);
    await ended;
    expect(api.app.get(LiveRuns).subscriptions).toBe(0);
    expect(await api.app.get(Metrics).metrics()).toMatch(/^waymark_watchers 0$/m);
    await closed;
    await expect(stalled.rest()).rejects.toThrow('aborted');
  });
});

describe('what watchers share', () => {
  it('goes on for the others when one of them throws, and is begun anew after it failed', async () => {
    const run = await heldRun(api);
    const stream = streamName('run', 'acme', run.runId);
    const live = new LiveRuns(api.app.get(EventStore));
    const told: string[] = [];
    const watcher = (name: string, hears: (event: StoredEvent) => void) => ({
      hears,
      cutOff: (error: Error) => void told.push(`${name}: ${error.message}`),
    });
    const broken = watcher('broken', () => {
      throw new Error('no words for it');
    });
    await live.watch(stream, broken);
    const heard = new Promise<StoredEvent>((resolve) => void live.watch(stream, watcher('well', resolve)));
    await enter(run, 'intake');
    expect((await heard).type).toBe('PhaseEntered');
    expect([told, live.subscriptions]).toEqual([['broken: no words for it'], 1]);
    await live.close();
  });

  it('cuts off every watcher when the subscription fails, and the next one begins another', async () => {
    const run = await heldRun(api);
    const stream = streamName('run', 'acme', run.runId);
    const events = api.app.get(EventStore);
    let fails = true;
    const failing = Object.assign(Object.create(events) as EventStore, {
      async *subscribe(options: Parameters<EventStore['subscribe']>[0]) {
        if (fails) throw new TypeError('not a subscription');
        yield* events.subscribe(options);
      },
    });
    const live = new LiveRuns(failing);
    const hears = () => undefined;
    const cut = await new Promise((cutOff) => void live.watch(stream, { hears, cutOff }));
    expect(cut).toMatchObject({ message: 'not a subscription' });
    expect(live.subscriptions).toBe(0);
    fails = false;
    const heard = new Promise<StoredEvent>((resolve, reject) => {
      void live.watch(stream, { hears: resolve, cutOff: reject }).then(() => enter(run, 'intake'));
    });
    expect((await heard).type).toBe('PhaseEntered');
    await live.close();
  });
});

describe('P43: 150 watchers', () => {
  it('hear an event over one subscription, and above the cap are told so', async () => {
    const run = await heldRun(api);
    const clients = await Promise.all(Array.from({ length: 150 }, () => watch(run, dana)));
    await Promise.all(clients.map((client) => client.take(2)));
    expect(api.app.get(LiveRuns).subscriptions).toBe(1);
    await enter(run, 'intake');
    const heard = await Promise.all(clients.map((client) => client.take(1)));
    expect(heard.flatMap(idsOf)).toEqual(Array.from({ length: 150 }, () => '2'));
    const more = await Promise.all(Array.from({ length: 10 }, () => watch(run, dana)));
    const refused = await watch(run, dana);
    expect(refused.response.statusCode).toBe(503);
    expect(JSON.parse(await refused.rest())).toMatchObject({ code: 'too-many-watchers', limit: 160 });
    for (const client of [...clients, ...more]) client.close();
  });
});

describe('closing', () => {
  it('ends every watch, telling so, and leaves no subscription', async () => {
    const own = await RunningApi.start();
    await own.app.listen(0, '127.0.0.1');
    const before = url;
    url = await own.app.getUrl();
    const run = await heldRun(own);
    const client = await Client.open(run, await own.token(dana));
    expect(await client.take(2)).toHaveLength(2);
    const live = own.app.get(LiveRuns);
    const closed = own.close();
    expect(await client.take(2)).toEqual([{ id: undefined, event: 'end', data: { code: 'closing' } }]);
    await closed;
    expect(live.subscriptions).toBe(0);
    url = before;
  });
});
