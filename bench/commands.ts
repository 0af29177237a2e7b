import { EventStoreDBClient, jsonEvent, NO_STREAM } from '@eventstore/db-client';
import fastify from 'fastify';
import { randomUUID } from 'node:crypto';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { HttpConnection } from './http-client.js';
import { interleave, measure, measureFsync, type Measured } from './measure.js';
import { startServer, type BenchServer } from './server.js';

const ROUNDS = 5;
const ROUND_MS = 2000;
/** Long enough for the compiler to have seen the hot path: a server's first ten seconds cost several times as much. */
const WARM_UP_MS = 15_000;
const LANES = [1, 16, 64] as const;
const HISTORIES = [10, 1_000, 10_000] as const;
const GATE_RAW = 0.35;
const GATE_HISTORY = 1.3;

/**
 * Durable step commits through HTTP beside their floors, all in one run: fsync of one block, a Fastify route that
 * answers hello from a process of its own, and an append of an event of the stored size through the client.
 * Prints medians of interleaved rounds and fails when a gate does not hold.
 */
export async function commands(): Promise<boolean> {
  const server = await startServer();
  const hello = await startHello();
  const client = EventStoreDBClient.connectionString(server.eventStoreUrl);
  try {
    const runs = await Promise.all(Array.from({ length: 64 }, () => Worker.start(server)));
    const stored = await runs[0]!.storedEvent(client);
    const hellos = await Promise.all(Array.from({ length: 64 }, () => HttpConnection.open(hello.url)));
    const raw = rawAppenders(client, stored, 64);

    const lanes: Record<string, () => Promise<Measured>> = { 'fsync 1': () => measureFsync(ROUND_MS / 4) };
    for (const n of LANES) {
      lanes[`hello ${n}`] = () =>
        measure(n, ROUND_MS, async (lane) => void (await hellos[lane]!.send('GET', '/', '')));
      lanes[`raw ${n}`] = () => measure(n, ROUND_MS, (lane) => raw[lane]!());
      lanes[`steps ${n}`] = () => measure(n, ROUND_MS, (lane) => runs[lane]!.step());
    }
    await measure(64, WARM_UP_MS, (lane) => runs[lane]!.step());
    await measure(64, ROUND_MS, (lane) => raw[lane]!());
    const rates = await interleave(ROUNDS, lanes);
    print('steps through HTTP and their floors', rates);

    const aged = await Promise.all(HISTORIES.map((steps) => Worker.withHistory(server, steps)));
    const histories = await interleave(
      ROUNDS,
      Object.fromEntries(
        aged.map((run, i) => [`${HISTORIES[i]} steps`, () => measure(1, ROUND_MS / 2, () => run.step())]),
      ),
    );
    print('one run, by the steps it has', histories);
    return judge(rates, histories);
  } finally {
    HttpConnection.closeAll();
    hello.close();
    await client.dispose();
    await server.stop();
  }
}

function judge(rates: Record<string, Measured>, histories: Record<string, Measured>): boolean {
  const toRaw = rates['steps 64']!.perSecond / rates['raw 64']!.perSecond;
  const byHistory = histories['10000 steps']!.p50 / histories['10 steps']!.p50;
  console.log(`\nsteps / raw appends at 64: ${toRaw.toFixed(2)} (gate: at least ${GATE_RAW})`);
  console.log(`p50 at 10,000 steps / at 10: ${byHistory.toFixed(2)} (gate: at most ${GATE_HISTORY})`);
  const { perSecond } = rates['steps 64']!;
  console.log(
    `aims (reported): ${perSecond.toFixed(0)} a second at 64 of 2,600; p50 of one run ${rates['steps 1']!.p50.toFixed(2)} ms of 1.6`,
  );
  return toRaw >= GATE_RAW && byHistory <= GATE_HISTORY;
}

function print(title: string, figures: Record<string, Measured>): void {
  console.log(
    `\n${title}\n${'subject'.padEnd(14)}${'per second'.padStart(12)}${'p50 ms'.padStart(9)}${'p99 ms'.padStart(9)}`,
  );
  for (const [name, { perSecond, p50, p99 }] of Object.entries(figures)) {
    console.log(
      name.padEnd(14) +
        perSecond.toFixed(0).padStart(12) +
        p50.toFixed(2).padStart(9) +
        p99.toFixed(2).padStart(9),
    );
  }
}

/** One run with its worker on a connection of its own, committing steps of about 600 bytes. */
class Worker {
  private readonly output = { note: 'n'.repeat(380), amount: '1250.00', at: '2026-01-31T10:00:00.000Z' };
  private steps = 0;

  private constructor(
    private readonly connection: HttpConnection,
    private readonly runId: string,
    private readonly tenant: string,
    private readonly headers: string,
  ) {}

  static async start(server: BenchServer): Promise<Worker> {
    const connection = await HttpConnection.open(server.url);
    const runId = randomUUID();
    const bearer = `authorization: Bearer ${server.token}\r\n`;
    const start = { runId, workflow: { name: 'bench', version: '1' }, customerId: randomUUID() };
    await must(connection.send('POST', '/v1/runs', bearer, JSON.stringify(start)));
    const resumed = await must(
      connection.send(
        'POST',
        `/v1/runs/${runId}/resume`,
        bearer,
        JSON.stringify({ workerId: 'bench', leaseSeconds: 600 }),
      ),
    );
    const { leaseToken } = JSON.parse(resumed) as { leaseToken: string };
    return new Worker(connection, runId, server.tenant, `${bearer}waymark-lease: ${leaseToken}\r\n`);
  }

  static async withHistory(server: BenchServer, steps: number): Promise<Worker> {
    const worker = await Worker.start(server);
    for (let i = 0; i < steps; i++) await worker.step();
    return worker;
  }

  async step(): Promise<void> {
    const stepId = `step-${this.steps++}`;
    const body = { stepId, name: 'estimate-damage', kind: 'tool', status: 'completed', output: this.output };
    const headers = `${this.headers}idempotency-key: ${stepId}\r\n`;
    await must(this.connection.send('POST', `/v1/runs/${this.runId}/steps`, headers, JSON.stringify(body)));
  }

  /** A step's event as it is stored, so that the raw floor appends as many bytes. */
  async storedEvent(client: EventStoreDBClient): Promise<{ data: object; metadata: object }> {
    await this.step();
    const last = client.readStream(`run-${this.tenant}.${this.runId}`, {
      direction: 'backwards',
      fromRevision: 'end',
      maxCount: 1,
    });
    let stored: { data: object; metadata: object } | undefined;
    // Read to its end: the client waits for a read that was left before it lets itself be disposed of.
    for await (const { event } of last)
      if (event) stored = { data: event.data as object, metadata: event.metadata as object };
    if (!stored) throw new Error('the step was not stored');
    return stored;
  }
}

async function must(sent: Promise<{ status: number; body: string }>): Promise<string> {
  const { status, body } = await sent;
  if (status >= 300) throw new Error(`${status}: ${body}`);
  return body;
}

function rawAppenders(
  client: EventStoreDBClient,
  stored: { data: object; metadata: object },
  lanes: number,
): (() => Promise<void>)[] {
  return Array.from({ length: lanes }, () => {
    const stream = `raw-${randomUUID()}`;
    let revision: bigint | typeof NO_STREAM = NO_STREAM;
    return async () => {
      const event = jsonEvent({
        type: 'StepCompleted',
        data: { ...stored.data },
        metadata: { ...stored.metadata },
      });
      const { nextExpectedRevision } = await client.appendToStream(stream, event, {
        expectedRevision: revision,
      });
      revision = nextExpectedRevision;
    };
  });
}

/** This file forked with `hello` serves the Fastify floor. */
async function startHello(): Promise<{ url: string; close: () => void }> {
  const child = fork(new URL(import.meta.url), ['hello']);
  const [url] = (await once(child, 'message')) as [string];
  return { url, close: () => void child.kill() };
}

if (process.argv[2] === 'hello' && process.send) {
  const app = fastify();
  app.get('/', async () => ({ hello: 'world' }));
  process.send(await app.listen({ port: 0, host: '127.0.0.1' }));
  process.on('disconnect', () => process.exit(0));
}
