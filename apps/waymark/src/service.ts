import type { FromChild, ToChild } from './child.js';
import { inWords } from './failures.js';

/** Something that runs until it is told to stop. */
export interface Service<Ready> {
  readonly ready: Ready;
  /** Finishes what has begun, and frees everything. */
  close(): Promise<void>;
}

/**
 * Runs a service as this process until it is told to stop.
 *
 * Under a supervisor (a channel to the parent is there) only the supervisor's word stops it: a Ctrl-C reaches the
 * whole process group, and the engines must outlive the app that drains into them. If the supervisor vanishes, so
 * does this process, at once: it holds nothing that a kill would lose. Alone, SIGTERM and SIGINT stop it.
 */
export async function runService<Ready>(
  begin: () => Promise<Service<Ready>>,
  announce: (ready: Ready) => void,
): Promise<void> {
  const stopped = process.send ? stoppedBySupervisor() : stoppedBySignal();
  let service: Service<Ready>;
  try {
    service = await begin();
  } catch (error) {
    if (!process.send) throw error;
    const words = inWords(error);
    await tell({
      type: 'failed',
      message: words ?? (error instanceof Error ? error.message : String(error)),
    });
    if (words === undefined) console.error(error);
    process.exit(1);
  }
  if (process.send) await tell({ type: 'ready', ready: service.ready });
  else announce(service.ready);
  await stopped;
  await service.close();
  if (process.connected) process.disconnect();
}

function stoppedBySupervisor(): Promise<void> {
  const nothing = () => undefined;
  process.on('SIGTERM', nothing);
  process.on('SIGINT', nothing);
  return new Promise((resolve) => {
    const vanished = () => process.exit(1);
    process.on('disconnect', vanished);
    process.on('message', (message: ToChild) => {
      if (message.type !== 'stop') return;
      process.off('disconnect', vanished);
      resolve();
    });
  });
}

/** Resolves at the first SIGTERM or SIGINT; later ones change nothing. */
export function stoppedBySignal(): Promise<void> {
  return new Promise((resolve) => {
    process.on('SIGTERM', () => resolve());
    process.on('SIGINT', () => resolve());
  });
}

/** Sends a message to the parent process, if there is one that listens. */
export function tell(message: FromChild<unknown>): Promise<void> {
  return new Promise((resolve) => {
    // A parent that is gone cannot be told; 'disconnect' ends this process.
    if (process.send) process.send(message, () => resolve());
    else resolve();
  });
}
