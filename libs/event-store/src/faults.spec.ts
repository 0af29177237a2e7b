import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, type Server, type Socket, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEventStore } from '#libs/embedded/event-store';
import { Vault } from '#libs/vault';
import { add, call, counter, open } from './examples.js';
import { type Delivery, EventStore, StoreUnavailable, type StoredEvent, verifyChain } from './index.js';

/** Stands between a client and the store; can lose what either says, and cut the line. */
class Line {
  private readonly sockets = new Set<Socket>();
  private lost: 'questions' | 'answers' | 'nothing' = 'nothing';
  private losing = 0;

  private constructor(
    private readonly server: Server,
    private readonly target: number,
  ) {
    server.on('connection', (near) => {
      const far = connect(this.target, '127.0.0.1').setNoDelay();
      near.setNoDelay();
      near.on('data', (bytes) => {
        if (this.lost !== 'questions') far.write(bytes);
        else if ((this.losing -= bytes.length) <= 0) this.cut();
      });
      far.on('data', (bytes) => this.lost !== 'answers' && near.write(bytes));
      const ends = [
        [near, far],
        [far, near],
      ] as const;
      for (const [one, other] of ends) {
        this.sockets.add(one);
        one.on('error', () => other.destroy());
        one.on('close', () => {
          other.destroy();
          this.sockets.delete(one);
        });
      }
    });
  }

  static async to(target: number): Promise<Line> {
    const server = createServer();
    const line = new Line(server, target);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return line;
  }

  get url(): string {
    return `esdb://127.0.0.1:${(this.server.address() as AddressInfo).port}?tls=false`;
  }

  loseAnswers(): void {
    this.lost = 'answers';
  }

  /** Loses what clients say from now on, and cuts the line after so many bytes of it. */
  loseQuestions(bytes: number): void {
    this.lost = 'questions';
    this.losing = bytes;
  }

  /** Cuts all connections; new ones work. */
  cut(): void {
    this.lost = 'nothing';
    for (const socket of this.sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

let folder: string;
let server: Awaited<ReturnType<typeof startEventStore>>;
let vault: Vault;
let line: Line;
let direct: EventStore;
let store: EventStore;
/** Appends nothing: what is pending in one client of a process fails with the batch stream of another. */
let listener: EventStore;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waymark-faults-'));
  server = await startEventStore({ folder: join(folder, 'events'), port: 0 });
  vault = await Vault.open({ folder: join(folder, 'keys') });
  line = await Line.to(server.port);
  direct = await EventStore.connect({ url: server.url, vault });
  store = await EventStore.connect({ url: line.url, vault, answerMs: 1000 });
  listener = await EventStore.connect({ url: line.url, vault, answerMs: 1000 });
});

afterAll(async () => {
  await listener.close();
  await store.close();
  await direct.close();
  await line.close();
  await server.close();
  await rm(folder, { recursive: true, force: true });
});

afterEach(() => line.cut());

async function opened(): Promise<string> {
  const id = randomUUID();
  await store.handle(counter, open(id));
  return id;
}

async function createdDirectly(): Promise<string> {
  const id = randomUUID();
  await direct.handle(counter, open(id));
  return id;
}

async function eventsOf(id: string): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const event of direct.read(`counter-acme.${id}`)) events.push(event);
  return events;
}

/** Resolves when an event of that stream, at that revision, is in the store. */
async function stored(id: string, revision: bigint): Promise<void> {
  const done = new AbortController();
  for await (const delivery of direct.subscribe({
    prefix: `counter-acme.${id}`,
    after: 'start',
    signal: done.signal,
  }))
    if (delivery.kind === 'event' && delivery.event.revision >= revision) done.abort();
}

describe('an append whose answer is lost', () => {
  it('has one effect and the right answer when it was written', async () => {
    const id = await opened();
    line.loseAnswers();
    const handling = store.handle(counter, call(id, { type: 'Add', amounts: [2], note: 'sealed' }));
    await stored(id, 1n);
    line.cut();
    const [, event] = await eventsOf(id);
    expect(await handling).toEqual({
      answer: 2,
      revision: 1n,
      position: event!.position,
      replayed: false,
      appended: 1,
      created: false,
    });
    expect(await store.handle(counter, add(id, 1))).toMatchObject({ answer: 3, revision: 2n });
    expect(await verifyChain(await eventsOf(id))).toMatchObject({ verdict: 'intact', events: 3 });
  });

  it('is sent again when it was not written', async () => {
    const id = await opened();
    line.loseQuestions(200);
    const handling = store.handle(counter, add(id, 2));
    expect(await handling).toMatchObject({ answer: 2, revision: 1n, appended: 1 });
    expect(await verifyChain(await eventsOf(id))).toMatchObject({ verdict: 'intact', events: 2 });
  });

  it('is given up as unavailable when the store says nothing, and has one effect when sent again', async () => {
    const id = await opened();
    const command = add(id, 2);
    line.loseAnswers();
    const handling = store.handle(counter, command);
    await expect(handling).rejects.toThrow(StoreUnavailable);
    await stored(id, 1n);
    line.cut();
    expect(await store.handle(counter, command)).toMatchObject({ answer: 2, revision: 1n, replayed: true });
    expect(await store.handle(counter, add(id, 1))).toMatchObject({ answer: 3, revision: 2n });
    expect(await verifyChain(await eventsOf(id))).toMatchObject({ verdict: 'intact', events: 3 });
  });
});

describe('a store that goes away', () => {
  it('with many appends under way fails none but as unavailable, and every command has one effect', async () => {
    const own = await Line.to(server.port);
    const patient = await EventStore.connect({ url: own.url, vault });
    const ids = Array.from({ length: 150 }, () => randomUUID());
    await Promise.all(ids.map((id) => patient.handle(counter, open(id))));
    const note = 'x'.repeat(8000);
    const commands = ids.map((id) => call(id, { type: 'Add', amounts: [1], note }));
    own.loseQuestions(20_000);
    const handling = commands.map((command) =>
      patient.handle(counter, command).catch((error: unknown) => error),
    );
    const answers = await Promise.all(handling);
    const failed = answers.filter((answer) => answer instanceof Error);
    for (const error of failed) expect(error).toBeInstanceOf(StoreUnavailable);
    for (const command of commands) await patient.handle(counter, command);
    for (const id of ids) {
      expect(await patient.fold(counter, 'acme', id)).toMatchObject({ revision: 1n, state: { total: 1 } });
      expect(await verifyChain(await eventsOf(id))).toMatchObject({ verdict: 'intact', events: 2 });
    }
    await patient.close();
    await own.close();
  });

  it('P49: is told as unavailable, within moments, and is back without a restart', async () => {
    const own = await startEventStore({ folder: join(folder, 'own'), port: 0 });
    const client = await EventStore.connect({ url: own.url, vault, answerMs: 1000 });
    const id = randomUUID();
    await client.handle(counter, open(id));
    const heard: bigint[] = [];
    const done = new AbortController();
    const listen = async () => {
      for await (const delivery of client.subscribe({
        prefix: 'counter-',
        after: 'start',
        signal: done.signal,
      })) {
        if (delivery.kind === 'event') heard.push(delivery.event.revision);
        if (heard.length === 3) done.abort();
      }
    };
    const hearing = listen();
    let running = own;
    for (let time = 1; time <= 2; time++) {
      await running.close();
      for (const failing of [
        client.handle(counter, add(id, 1)),
        client.handle(counter, open(randomUUID())),
        client.fold(counter, 'acme', id),
        client.head(),
        client.ping(),
      ])
        await expect(failing).rejects.toThrow(StoreUnavailable);
      running = await startEventStore({ folder: join(folder, 'own'), port: own.port });
      expect(await client.handle(counter, add(id, 1))).toMatchObject({ answer: time });
    }
    await hearing;
    expect(heard).toEqual([0n, 1n, 2n]);
    await client.close();
    await running.close();
  });
});

describe('a subscription', () => {
  const collect = async (deliveries: AsyncIterable<Delivery>, until: (seen: Delivery[]) => boolean) => {
    const seen: Delivery[] = [];
    for await (const delivery of deliveries) {
      seen.push(delivery);
      if (until(seen)) break;
    }
    return seen;
  };
  const eventsIn = (seen: Delivery[]) => seen.flatMap((each) => (each.kind === 'event' ? [each.event] : []));

  it('tells every event once and in order, however often the line is cut', async () => {
    const ids = await Promise.all(Array.from({ length: 4 }, createdDirectly));
    const done = new AbortController();
    const wanted = ids.length * 41;
    let cuts = 0;
    const hearing = collect(
      listener.subscribe({ prefix: 'counter-acme.', after: (await direct.head()) - 1n, signal: done.signal }),
      (seen) => {
        if (seen.length % 20 === 0 && cuts++ < 8) line.cut();
        return (
          eventsIn(seen).filter(({ id, revision }) => ids.includes(id) && revision === 40n).length ===
          ids.length
        );
      },
    );
    for (let round = 0; round < 40; round++)
      await Promise.all(ids.map((id) => direct.handle(counter, add(id, 1))));
    const events = eventsIn(await hearing).filter(({ id }) => ids.includes(id));
    expect(cuts).toBeGreaterThanOrEqual(5);
    expect(events.length).toBeGreaterThanOrEqual(wanted - ids.length);
    for (const id of ids) {
      const revisions = events.filter((event) => event.id === id).map(({ revision }) => Number(revision));
      const from = revisions[0]!;
      expect(revisions).toEqual(Array.from({ length: 41 - from }, (_, index) => from + index));
      expect(from).toBeLessThanOrEqual(1);
    }
    const positions = events.map(({ position }) => position);
    expect(positions).toEqual([...positions].sort((a, b) => (a < b ? -1 : 1)));
  });

  it('moves on at once while nothing for it happens', async () => {
    const signal = new AbortController().signal;
    const subscription = listener.subscribe({ prefix: 'other-', after: 'start', signal });
    const deliveries = subscription[Symbol.asyncIterator]();
    const reach = async (position: bigint) => {
      for (;;) {
        const { value } = (await deliveries.next()) as { value: Delivery };
        if (value.kind === 'position' && value.position >= position) return value.position;
      }
    };
    const id = await createdDirectly();
    await reach(await direct.head());
    const { position } = await direct.handle(counter, add(id, 1));
    expect(await reach(position)).toBe(position);
    await deliveries.return?.();
  });

  it('tells once that it caught up, after the past', async () => {
    const id = await createdDirectly();
    const done = new AbortController();
    const seen = await collect(
      listener.subscribe({ prefix: `counter-acme.${id}`, after: 'start', signal: done.signal }),
      (deliveries) => deliveries.at(-1)?.kind === 'caught-up',
    );
    expect(eventsIn(seen).map(({ revision }) => revision)).toEqual([0n]);
    expect(seen.filter(({ kind }) => kind === 'caught-up')).toHaveLength(1);
  });

  it('ends when its signal is aborted, also while nothing happens', async () => {
    const done = new AbortController();
    const hearing = collect(
      listener.subscribe({ prefix: 'other-', after: 'start', signal: done.signal }),
      (seen) => {
        if (seen.at(-1)?.kind === 'caught-up') setImmediate(() => done.abort());
        return false;
      },
    );
    expect((await hearing).filter(({ kind }) => kind === 'event')).toEqual([]);
  });
});
