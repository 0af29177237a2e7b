import { type Rebuild, shipped, versionOf } from './editions.js';
import type { Projection } from './projection.js';
import { ProjectionRunner } from './runner.js';
import type { Stores } from './stores.js';

/** The lanes of one projection, one for each edition; what is being built keeps its pace and has few dead letters. */
export class Lanes<Doc> {
  private readonly running = new Map<string, ProjectionRunner<Doc>>();

  constructor(
    private readonly projection: Projection<Doc>,
    private readonly stores: Stores,
    private readonly rebuildOf: (edition: string) => Rebuild | undefined,
    private readonly mostDeadLetters: number,
  ) {}

  get(edition: string): ProjectionRunner<Doc> | undefined {
    return this.running.get(edition);
  }

  has(edition: string): boolean {
    return this.running.has(edition);
  }

  /** Stops all lanes but those of these editions, and starts what of them does not run and this build ships. */
  async run(editions: readonly string[]): Promise<void> {
    for (const [edition, lane] of this.running)
      if (!editions.includes(edition)) {
        this.running.delete(edition);
        await lane.stop();
      }
    for (const edition of editions) this.start(edition);
  }

  async stop(): Promise<void> {
    await Promise.all(Array.from(this.running.values(), (lane) => lane.stop()));
    this.running.clear();
  }

  private start(edition: string): void {
    const projection = shipped(this.projection, versionOf(edition));
    if (!projection || this.running.has(edition)) return;
    const lane = new ProjectionRunner(projection, this.stores, {
      edition,
      pace: () => this.rebuildOf(edition)?.eventsPerSecond ?? null,
      mostDeadLetters: this.rebuildOf(edition) ? this.mostDeadLetters : Infinity,
    });
    this.running.set(edition, lane);
    lane.start();
  }
}
