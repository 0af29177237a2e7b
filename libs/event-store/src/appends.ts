import { setDefaultHighWaterMark } from 'node:stream';
import { NO_STREAM } from '@eventstore/db-client';
import { Client } from './client.js';
import { Slots } from './slots.js';
import { type StoredEventBody, appendFailure, proposed } from './translate.js';

/** What appends to the streams of an installation. */
export interface Appends {
  /**
   * Appends after the revision that was read (-1: the stream must not exist), and gives the position of the last
   * event once the store has it on disk. All or nothing.
   *
   * @throws LostRace, UncertainAppend, StoreUnavailable (nothing was sent), StreamNotFound, or an Error for what the
   * store refuses.
   */
  append(stream: string, events: readonly StoredEventBody[], after: bigint): Promise<bigint>;
  close(): Promise<void>;
}

/**
 * Appends handed to the client at once. The client writes them to one gRPC stream; those that wait for room in its
 * buffer are rejected, when the stream breaks, as promises nobody holds, which ends a Node process. So the buffer
 * has room for one more than that. What is appended together costs less: one flush of the store, one write of the
 * socket.
 */
const APPENDS_AT_ONCE = 63;

/** One append is one message of the batch stream, whatever its size. */
const ONE_MESSAGE = 64 * 1024 * 1024;

/**
 * Appends through a client of this thread's own. The client's table of pending appends is one for a thread (protocol
 * 2.5), so a thread has one of these.
 */
export class ClientAppends implements Appends {
  private readonly client: Client;
  private readonly slots = new Slots(APPENDS_AT_ONCE);

  /** @param answerMs within which the store answers an append before it counts as gone. */
  constructor(url: string, answerMs?: number) {
    // The client gives no setting for it: a stream of objects takes what the process takes by default (16).
    setDefaultHighWaterMark(true, APPENDS_AT_ONCE + 1);
    this.client = new Client(url, answerMs);
  }

  append(stream: string, events: readonly StoredEventBody[], after: bigint): Promise<bigint> {
    const expectedRevision = after < 0n ? NO_STREAM : after;
    return this.slots.use(async () => {
      const client = await this.client.current;
      const sent = client.appendToStream(stream, events.map(proposed), {
        expectedRevision,
        deadline: this.client.answerMs,
        batchAppendSize: ONE_MESSAGE,
      });
      try {
        const { position } = await this.client.inTime(client, sent);
        if (!position) throw new Error('the event store tells no positions: it is older than version 22.6');
        return position.commit;
      } catch (error) {
        throw appendFailure(error, stream);
      }
    });
  }

  close(): Promise<void> {
    return this.client.close();
  }
}
