import { EventStoreDBClient, type EventData, START, jsonEvent } from '@eventstore/db-client';
import { Client, credentials } from '@grpc/grpc-js';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { ECHO_DUPLEX, ECHO_UNARY, MeasuredProcess } from './event-store-process.js';
import { type Measured, interleave, measure, measureFsync } from './measure.js';

const ROUNDS = 5;
const ROUND_MS = 1500;
/** Long enough for the compiler to have seen the hot path. */
const WARM_UP_MS = 6000;
const WRITERS = [1, 16, 64, 256] as const;
const BATCH = 100;
const BATCH_WRITERS = 4;
/** Events that the reading subjects walk. */
const HISTORY = 40_000;
const MILLION = Number(process.env.WAYMARK_BENCH_EVENTS ?? 1_000_000);

/** CPU of the server's process per append or event: microseconds. */
interface Served extends Measured {
  cpu: number;
}

/**
 * The embedded event store through the unmodified client, beside its floors and all in one run: a synced block, and
 * an echo over the same gRPC. The server is a process of its own, so that its CPU and memory are its own. Prints
 * medians of interleaved rounds and fails when a gate does not hold.
 */
export async function eventStore(): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), 'waymark-bench-'));
  try {
    const speed = await measureSpeed(join(folder, 'speed'));
    const size = await measureSize(join(folder, 'size'));
    return judge(speed, size);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function measureSpeed(folder: string): Promise<Record<string, Served>> {
  const server = await MeasuredProcess.start(folder);
  const echo = await MeasuredProcess.start();
  const client = EventStoreDBClient.connectionString(server.started.url);
  const echoes = new Echoes(echo.started.url);
  try {
    const streams = Array.from({ length: 256 }, () => `run-bench.${randomUUID()}`);
    const single = async (lane: number) =>
      void (await client.appendToStream(streams[lane]!, fiveHundredBytes()));
    const history = `run-bench.${randomUUID()}`;
    await fill(client, [history], HISTORY);
    const subjects: Record<string, () => Promise<Served>> = {
      fsync: () => unserved(measureFsync(ROUND_MS / 3)),
      'echo 1': () =>
        serving(
          echo,
          measure(1, ROUND_MS / 2, () => echoes.unary()),
        ),
      'echo 16': () =>
        serving(
          echo,
          measure(16, ROUND_MS / 2, () => echoes.unary()),
        ),
      'echo 64': () =>
        serving(
          echo,
          measure(64, ROUND_MS / 2, () => echoes.unary()),
        ),
      'echo duplex 64': () =>
        serving(
          echo,
          measure(64, ROUND_MS / 2, () => echoes.duplex()),
        ),
    };
    for (const n of WRITERS) subjects[`append ${n}`] = () => serving(server, measure(n, ROUND_MS, single));
    subjects['batches of 100'] = () => serving(server, batches(client));
    subjects['read stream'] = () => serving(server, walk(client.readStream(history, { maxCount: HISTORY })));
    subjects['read $all'] = () => serving(server, walk(client.readAll({ maxCount: HISTORY })));
    subjects['catch up'] = () => serving(server, catchUp(client, history));
    subjects['live'] = () => serving(server, live(client));
    await measure(64, WARM_UP_MS, single);
    const figures = await interleave(ROUNDS, subjects);
    print(figures);
    return figures;
  } finally {
    await echoes.close();
    await client.dispose();
    await echo.stop();
    await server.stop();
  }
}

interface Size {
  bytesPerEvent: number;
  /** Bytes of memory at the peak. */
  peakMemory: number;
  /** Milliseconds until the store of so many events is open. */
  opening: number;
}

/** A store of a million events: written, read and subscribed to in one life of the server, then opened again. */
async function measureSize(folder: string): Promise<Size> {
  const server = await MeasuredProcess.start(folder);
  const client = EventStoreDBClient.connectionString(server.started.url);
  let peakMemory: number;
  try {
    const streams = Array.from({ length: 1000 }, () => `run-bench.${randomUUID()}`);
    await fill(client, streams, MILLION);
    await walk(client.readAll());
    await catchUpAll(client, MILLION);
    ({ peakMemory } = await server.usage());
  } finally {
    await client.dispose();
    await server.stop();
  }
  const files = readdirSync(folder).filter((name) => name.startsWith('segment-'));
  const bytes = files.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
  const again = await MeasuredProcess.start(folder);
  await again.stop();
  return { bytesPerEvent: bytes / MILLION, peakMemory, opening: again.started.opening };
}

function judge(speed: Record<string, Served>, size: Size): boolean {
  const read = Math.max(speed['read stream']!.cpu, speed['read $all']!.cpu);
  const gates = [
    gate('server CPU per single append at 64 writers, µs', speed['append 64']!.cpu, 75),
    gate('server CPU per event read, µs', read, 20),
    gate('bytes per 500-byte event', size.bytesPerEvent, 620),
    gate(`peak memory over ${MILLION} events written, read and subscribed, MB`, size.peakMemory / 1e6, 300),
  ];
  aim('single appends a second at 64 writers', speed['append 64']!.perSecond, 6000, 'at least');
  aim('events a second in batches', speed['batches of 100']!.perSecond, 17_000, 'at least');
  aim(
    'events a second reading',
    Math.min(speed['read stream']!.perSecond, speed['read $all']!.perSecond),
    30_000,
    'at least',
  );
  aim('events a second catching up', speed['catch up']!.perSecond, 30_000, 'at least');
  aim('live latency p50, ms', speed['live']!.p50, 1.2, 'at most');
  aim(`opening ${MILLION} events, s`, size.opening / 1000, 2, 'at most');
  return gates.every(Boolean);
}

function gate(what: string, figure: number, most: number): boolean {
  const held = figure <= most;
  console.log(`gate ${held ? 'holds' : 'FAILS'}: ${what}: ${figure.toFixed(1)} (at most ${most})`);
  return held;
}

function aim(what: string, figure: number, wanted: number, way: 'at least' | 'at most'): void {
  const met = way === 'at least' ? figure >= wanted : figure <= wanted;
  console.log(
    `aim ${met ? 'met' : 'missed'}: ${what}: ${figure.toFixed(figure < 100 ? 2 : 0)} (${way} ${wanted})`,
  );
}

function print(figures: Record<string, Served>): void {
  const cell = (figure: number, digits: number) => (Number.isNaN(figure) ? '-' : figure.toFixed(digits));
  console.log(
    `\n${'subject'.padEnd(16)}${'per second'.padStart(12)}${'p50 ms'.padStart(9)}${'p99 ms'.padStart(9)}${'server µs'.padStart(11)}`,
  );
  for (const [name, { perSecond, p50, p99, cpu }] of Object.entries(figures))
    console.log(
      name.padEnd(16) +
        cell(perSecond, 0).padStart(12) +
        cell(p50, 2).padStart(9) +
        cell(p99, 2).padStart(9) +
        cell(cpu, 1).padStart(11),
    );
  console.log('');
}

/** Adds what one operation cost the server. Operations must have the server to themselves. */
async function serving(server: MeasuredProcess, measured: Promise<Measured>): Promise<Served> {
  const before = server.usage();
  const start = performance.now();
  const figures = await measured;
  const seconds = (performance.now() - start) / 1000;
  const cpu = (await server.usage()).cpu - (await before).cpu;
  return { ...figures, cpu: cpu / (figures.perSecond * seconds) };
}

const unserved = async (measured: Promise<Measured>): Promise<Served> => ({ ...(await measured), cpu: NaN });

/** Data and metadata have 500 bytes together. */
function fiveHundredBytes(): EventData {
  const data = {
    stepId: 'step-1',
    status: 'completed',
    at: '2026-01-31T10:00:00.000Z',
    note: 'n'.repeat(303),
  };
  return jsonEvent({
    type: 'StepCompleted',
    data,
    metadata: { commandId: '0123456789abcdef', schema: 1, digest: 'd'.repeat(54) },
  });
}

/** Events spread over streams, in batches, a few at a time. */
async function fill(client: EventStoreDBClient, streams: readonly string[], count: number): Promise<void> {
  let sent = 0;
  const writer = async () => {
    for (let batch = sent; batch < count; batch = sent) {
      sent += BATCH;
      await client.appendToStream(streams[(batch / BATCH) % streams.length]!, batchOf(BATCH));
    }
  };
  await Promise.all(Array.from({ length: BATCH_WRITERS }, writer));
}

const batchOf = (count: number): EventData[] => Array.from({ length: count }, fiveHundredBytes);

async function batches(client: EventStoreDBClient): Promise<Measured> {
  const streams = Array.from({ length: BATCH_WRITERS }, () => `run-bench.${randomUUID()}`);
  const measured = await measure(BATCH_WRITERS, ROUND_MS, async (lane) => {
    await client.appendToStream(streams[lane]!, batchOf(BATCH));
  });
  return { ...measured, perSecond: measured.perSecond * BATCH };
}

/** Events a second of a read or a subscription, up to `most`. */
async function walk(events: AsyncIterable<unknown>, most = Infinity): Promise<Measured> {
  const start = performance.now();
  let count = 0;
  for await (const _ of events) if (++count === most) break;
  return { perSecond: (count * 1000) / (performance.now() - start), p50: NaN, p99: NaN };
}

const catchUp = (client: EventStoreDBClient, stream: string): Promise<Measured> =>
  walk(client.subscribeToStream(stream, { fromRevision: START }), HISTORY);

const catchUpAll = (client: EventStoreDBClient, count: number): Promise<Measured> =>
  walk(client.subscribeToAll({ fromPosition: START }), count);

/** From the call of an append until a subscriber has the event. */
async function live(client: EventStoreDBClient): Promise<Measured> {
  const stream = `run-bench.${randomUUID()}`;
  const subscription = client.subscribeToStream(stream);
  await once(subscription, 'caughtUp');
  try {
    return await measure(1, ROUND_MS / 2, async () => {
      const heard = once(subscription, 'data');
      await client.appendToStream(stream, fiveHundredBytes());
      await heard;
    });
  } finally {
    await subscription.unsubscribe();
  }
}

/** Echoes 600 bytes: one call each, or as messages of one call, as appends are. */
class Echoes {
  private readonly client: Client;
  private readonly message = Buffer.alloc(600, 1);
  private readonly waiting: (() => void)[] = [];
  private readonly call;

  constructor(address: string) {
    const asIs = (bytes: Buffer): Buffer => bytes;
    this.client = new Client(address, credentials.createInsecure());
    this.call = this.client.makeBidiStreamRequest(ECHO_DUPLEX, asIs, asIs);
    this.call.on('data', () => this.waiting.shift()?.());
  }

  unary(): Promise<void> {
    const asIs = (bytes: Buffer): Buffer => bytes;
    return new Promise((resolve, reject) =>
      this.client.makeUnaryRequest(ECHO_UNARY, asIs, asIs, this.message, (error) =>
        error ? reject(error) : resolve(),
      ),
    );
  }

  duplex(): Promise<void> {
    return new Promise((resolve) => {
      this.waiting.push(resolve);
      this.call.write(this.message);
    });
  }

  async close(): Promise<void> {
    const ended = once(this.call, 'end');
    this.call.end();
    await ended;
    this.client.close();
  }
}
