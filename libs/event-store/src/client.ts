import { setTimeout as delay } from 'node:timers/promises';
import { EventStoreDBClient } from '@eventstore/db-client';
import { NoAnswer } from './translate.js';

const ANSWER_MS = 4000;

/** What the store has beyond its deadline for the answer to arrive. */
const GRACE_MS = 500;
const KEEP_ALIVE_MS = { every: 10_000, answered: 5000 };

/** How long a client that is given up may take over its open calls. */
const LONGEST_DISPOSAL_MS = 1_000;

let clients = 0;

/**
 * The client of EventStoreDB, made anew when it got no answer.
 *
 * The client makes a new channel by itself after the store was unavailable (protocol 1.6). It has no timer of its
 * own for batch appends, reads and the feature list: here each has one, and when it expires the client is replaced,
 * since whatever else waits on that channel waits in vain.
 */
export class Client {
  private client: Promise<EventStoreDBClient>;
  private closed = false;

  /** @param answerMs within which the store answers an append, and every next event of a read, before it counts as gone. */
  constructor(
    private readonly url: string,
    readonly answerMs = ANSWER_MS,
  ) {
    this.client = Promise.resolve(this.newClient());
  }

  get current(): Promise<EventStoreDBClient> {
    return this.client;
  }

  /** Whether it is still the one in use: a read that is cut short because its client is disposed of looks like one that ended. */
  uses(client: Promise<EventStoreDBClient>): boolean {
    return this.client === client && !this.closed;
  }

  /** What the client promised. @throws NoAnswer when that is late; then nobody uses that client again. */
  async inTime<Result>(client: EventStoreDBClient, promised: Promise<Result>): Promise<Result> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new NoAnswer()), this.answerMs + GRACE_MS);
    });
    try {
      return await Promise.race([promised, late]);
    } catch (error) {
      if (error instanceof NoAnswer) await this.replace(client);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** The old client is disposed of before the new one is used: they share the table of pending appends (protocol 2.5). */
  async replace(client: EventStoreDBClient): Promise<void> {
    const current = await this.client;
    if (current !== client || this.closed) return;
    this.client = disposeOf(client).then(() => this.newClient());
    await this.client;
  }

  async close(): Promise<void> {
    this.closed = true;
    await disposeOf(await this.client);
  }

  /** Channels of equal settings share a TCP connection: each client's differ by a millisecond, so it has its own. */
  private newClient(): EventStoreDBClient {
    const [base = '', query = ''] = this.url.split('?');
    const options = new URLSearchParams(query);
    options.set('keepAliveInterval', String(KEEP_ALIVE_MS.every));
    options.set('keepAliveTimeout', String(KEEP_ALIVE_MS.answered + clients++));
    return EventStoreDBClient.connectionString(`${base}?${options.toString()}`);
  }
}

/** The client waits for its open calls to end, and for one that was left while answers to it waited it would for ever. */
async function disposeOf(client: EventStoreDBClient): Promise<void> {
  const disposed = new AbortController();
  const late = delay(LONGEST_DISPOSAL_MS, undefined, { signal: disposed.signal });
  try {
    await Promise.race([client.dispose(), late.catch(() => 'disposed in time')]);
  } finally {
    disposed.abort();
  }
}
