import type { MessagePort, Worker } from 'node:worker_threads';
import { ReadModelUnavailable } from '#libs/projecting';

type Replied = { readonly answer: unknown } | { readonly failed: string; readonly unavailable: boolean };

/** One end of a channel between two threads of a process. */
type Port = MessagePort | Worker;

interface Waiting {
  readonly answer: (given: never) => void;
  readonly fail: (error: Error) => void;
}

/** Asks over a port. What was asked is answered or fails, whatever order and however late the replies come in. */
export class Questions<Question> {
  private readonly waiting = new Map<number, Waiting>();
  private asked = 0;
  private over = false;

  constructor(private readonly port: Port) {
    port.on('message', (reply: { readonly id: number } & Replied) => {
      const waiting = this.waiting.get(reply.id);
      this.waiting.delete(reply.id);
      if ('answer' in reply) waiting?.answer(reply.answer as never);
      else
        waiting?.fail(reply.unavailable ? new ReadModelUnavailable(reply.failed) : new Error(reply.failed));
    });
  }

  /** @throws ReadModelUnavailable where the other end threw it, or is gone; an `Error` for all else that it threw. */
  ask<Answer>(question: Question): Promise<Answer> {
    if (this.over) return Promise.reject(gone());
    return new Promise((answer, fail) => {
      const id = ++this.asked;
      this.waiting.set(id, { answer, fail });
      this.port.postMessage({ id, question });
    });
  }

  /** The other end is gone: who waits fails, and so does who asks from now on. */
  end(): void {
    this.over = true;
    for (const { fail } of this.waiting.values()) fail(gone());
    this.waiting.clear();
  }
}

function gone(): ReadModelUnavailable {
  return new ReadModelUnavailable('the projections have stopped');
}

/** Answers what is asked over a port; an answer that throws, or that no message can carry, fails at who asked. */
export function answerOn<Question>(port: Port, answer: (question: Question) => Promise<unknown>): void {
  const reply = async (id: number, question: Question): Promise<void> => {
    try {
      port.postMessage({ id, answer: await answer(question) });
    } catch (error) {
      const unavailable = error instanceof ReadModelUnavailable;
      port.postMessage({ id, failed: error instanceof Error ? error.message : String(error), unavailable });
    }
  };
  port.on('message', (message: { readonly id: number; readonly question: Question } | 'stop') => {
    if (message !== 'stop') void reply(message.id, message.question);
  });
}
