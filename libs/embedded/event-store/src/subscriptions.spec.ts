import { EventEmitter } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Outlet } from './outlet.js';
import { shared, streams } from './protocol.js';
import { EventStore } from './store.js';
import { subscribe } from './subscriptions.js';

/** The server's side of a call whose client takes `credit` messages, then nothing until it is given more. */
class SlowCall extends EventEmitter {
  readonly taken: Buffer[] = [];
  constructor(private credit: number) {
    super();
  }
  write(message: Buffer): boolean {
    this.taken.push(message);
    return --this.credit > 0;
  }
  end(): void {
    this.emit('cancelled');
  }
  take(credit: number): void {
    this.credit = credit;
    this.emit('drain');
  }
  hold(): boolean {
    return true;
  }
  release(): void {
    return;
  }
}

let folder: string;
let store: EventStore;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-subscriptions-'));
  store = new EventStore({ folder, salt: 1, segmentBytes: 1 << 26, onNotice: () => undefined });
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
};

const everything = () =>
  new streams.ReadReq.Options()
    .setAll(new streams.ReadReq.Options.AllOptions().setStart(new shared.Empty()))
    .setSubscription(new streams.ReadReq.Options.SubscriptionOptions());

it('fetches no page for a client that takes nothing, and holds one page for it at most', async () => {
  const events = Array.from({ length: 1000 }, (_, n) => ({
    id: Buffer.from(String(n).padStart(16, '0')),
    type: Buffer.from('happened'),
    json: true,
    metadata: Buffer.alloc(0),
    data: Buffer.alloc(1000),
  }));
  await store.append('slow', 'no_stream', events);
  const pages = jest.spyOn(store.reader, 'allPage');
  const call = new SlowCall(4);
  const outlet = new Outlet(call);
  const ended = subscribe(store, everything(), outlet, () => true);
  await turns(20);
  expect(call.taken).toHaveLength(4);
  for (let n = 0; n < 50; n++) await store.append('other', 'any', []);
  await turns(20);
  expect([call.taken.length, pages.mock.calls.length]).toEqual([4, 1]);
  call.take(2000);
  while (call.taken.length < 1002) await turns(1);
  expect(pages.mock.calls.length).toBeGreaterThan(1000 / 128);
  expect(call.taken).toHaveLength(1002);
  call.end();
  expect(await ended).toBe('closed');
});
