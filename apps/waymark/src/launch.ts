import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { FromChild, ToChild } from './child.js';
import { type Running } from './data-folder.js';
import { CannotStart } from './failures.js';

/** A Waymark process that this one started, with what it said when it was ready. */
export interface Launched<Ready> {
  readonly ready: Ready;
  readonly process: ChildProcess;
  /** Resolves when it and all that it started have ended. */
  readonly gone: Promise<void>;
  /** Asks it to stop, and waits until it and all that it started have ended; its exit status. */
  stop(): Promise<number | null>;
  /** Kills it and, when it leads a group, all that it started, and waits until they are gone. */
  kill(): Promise<void>;
}

export interface LaunchOptions {
  environment: NodeJS.ProcessEnv;
  /** Where its log and its standard error go: `inherit` shows them on this process's standard error. */
  log?: 'ignore' | 'inherit';
  /** Whether it leads a process group of its own, so that one signal reaches all its processes. */
  group?: boolean;
}

/** Characters of its last words that are kept. */
const MOST_SAID = 2_000;

/**
 * Runs a command of Waymark as a child and waits until it is ready. It ends when this process does. Its standard
 * error is a pipe that all it starts holds too: when that closes, all of them are gone.
 *
 * @param main the program, as its path.
 * @throws CannotStart if it ends before it is ready, with what it said.
 */
export async function launch<Ready>(
  main: string,
  args: string[],
  { environment, log = 'ignore', group = false }: LaunchOptions,
): Promise<Launched<Ready>> {
  const child = spawn(process.execPath, [main, ...args], {
    env: environment,
    stdio: ['ignore', log === 'inherit' ? 2 : 'ignore', 'pipe', 'ipc'],
    detached: group,
  });
  let said = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    if (log === 'inherit') process.stderr.write(text);
    else said = (said + text).slice(-MOST_SAID);
  });
  const gone = once(child, 'close') as Promise<[number | null]>;
  const ready = await new Promise<Ready>((resolve, reject) => {
    child.once('message', (message: FromChild<Ready>) => {
      if (message.type === 'ready') resolve(message.ready);
      else said += message.message;
    });
    void gone.then(() => reject(new CannotStart(said.trim())), reject);
  });
  return {
    ready,
    process: child,
    gone: gone.then(() => undefined),
    stop: async () => {
      // What runs under a channel ends at its word; the server as a whole at a signal.
      if (args[0] === 'start') child.kill('SIGTERM');
      else if (child.connected) child.send({ type: 'stop' } satisfies ToChild);
      return (await gone)[0];
    },
    kill: async () => {
      const ended = child.exitCode !== null || child.signalCode !== null;
      if (!ended && child.pid !== undefined) process.kill(group ? -child.pid : child.pid, 'SIGKILL');
      await gone;
    },
  };
}

/** Starts a whole server: see `launch`. */
export function launchServer(main: string, options: LaunchOptions): Promise<Launched<Running>> {
  return launch<Running>(main, ['start'], options);
}
