import {
  type AllStreamJSONRecordedEvent,
  EventStoreDBClient,
  jsonEvent,
  NO_STREAM,
  START,
  StreamNotFoundError,
} from '@eventstore/db-client';

/** One stored event, as it lies in the store: personal fields are sealed. */
export interface Stored {
  type: string;
  revision: bigint;
  position: bigint;
  data: Record<string, unknown>;
  metadata: Record<string, unknown>;
}

/** Looks into a running event store past Waymark, with the plain client. */
export class StreamReader {
  readonly client: EventStoreDBClient;

  constructor(eventStoreUrl: string) {
    this.client = EventStoreDBClient.connectionString(eventStoreUrl);
  }

  /** A stream's events; none if it does not exist. */
  async read(stream: string): Promise<Stored[]> {
    const events: Stored[] = [];
    try {
      for await (const { event } of this.client.readStream(stream, { fromRevision: START }))
        if (event) events.push(stored(event as unknown as AllStreamJSONRecordedEvent));
    } catch (error) {
      if (!(error instanceof StreamNotFoundError)) throw error;
    }
    return events;
  }

  async types(stream: string): Promise<string[]> {
    return (await this.read(stream)).map((event) => event.type);
  }

  /** Waits until a stream has an event of a type, by subscribing to it. */
  async until(stream: string, type: string): Promise<Stored> {
    const subscription = this.client.subscribeToStream(stream, { fromRevision: START });
    try {
      for await (const { event } of subscription)
        if (event?.type === type) return stored(event as unknown as AllStreamJSONRecordedEvent);
    } finally {
      await subscription.unsubscribe();
    }
    throw new Error(`the subscription to ${stream} ended before ${type}`);
  }

  /** Appends so many small events, a thousand to a stream, in a category that Waymark does not know. */
  async fill(category: string, count: number): Promise<void> {
    const batch = 1_000;
    for (let at = 0; at < count; at += batch) {
      const events = Array.from({ length: Math.min(batch, count - at) }, (_, index) =>
        jsonEvent({ type: 'Filled', data: { number: at + index } }),
      );
      await this.client.appendToStream(`${category}-${at}`, events, { expectedRevision: NO_STREAM });
    }
  }

  close(): Promise<void> {
    return this.client.dispose();
  }
}

function stored(event: AllStreamJSONRecordedEvent): Stored {
  return {
    type: event.type,
    revision: event.revision,
    position: event.position.commit,
    data: event.data as Record<string, unknown>,
    metadata: event.metadata as Record<string, unknown>,
  };
}
