import { type ServerWritableStream, Server, ServerCredentials } from '@grpc/grpc-js';
import { StreamsService } from '@eventstore/db-client/generated/streams_grpc_pb.js';
import { StreamIdentifier, UUID } from '@eventstore/db-client/generated/shared_pb.js';
import { type ReadReq, ReadResp } from '@eventstore/db-client/generated/streams_pb.js';
import { Connection } from './connection.js';
import { Slots } from './slots.js';

const beyond = 2n ** 53n + 1n;

/** An event of a stream, as a store would send it whose numbers are beyond what a double can tell apart. */
function largeEvent(): ReadResp {
  const id = new UUID();
  id.setString('3f1a4c1e-0b55-4f0e-9a55-0a7d5a1f0009');
  const stream = new StreamIdentifier();
  stream.setStreamName(Buffer.from('run-acme.x').toString('base64'));
  const recorded = new ReadResp.ReadEvent.RecordedEvent();
  recorded.setId(id);
  recorded.setStreamIdentifier(stream);
  recorded.setStreamRevision(String(beyond));
  recorded.setCommitPosition(String(beyond + 2n));
  recorded.setPreparePosition(String(beyond + 2n));
  recorded.getMetadataMap().set('type', 'Added').set('content-type', 'application/json').set('created', '0');
  recorded.setData(Buffer.from('{}').toString('base64'));
  const event = new ReadResp.ReadEvent();
  event.setEvent(recorded);
  const answer = new ReadResp();
  answer.setEvent(event);
  return answer;
}

describe('the real client', () => {
  it('P13: takes and hands out revisions and positions as bigint, exact beyond 2^53', async () => {
    const asked: string[] = [];
    const server = new Server();
    server.addService(StreamsService, {
      read: (call: ServerWritableStream<ReadReq, ReadResp>) => {
        asked.push(call.request.getOptions()!.getStream()!.getRevision());
        call.write(largeEvent());
        call.end();
      },
    });
    const port = await new Promise<number>((resolve, reject) =>
      server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      ),
    );
    const connection = new Connection(`esdb://127.0.0.1:${port}?tls=false`);
    const events = [];
    for await (const event of connection.read('run-acme.x', beyond)) events.push(event);
    expect(asked).toEqual(['9007199254740993']);
    expect(events).toMatchObject([{ revision: beyond, position: beyond + 2n }]);
    await connection.close();
    server.forceShutdown();
  });
});

describe('slots', () => {
  it('let so many run at once and no more, in order, also when some fail', async () => {
    const slots = new Slots(3);
    const order: number[] = [];
    let running = 0;
    let most = 0;
    const tasks = Array.from({ length: 20 }, (_, index) =>
      slots.use(async () => {
        order.push(index);
        most = Math.max(most, ++running);
        await Promise.resolve();
        running--;
        if (index % 4 === 0) throw new Error('some fail');
      }),
    );
    const ends = await Promise.allSettled(tasks);
    expect(most).toBe(3);
    expect(order).toEqual(Array.from({ length: 20 }, (_, index) => index));
    expect(ends.filter(({ status }) => status === 'rejected')).toHaveLength(5);
    expect(running).toBe(0);
  });
});
