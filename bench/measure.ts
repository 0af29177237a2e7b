import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';

export interface Measured {
  perSecond: number;
  p50: number;
  p99: number;
}

/** Runs `lanes` loops of `once` side by side for about `ms` milliseconds; latencies in milliseconds. */
export async function measure(
  lanes: number,
  ms: number,
  once: (lane: number) => Promise<void>,
): Promise<Measured> {
  const latencies: number[] = [];
  const start = performance.now();
  const until = start + ms;
  await Promise.all(
    Array.from({ length: lanes }, async (_, lane) => {
      for (let now = performance.now(); now < until;) {
        await once(lane);
        const after = performance.now();
        latencies.push(after - now);
        now = after;
      }
    }),
  );
  const seconds = (performance.now() - start) / 1000;
  latencies.sort((a, b) => a - b);
  const at = (share: number) =>
    latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))] ?? NaN;
  return { perSecond: latencies.length / seconds, p50: at(0.5), p99: at(0.99) };
}

/** The floor under everything durable: one block written and synced, on the disk that temporary folders are on. */
export async function measureFsync(ms: number): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), 'waymark-bench-'));
  const file = openSync(join(folder, 'block'), 'w');
  const block = Buffer.alloc(1024, 1);
  try {
    return await measure(1, ms, async () => {
      writeSync(file, block);
      fdatasyncSync(file);
    });
  } finally {
    closeSync(file);
    rmSync(folder, { recursive: true });
  }
}

/** The medians of several rounds, figure by figure. */
export function medians<Figure extends string>(
  rounds: readonly Record<Figure, number>[],
): Record<Figure, number> {
  const figures = Object.keys(rounds[0] ?? {}) as Figure[];
  const median = (figure: Figure) => {
    const sorted = rounds.map((round) => round[figure]).sort((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)] ?? NaN;
  };
  return Object.fromEntries(figures.map((figure) => [figure, median(figure)])) as Record<Figure, number>;
}

/** Rounds of every subject in turn, A B C A B C …, so that a drift of the machine touches all alike. */
export async function interleave<Name extends string, Figure extends string>(
  rounds: number,
  subjects: Record<Name, () => Promise<Record<Figure, number>>>,
): Promise<Record<Name, Record<Figure, number>>> {
  const names = Object.keys(subjects) as Name[];
  const taken = new Map<Name, Record<Figure, number>[]>(names.map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const name of names) taken.get(name)?.push(await subjects[name]());
  }
  return Object.fromEntries(names.map((name) => [name, medians(taken.get(name) ?? [])])) as Record<
    Name,
    Record<Figure, number>
  >;
}
