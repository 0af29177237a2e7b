import type { RebuildOrder, RefusalCode, ShownRebuild } from '#libs/projecting';

/** How one projection stands. Positions are of the log; `lag` is what is in the log and not yet in the view. */
export interface ProjectionStatus {
  readonly name: string;
  readonly version: number;
  readonly status: string;
  readonly position: bigint;
  readonly head: bigint;
  readonly lagEvents: number;
  readonly lagSeconds: number;
  /** Events applied a second, of late. */
  readonly rate: number;
  readonly deadLetters: number;
}

/** What of a projection's runner others in the process may ask; it may run in another thread. */
export interface RunningProjection {
  status(): ProjectionStatus | Promise<ProjectionStatus>;
  /** Whether the view has reached a position, waiting at most so many milliseconds for it. */
  waitFor(position: bigint, milliseconds: number): Promise<boolean>;
  /** Carries out what an operator orders of its rebuilds. */
  order(order: RebuildOrder): Promise<Ordered>;
}

/** An order's outcome, in a form that crosses threads: what stands after it, or why nothing has changed. */
export type Ordered =
  { readonly rebuild: ShownRebuild } | { readonly refused: RefusalCode; readonly detail: string };

/**
 * The projections that this process runs. Whoever starts a runner adds it; reads wait on them, health and
 * operations report them. Without a runner of that name (it runs elsewhere) a wait finds nothing to wait on.
 */
export class RunningProjections {
  private readonly byName = new Map<string, RunningProjection>();

  add(name: string, projection: RunningProjection): void {
    this.byName.set(name, projection);
  }

  find(name: string): RunningProjection | undefined {
    return this.byName.get(name);
  }

  names(): string[] {
    return [...this.byName.keys()];
  }

  statuses(): Promise<ProjectionStatus[]> {
    return Promise.all(Array.from(this.byName.values(), async (projection) => projection.status()));
  }
}
