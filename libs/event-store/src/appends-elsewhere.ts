import { type MessagePort, Worker } from 'node:worker_threads';
import type { Appends } from './appends.js';
import { StoreUnavailable, StreamNotFound } from './errors.js';
import { LostRace, type StoredEventBody, UncertainAppend } from './translate.js';

type ToThread =
  | {
      readonly id: number;
      readonly stream: string;
      readonly events: readonly StoredEventBody[];
      readonly after: bigint;
    }
  | 'close';
type Outcome =
  | { readonly id: number; readonly position: bigint }
  | { readonly id: number; readonly failure: string; readonly message: string };
type FromThread = readonly Outcome[] | 'closed';

/**
 * Appends through a thread of this process, with a client of its own. An append takes as much of a thread as the
 * command that it is of, and what the client has sent leaves between two turns of the event loop: beside commands it
 * waits for theirs. The thread is as good as the process: an error that ends it ends the process.
 *
 * @param answerMs within which the store answers an append before it counts as gone.
 */
export function appendingThread(url: string, answerMs?: number): Appends {
  const thread = new Worker(new URL('./appending-thread.js', import.meta.url), {
    workerData: { url, answerMs },
  });
  return new AppendsElsewhere(thread);
}

/** The end of a port where appends are asked for; `serveAppends` is at the other. */
export class AppendsElsewhere implements Appends {
  private readonly waiting = new Map<
    number,
    { stream: string; resolve: (position: bigint) => void; reject: (error: Error) => void }
  >();
  private asked = 0;
  private closing: Promise<void> | undefined;
  private closed: () => void = () => undefined;

  constructor(private readonly port: MessagePort | Worker) {
    port.on('message', (message: FromThread) => {
      if (message === 'closed') this.closed();
      else for (const outcome of message) this.settle(outcome);
    });
  }

  append(stream: string, events: readonly StoredEventBody[], after: bigint): Promise<bigint> {
    if (this.closing) return Promise.reject(new StoreUnavailable('the event store is closed'));
    return new Promise((resolve, reject) => {
      const id = ++this.asked;
      this.waiting.set(id, { stream, resolve, reject });
      this.port.postMessage({ id, stream, events, after } satisfies ToThread);
    });
  }

  /** Appends under way are answered before. */
  close(): Promise<void> {
    this.closing ??= new Promise((resolve) => {
      this.closed = resolve;
      this.port.postMessage('close' satisfies ToThread);
    });
    return this.closing;
  }

  private settle(outcome: Outcome): void {
    const waiting = this.waiting.get(outcome.id);
    this.waiting.delete(outcome.id);
    if ('position' in outcome) waiting?.resolve(outcome.position);
    else waiting?.reject(failure(outcome.failure, outcome.message, waiting.stream));
  }
}

/** Appends what is asked for through a port. Outcomes of one turn of the event loop go back together. */
export function serveAppends(port: MessagePort, appends: Appends): void {
  const underWay = new Set<Promise<void>>();
  let outcomes: Outcome[] = [];
  const tell = (outcome: Outcome): void => {
    if (outcomes.push(outcome) === 1) setImmediate(flush);
  };
  const flush = (): void => {
    if (outcomes.length > 0) port.postMessage(outcomes satisfies FromThread);
    outcomes = [];
  };
  const close = async (): Promise<void> => {
    await Promise.all(underWay);
    await appends.close();
    flush();
    port.postMessage('closed' satisfies FromThread);
    port.close();
  };
  port.on('message', (message: ToThread) => {
    if (message === 'close') return void close();
    const { id, stream, events, after } = message;
    const task = appends.append(stream, events, after).then(
      (position) => tell({ id, position }),
      (error: Error) => tell({ id, failure: kindOf(error), message: error.message }),
    );
    underWay.add(task);
    void task.then(() => underWay.delete(task));
  });
}

const FAILURES: Readonly<Record<string, (message: string, stream: string) => Error>> = {
  'lost-race': () => new LostRace(),
  uncertain: (message) => new UncertainAppend(message),
  'not-found': (_, stream) => new StreamNotFound(stream),
  unavailable: (message) => new StoreUnavailable(message),
};

/** An error does not keep its class on its way to another thread. */
function kindOf(error: Error): string {
  if (error instanceof LostRace) return 'lost-race';
  if (error instanceof UncertainAppend) return 'uncertain';
  if (error instanceof StreamNotFound) return 'not-found';
  return error instanceof StoreUnavailable ? 'unavailable' : 'refused';
}

function failure(kind: string, message: string, stream: string): Error {
  return FAILURES[kind]?.(message, stream) ?? new Error(message);
}
