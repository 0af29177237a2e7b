import type { ChildProcess } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { CannotStart } from './failures.js';

/** What a child says to its supervisor over their channel, and what it is told. */
export type FromChild<Ready> = { type: 'ready'; ready: Ready } | { type: 'failed'; message: string };
export type ToChild = { type: 'stop' };

const RESTARTS = 5;
const WITHIN_MS = 60_000;
const DELAY_MS = 200;

/**
 * A child process that is started again when it ends unexpectedly: at most 5 times a minute, each time a little
 * later. `launch` is given what the child said when it was last ready, so that it can come back at the same address.
 */
export class Child<Ready> {
  /** Resolves when the child ended once too often; it is not started again. */
  readonly givenUp: Promise<string>;
  private giveUp: (reason: string) => void = () => undefined;
  private running: ChildProcess | undefined;
  private lastReady: Ready | undefined;
  private readonly ends: number[] = [];
  private stopping = false;

  constructor(
    private readonly name: string,
    private readonly launch: (lastReady: Ready | undefined) => ChildProcess,
    private readonly notice: (text: string) => void,
  ) {
    this.givenUp = new Promise((resolve) => (this.giveUp = resolve));
  }

  /**
   * Starts the child and waits until it says that it is ready.
   *
   * @throws CannotStart with the child's own words, if it ends before.
   */
  async start(): Promise<Ready> {
    const child = this.launch(this.lastReady);
    this.running = child;
    return new Promise((resolve, reject) => {
      let ready = false;
      let failure = `the ${this.name} process could not be started`;
      child.on('message', (message: FromChild<Ready>) => {
        if (message.type === 'failed') failure = message.message;
        else {
          ready = true;
          this.lastReady = message.ready;
          resolve(message.ready);
        }
      });
      child.once('error', (error) => reject(new CannotStart(`${failure}: ${error.message}`)));
      child.once('exit', (code, signal) => {
        this.running = undefined;
        if (ready) this.ended(`the ${this.name} process ended (${signal ?? `exit code ${code}`})`);
        else reject(new CannotStart(signal === null ? failure : `${failure}: it was ended by ${signal}`));
      });
    });
  }

  /** Asks the child to finish what it has begun and to end; kills it after `graceMs`. */
  async stop(graceMs: number): Promise<void> {
    this.stopping = true;
    const child = this.running;
    if (child === undefined) return;
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    const late = setTimeout(() => {
      this.notice(`the ${this.name} process did not end within ${graceMs} ms and is killed`);
      child.kill('SIGKILL');
    }, graceMs);
    // The channel is gone if the child is ending already; its exit is then on its way.
    child.send({ type: 'stop' } satisfies ToChild, () => undefined);
    await ended;
    clearTimeout(late);
  }

  private ended(how: string): void {
    if (this.stopping) return;
    const now = Date.now();
    while (this.ends[0] !== undefined && this.ends[0] < now - WITHIN_MS) this.ends.shift();
    this.ends.push(now);
    if (this.ends.length > RESTARTS)
      return this.giveUp(`${how}, for the ${this.ends.length}th time in a minute`);
    this.notice(`${how}: starting it again`);
    void this.startAgain();
  }

  private async startAgain(): Promise<void> {
    await pause(DELAY_MS * (this.ends.length - 1));
    if (this.stopping) return;
    await this.start().catch((error: Error) => this.ended(error.message));
  }
}
