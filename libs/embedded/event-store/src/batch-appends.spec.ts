import { EventEmitter } from 'node:events';
import type { AccessLists } from './access/lists.js';
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
  hold(): boolean {
    return true;
  }
  release(): void {
    return;
  }
}

const access = { may: () => true } as unknown as AccessLists;

const ID = '0b6a3c1e-8a54-4c57-b0f6-7f4f5b9a2c02';

function request(deadline: number, { id = ID, final = true, bytes = 0 } = {}): Buffer {
  const at = new timestamp.Timestamp();
  at.fromDate(new Date(deadline));
  const name = new shared.StreamIdentifier().setStreamName(new Uint8Array(Buffer.from('s')));
  const options = new streams.BatchAppendReq.Options()
    .setStreamIdentifier(name)
    .setAny(new empty.Empty())
    .setDeadline(at);
  const message = new streams.BatchAppendReq().setCorrelationId(new shared.UUID().setString(id));
  const event = new streams.BatchAppendReq.ProposedMessage()
    .setId(new shared.UUID().setString(ID))
    .setData(new Uint8Array(bytes));
  event.getMetadataMap().set('type', 'happened').set('content-type', 'application/octet-stream');
  if (bytes > 0) message.addProposedMessages(event);
  return Buffer.from(message.setOptions(options).setIsFinal(final).serializeBinary());
}

const idOf = (n: number): string => ID.slice(0, -4) + String(n).padStart(4, '0');

function openCall(call: Call, maxAppendBytes: number): void {
  const store = { draining: false, overloaded: false, hasRoom: () => Promise.resolve() };
  new BatchAppendCall(call as unknown as ConstructorParameters<typeof BatchAppendCall>[0], {
    store: store as unknown as EventStore,
    maxAppendBytes,
    calls: new OpenCalls(),
    access,
  });
}
const refusals = (call: Call) => call.answers.map((answer) => answer.getError()?.getMessage());

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
  new BatchAppendCall(call as unknown as ConstructorParameters<typeof BatchAppendCall>[0], {
    store,
    maxAppendBytes: 1024,
    calls,
    access,
  });
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

it('takes no more input while refusals are not read', async () => {
  const call = Object.assign(new Call(), { pause: jest.fn(), resume: jest.fn() });
  const write = jest.spyOn(call, 'write').mockReturnValue(false);
  openCall(call, 1024);
  call.emit('data', request(Date.now() - 1));
  expect([write.mock.calls.length, call.pause.mock.calls.length]).toEqual([1, 1]);
  call.emit('drain');
  await new Promise((resolve) => setImmediate(resolve));
  expect(call.resume).toHaveBeenCalledTimes(1);
  call.emit('cancelled');
});

it('holds at most 64 unfinished appends of a call', () => {
  const call = new Call();
  openCall(call, 1024);
  for (let n = 0; n < 65; n++) call.emit('data', request(Date.now() + 3000, { id: idOf(n), final: false }));
  expect(refusals(call)).toEqual([expect.stringContaining('at most 64 unfinished appends')]);
  call.emit('cancelled');
  expect(jest.getTimerCount()).toBe(0);
});

it('holds at most 20 MiB of unfinished appends of a call', () => {
  const call = new Call();
  openCall(call, 8 << 20);
  for (let n = 0; n < 3; n++)
    call.emit('data', request(Date.now() + 3000, { id: idOf(n), final: false, bytes: 7 << 20 }));
  expect(refusals(call)).toEqual([expect.stringContaining('at most 20971520 bytes together')]);
  call.emit('cancelled');
});
