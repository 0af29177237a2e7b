import { type BeforeApplicationShutdown, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { Clock, Log, noticeIn } from '#apps/platform';
import { payloadsCitedBy, type RunEvent } from '#libs/domain/runs';
import { EventStore } from '#libs/event-store';
import { Payloads } from '#libs/payloads';

const HOUR_MS = 3_600_000;

/**
 * Removes payloads that no event came to cite, as a crash between putting one and appending leaves them. Looks when
 * the process starts and every hour, at what is an hour old: no command takes that long. Two at once do no harm.
 * Shutdown stops it where it is.
 */
@Injectable()
export class PayloadSweep implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private timer: NodeJS.Timeout | undefined;
  private sweeping = Promise.resolve();
  private readonly closing = new AbortController();

  constructor(
    private readonly payloads: Payloads,
    private readonly events: EventStore,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {}

  onApplicationBootstrap(): void {
    this.begin();
    this.timer = setInterval(() => this.begin(), HOUR_MS).unref();
  }

  async beforeApplicationShutdown(): Promise<void> {
    clearInterval(this.timer);
    this.closing.abort();
    await this.sweeping;
  }

  /** @returns how many were removed. */
  sweep(): Promise<number> {
    const before = new Date(this.clock.now() - HOUR_MS);
    return this.payloads.sweep(before, (stream) => this.citedBy(stream), this.closing.signal);
  }

  private begin(): void {
    this.sweeping = this.sweep().then(
      () => undefined,
      (error: unknown) => {
        if (error !== this.closing.signal.reason)
          noticeIn(this.log)('payloads were not swept', { error: String(error) });
      },
    );
  }

  private async citedBy(stream: string): Promise<ReadonlySet<string>> {
    const cited = new Set<string>();
    for await (const { type, data } of this.events.read(stream)) {
      this.closing.signal.throwIfAborted();
      for (const digest of payloadsCitedBy({ type, data } as unknown as RunEvent)) cited.add(digest);
    }
    return cited;
  }
}
