import type { Location } from './segments.js';

/** One thing to be answered after a sync: a frame to write, or nothing but the wait for those before it. */
export interface Commit {
  readonly bytes?: Buffer;
  /** `location` is where `bytes` begin on disk. Called in the order of `enqueue`, before any `answer` of its group. */
  durable(location: Location): void;
  answer(): void;
  /** Nothing of it is on disk, and nothing of what was decided after it. */
  failed(error: Error): void;
}

const GROUP_BYTES = 4 * 1024 * 1024;

/**
 * Group commit: what arrives while one write and sync is under way shares the next. Commits keep their order. If a
 * write fails, everything queued fails with it, because it was decided on top of what is now not there.
 */
export class GroupCommit {
  private queue: Commit[] = [];
  private running: Promise<void> | undefined;
  private bytes = 0;

  constructor(
    private readonly write: (frames: readonly Buffer[]) => Promise<Location>,
    private readonly onGroup: () => void,
  ) {}

  /** Bytes that wait for their sync. */
  get backlog(): number {
    return this.bytes;
  }

  enqueue(commit: Commit): void {
    this.queue.push(commit);
    this.bytes += commit.bytes?.length ?? 0;
    this.running ??= this.run();
  }

  /** Resolves when all that is queued now is answered. */
  async settled(): Promise<void> {
    await this.running;
  }

  private async run(): Promise<void> {
    await nextTurn();
    while (this.queue.length > 0) {
      const group = this.takeGroup();
      try {
        await this.commit(group);
      } catch (error) {
        const failure = error instanceof Error ? error : new Error(String(error));
        const fallen = [...group, ...this.queue.splice(0)];
        this.bytes = 0;
        for (const commit of fallen) commit.failed(failure);
        this.onGroup();
      }
    }
    this.running = undefined;
  }

  private async commit(group: readonly Commit[]): Promise<void> {
    const frames = group.flatMap((commit) => (commit.bytes ? [commit.bytes] : []));
    let location = frames.length > 0 ? await this.write(frames) : 0;
    for (const commit of group) {
      const length = commit.bytes?.length ?? 0;
      commit.durable(location);
      location += length;
      this.bytes -= length;
    }
    this.onGroup();
    for (const commit of group) commit.answer();
  }

  private takeGroup(): Commit[] {
    let bytes = 0;
    let count = 0;
    while (count < this.queue.length && (count === 0 || bytes < GROUP_BYTES))
      bytes += this.queue[count++]?.bytes?.length ?? 0;
    if (count === this.queue.length) {
      const all = this.queue;
      this.queue = [];
      return all;
    }
    return this.queue.splice(0, count);
  }
}

/** The rest of this turn's input first: appends that arrived together are written together. */
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
