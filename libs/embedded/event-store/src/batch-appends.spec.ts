import { EventEmitter } from 'node:events';
import { BatchAppendCall } from './batch-appends.js';
import { OpenCalls } from './outlet.js';
import { empty, shared, streams } from './protocol.js';
import timestamp from 'google-protobuf/google/protobuf/timestamp_pb.js';
import type { Answer, EventStore } from './store.js';

class Call extends EventEmitter {
  readonly answers: InstanceType<typeof streams.BatchAppendResp>[] = [];
  ended = false;
  write(bytes: Buffer): boolean {
    return this.answers.push(streams.BatchAppendResp.deserializeBinary(bytes)) > 0;
  }
  end(): void {
    this.ended = true;
  }
}

const ID = '0b6a3c1e-8a54-4c57-b0f6-7f4f5b9a2c02';

function request(deadline: number): Buffer {
  const at = new timestamp.Timestamp();
  at.fromDate(new Date(deadline));
  const name = new shared.StreamIdentifier().setStreamName(new Uint8Array(Buffer.from('s')));
  const options = new streams.BatchAppendReq.Options()
    .setStreamIdentifier(name)
    .setAny(new empty.Empty())
    .setDeadline(at);
  const message = new streams.BatchAppendReq().setCorrelationId(new shared.UUID().setString(ID));
  return Buffer.from(message.setOptions(options).setIsFinal(true).serializeBinary());
}

beforeEach(() => jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate'] }));
afterEach(() => jest.useRealTimers());

it('answers an append that the disk holds up at its deadline, and only then', async () => {
  let release = (_answer: Answer): void => undefined;
  const store = {
    draining: false,
    overloaded: false,
    append: () => new Promise<Answer>((resolve) => (release = resolve)),
  } as unknown as EventStore;
  const call = new Call();
  const calls = new OpenCalls();
  new BatchAppendCall(
    call as unknown as ConstructorParameters<typeof BatchAppendCall>[0],
    store,
    1024,
    calls,
  );
  call.emit('data', request(Date.now() + 3000));
  call.emit('end');
  jest.advanceTimersByTime(2900);
  expect([call.answers.length, call.ended]).toEqual([0, false]);
  jest.advanceTimersByTime(600);
  release({ kind: 'written', revision: 0, position: 1 });
  await new Promise((resolve) => setImmediate(resolve));
  const told = call.answers.map((answer) => answer.getError()?.getDetails()?.getTypeUrl());
  expect([told, call.ended]).toEqual([['type.googleapis.com/event_store.client.Timeout'], true]);
  expect(jest.getTimerCount()).toBe(0);
});
