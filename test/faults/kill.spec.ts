import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, watch, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { Installation, type Server, type Stored, StreamReader } from '#test/support';

const full = process.env.WAYMARK_FAULTS === 'full';
const KILLS = full ? 25 : 3;
const ROWS = full ? 500 : 60;
const ANSWERS_A_ROW = 8;
const seed = Number(process.env.WAYMARK_SEED ?? randomInt(2 ** 31));
const shared = resolve(__dirname, '../../../shared/data/auto-losses.csv');

/** When the kills come: after so many more answers and a moment, so as to hit any instant of a command. */
const schedule = fc.sample(
  fc.record({
    answers: fc.integer({ min: 5, max: Math.floor((ROWS * ANSWERS_A_ROW * 0.8) / KILLS) }),
    milliseconds: fc.integer({ min: 0, max: 20 }),
    lossesToo: fc.boolean(),
  }),
  { seed, numRuns: KILLS },
);

describe('killing every process while losses are filed', () => {
  let installation: Installation;
  let server: Server;
  let journal: string;
  let losses: Losses | undefined;
  beforeAll(async () => {
    installation = await Installation.create();
    server = await installation.start();
    journal = join(installation.data, 'journal');
    writeFileSync(journal, '');
  });
  afterAll(async () => {
    losses?.process.kill('SIGKILL');
    await losses?.said;
    await installation.remove();
  });

  it(
    `${KILLS} times at random moments (seed ${seed}) loses nothing acknowledged and does nothing twice`,
    async () => {
      const file = writeLosses(join(installation.data, 'losses.csv'));
      losses = startLosses(file);
      for (const { answers, milliseconds, lossesToo } of schedule) {
        await moreLines(journal, answers, losses.process);
        await pause(milliseconds);
        if (lossesToo) losses.process.kill('SIGKILL');
        await server.kill();
        server = await installation.start(server.ports);
        if (lossesToo) losses = startLosses(file);
      }
      const said = await losses.said;
      expect({ status: losses.process.exitCode, said }).toMatchObject({
        status: 0,
        said: expect.stringMatching(new RegExp(`^runs ${ROWS}$[^]*^books balance$`, 'm')) as string,
      });
      await compareStreams();
    },
    full ? 1_800_000 : 180_000,
  );

  function startLosses(file: string): Losses {
    const child = spawn(process.execPath, [installation.program, 'losses', file, '--journal', journal], {
      env: installation.environment({ WAYMARK_URL: server.url }),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const closed = once(child, 'close');
    return { process: child, said: text(child.stdout).finally(() => closed) };
  }

  /** Every acknowledged answer names an event that is there, and no run has an event of one type twice. */
  async function compareStreams(): Promise<void> {
    const acknowledged = linesOf(journal).map((line) => JSON.parse(line) as Acknowledged);
    const streams = new StreamReader(server.eventStoreUrl);
    const stored = new Map<string, Stored[]>();
    for (const stream of new Set(acknowledged.map((each) => each.stream)))
      stored.set(stream, await streams.read(stream));
    await streams.close();
    expect(stored.size).toBe(ROWS);
    const lost = acknowledged.filter(({ stream, revision, position }) => {
      const event = stored.get(stream)?.[Number(revision)];
      return String(event?.position) !== position;
    });
    expect(lost).toEqual([]);
    const doubled = [...stored].filter(
      ([, events]) => new Set(events.map(({ type }) => type)).size < events.length,
    );
    expect(doubled).toEqual([]);
  }
});

interface Losses {
  process: ChildProcess;
  said: Promise<string>;
}

interface Acknowledged {
  stream: string;
  key: string;
  revision: string;
  position: string;
}

/** The last line may be half written by a process that was killed. */
function linesOf(journal: string): string[] {
  return readFileSync(journal, 'utf8')
    .split('\n')
    .filter((line) => line.endsWith('}'));
}

/** Waits until the file has so many more lines, or the process that writes them has ended. */
async function moreLines(file: string, more: number, writer: ChildProcess): Promise<void> {
  const wanted = linesOf(file).length + more;
  const changes = watch(file);
  try {
    await new Promise<void>((resolve) => {
      const look = () => {
        if (linesOf(file).length >= wanted) resolve();
      };
      changes.on('change', look);
      writer.once('exit', () => resolve());
      look();
    });
  } finally {
    changes.close();
  }
}

/** Real losses where they are at hand; otherwise made up, and it says so. */
function writeLosses(file: string): string {
  const real = existsSync(shared);
  if (!real) console.warn('shared/data/auto-losses.csv is absent: the losses are made up');
  const lines = real ? readFileSync(shared, 'utf8').trimEnd().split('\n') : madeUp();
  writeFileSync(file, lines.slice(0, ROWS + 1).join('\n') + '\n');
  return file;
}

function madeUp(): string[] {
  const head =
    'policy_number,incident_date,incident_type,incident_severity,witnesses,total_claim_amount,fraud_reported';
  const rows = Array.from({ length: ROWS }, (_, at) => {
    const date = new Date(Date.UTC(2015, 0, 1 + (at % 60))).toISOString().slice(0, 10);
    const fraud = at % 5 === 0 ? 'Y' : 'N';
    return `P-${1000 + at},${date},Vehicle Theft,Total Loss,${at % 3 === 0 ? '?' : at % 4},${900 + at * 37},${fraud}`;
  });
  return [head, ...rows];
}
