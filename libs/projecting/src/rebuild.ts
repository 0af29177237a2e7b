import type { Rebuild } from './editions.js';
import type { ProjectionStatus } from './lane.js';

/** What an operator may order of a projection's rebuilds; `by` is recorded. */
export type RebuildOrder =
  /** Ordered again under the same id it changes nothing. Without a version the current one is built afresh. */
  | {
      readonly do: 'start';
      readonly rebuildId: string;
      readonly version?: number | undefined;
      readonly autoSwitch: boolean;
      readonly by: string;
    }
  | { readonly do: 'show'; readonly rebuildId: string }
  | { readonly do: 'pause' | 'resume' | 'abort'; readonly rebuildId: string; readonly by: string }
  | {
      readonly do: 'throttle';
      readonly rebuildId: string;
      readonly eventsPerSecond: number | null;
      readonly by: string;
    }
  /** `reason` switches in spite of a comparison that is not clean, and is recorded. */
  | {
      readonly do: 'switch';
      readonly rebuildId: string;
      readonly reason?: string | undefined;
      readonly by: string;
    }
  | { readonly do: 'rollback'; readonly by: string };

export type RefusalCode =
  | 'not-found'
  | 'rebuild-running'
  | 'rebuild-state'
  | 'rebuild-not-possible'
  | 'rebuild-behind'
  | 'comparison-not-clean'
  | 'nothing-to-roll-back'
  | 'version-not-shipped';

/** An order that the state of the projection does not permit. */
export class Refused extends Error {
  override readonly name = 'Refused';
  constructor(
    readonly code: RefusalCode,
    message: string,
  ) {
    super(message);
  }
}

/** A rebuild and how far it is. */
export interface ShownRebuild extends Rebuild {
  readonly position: bigint;
  readonly head: bigint;
  /** 0 to 100, by positions of the log. */
  readonly percent: number;
  /** Events a second. */
  readonly rate: number;
  /** Null while it does not move. */
  readonly etaSeconds: number | null;
  readonly deadLetters: number;
}

/** Counts time by positions: what is heard is spread evenly over the log, or the estimate is off by as much. */
export function progressOf(
  rebuild: Rebuild,
  head: bigint,
  stored: bigint | null,
  lane: ProjectionStatus | undefined,
): ShownRebuild {
  const position = lane && lane.position > 0n ? lane.position : (stored ?? 0n);
  const done = head === 0n ? 1 : Math.min(1, Number(position) / Number(head));
  const { rate = 0, deadLetters = 0, events = 0 } = lane ?? {};
  const built = rebuild.phase !== 'building' && rebuild.phase !== 'paused';
  const percent =
    built && rebuild.phase !== 'aborted' && rebuild.phase !== 'failed' ? 100 : Math.floor(1_000 * done) / 10;
  const left = done > 0 ? (events * (1 - done)) / done : 0;
  const etaSeconds = percent === 100 ? 0 : rate > 0 ? Math.ceil(left / rate) : null;
  return { ...rebuild, position, head, percent, rate, etaSeconds, deadLetters };
}
