import { collectDefaultMetrics, Registry } from 'prom-client';

/** Where every metric of the process is registered; each app has its own, so that specs do not share one. */
export class Metrics extends Registry {
  private readonly included: (() => Promise<string>)[] = [];

  /** Adds what another registry, in another thread, tells under names of its own. */
  include(text: () => Promise<string>): void {
    this.included.push(text);
  }

  override async metrics(): Promise<string> {
    const own = super.metrics();
    return (await Promise.all([own, ...this.included.map((text) => text())])).join('\n');
  }

  /** Adds what Node itself tells of the process: memory, event loop, garbage collection. */
  observeProcess(): void {
    collectDefaultMetrics({ register: this });
  }
}
