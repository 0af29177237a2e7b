import streams from '@eventstore/db-client/generated/streams_pb.js';
import streamsService from '@eventstore/db-client/generated/streams_grpc_pb.js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import { type ClientDuplexStream, credentials } from '@grpc/grpc-js';
import empty from 'google-protobuf/google/protobuf/empty_pb.js';
import timestamp from 'google-protobuf/google/protobuf/timestamp_pb.js';
import { randomUUID } from 'node:crypto';
import { type Subject, all, event, newStream, startSubject } from './subject.js';

type Req = InstanceType<typeof streams.BatchAppendReq>;
type Resp = InstanceType<typeof streams.BatchAppendResp>;

let subject: Subject;
let client: InstanceType<typeof streamsService.StreamsClient>;
let call: ClientDuplexStream<Req, Resp>;
let answers: Resp[];
let arrived: () => void;

beforeAll(async () => {
  subject = await startSubject();
  const address = new URL(subject.url.replace(/^esdb(\+discover)?:/, 'http:')).host;
  client = new streamsService.StreamsClient(address, credentials.createInsecure());
});
afterAll(async () => {
  client.close();
  await subject.stop();
});
beforeEach(() => {
  answers = [];
  arrived = () => undefined;
  call = client.batchAppend();
  call.on('data', (answer: Resp) => {
    answers.push(answer);
    arrived();
  });
});
afterEach(() => void call.end());

interface Chunk {
  readonly correlation: string;
  readonly stream?: string;
  /** Milliseconds from now. */
  readonly deadline?: number;
  readonly types?: readonly string[];
  readonly final?: boolean;
}

const uuid = (value: string): InstanceType<typeof shared.UUID> => new shared.UUID().setString(value);

function send({ correlation, stream, deadline = 10_000, types = [], final = true }: Chunk): void {
  const request = new streams.BatchAppendReq().setCorrelationId(uuid(correlation)).setIsFinal(final);
  if (stream !== undefined) {
    const at = new timestamp.Timestamp();
    at.fromDate(new Date(Date.now() + deadline));
    const name = new shared.StreamIdentifier().setStreamName(new Uint8Array(Buffer.from(stream)));
    request.setOptions(
      new streams.BatchAppendReq.Options()
        .setStreamIdentifier(name)
        .setAny(new empty.Empty())
        .setDeadline(at),
    );
  }
  request.setProposedMessagesList(
    types.map((type) => {
      const message = new streams.BatchAppendReq.ProposedMessage().setId(uuid(randomUUID()));
      message.getMetadataMap().set('type', type).set('content-type', 'application/json');
      return message.setData(new Uint8Array(Buffer.from('{}')));
    }),
  );
  call.write(request);
}

async function answered(count: number): Promise<unknown[]> {
  while (answers.length < count) await new Promise<void>((resolve) => (arrived = resolve));
  return answers.map((answer) => ({
    correlation: answer.getCorrelationId()?.getString(),
    stream: Buffer.from(answer.getStreamIdentifier()?.getStreamName_asU8() ?? []).toString(),
    revision: answer.getSuccess()?.getCurrentRevision(),
    error: answer.getError()?.getDetails()?.getTypeUrl(),
    code: answer.getError()?.getCode(),
  }));
}

const DETAIL = 'type.googleapis.com/event_store.client.';

it('keeps chunks of several appends apart that arrive between one another', async () => {
  const [one, two] = [randomUUID(), randomUUID()];
  const [first, second] = [newStream(), newStream()];
  send({ correlation: one, stream: first, types: ['a'], final: false });
  send({ correlation: two, stream: second, types: ['x', 'y'], final: false });
  send({ correlation: one, types: ['b', 'c'], final: true });
  send({ correlation: two, types: ['z', 'w'], final: true });
  const told = await answered(2);
  expect(told).toEqual([
    { correlation: one, stream: first, revision: '2', error: undefined, code: undefined },
    { correlation: two, stream: second, revision: '3', error: undefined, code: undefined },
  ]);
  const types = (await all(subject.client.readStream(second))).map((read) => read.event!.type);
  expect(types).toEqual(['x', 'y', 'z', 'w']);
});

it('answers each refused append once, with the stream and the details, and swallows the rest of it', async () => {
  const ids = Array.from({ length: 5 }, () => randomUUID());
  const gone = newStream('größe');
  await subject.client.appendToStream(gone, event(1));
  await subject.client.tombstoneStream(gone);
  send({ correlation: ids[0]!, stream: '$all', types: ['a'], final: false });
  send({ correlation: ids[0]!, types: ['b'] });
  send({ correlation: ids[1]!, stream: newStream(), deadline: -1, types: ['a'], final: false });
  send({ correlation: ids[1]!, types: ['b'] });
  send({ correlation: ids[2]!, stream: 'named', types: ['a', ''], final: false });
  send({ correlation: ids[2]!, types: ['b'] });
  send({ correlation: ids[3]!, stream: gone, types: ['a'] });
  const good = newStream();
  send({ correlation: ids[4]!, stream: good, types: ['a'] });
  const told = await answered(5);
  const byId = new Map(told.map((one) => [(one as { correlation: string }).correlation, one]));
  expect(byId.size).toBe(5);
  expect(byId.get(ids[0]!)).toMatchObject({ error: `${DETAIL}AccessDenied`, code: 7 });
  expect(byId.get(ids[1]!)).toMatchObject({ error: `${DETAIL}Timeout`, code: 4 });
  expect(byId.get(ids[2]!)).toMatchObject({ error: `${DETAIL}BadRequest`, stream: 'named' });
  expect(byId.get(ids[3]!)).toMatchObject({
    stream: gone,
    revision: undefined,
    error: `${DETAIL}StreamDeleted`,
    code: 5,
  });
  expect(byId.get(ids[4]!)).toMatchObject({ stream: good, revision: '0', error: undefined });
});

it('answers an append whose rest does not come in time, having written nothing of it', async () => {
  const [correlation, stream] = [randomUUID(), newStream()];
  send({ correlation, stream, deadline: 50, types: ['a'], final: false });
  expect(await answered(1)).toMatchObject([{ correlation, error: `${DETAIL}Timeout` }]);
  send({ correlation, types: ['b'] });
  send({ correlation: randomUUID(), stream, types: ['c'] });
  await answered(2);
  const types = (await all(subject.client.readStream(stream))).map((read) => read.event!.type);
  expect(types).toEqual(['c']);
});

it('ends well only when everything is answered', async () => {
  const ended = new Promise<number>((resolve) => call.on('status', ({ code }) => resolve(code)));
  for (let n = 0; n < 20; n++) send({ correlation: randomUUID(), stream: newStream(), types: ['a'] });
  call.end();
  expect(await ended).toBe(0);
  expect(answers).toHaveLength(20);
});
