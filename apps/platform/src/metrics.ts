import { collectDefaultMetrics, Registry } from 'prom-client';

/** Where every metric of the process is registered; each app has its own, so that specs do not share one. */
export class Metrics extends Registry {
  /** Adds what Node itself tells of the process: memory, event loop, garbage collection. */
  observeProcess(): void {
    collectDefaultMetrics({ register: this });
  }
}
