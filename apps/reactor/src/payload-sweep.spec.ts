import { heldRun, RunningApi, worker } from '#test/api';
import { EventStore, streamName } from '#libs/event-store';
import { Payloads } from '#libs/payloads';
import { Clock, Log } from '#apps/platform';
import { PayloadSweep } from './payload-sweep.js';

let api: RunningApi;
beforeAll(async () => {
  api = await RunningApi.start({ WAYMARK_INLINE_STATE_LIMIT: '1 KiB' });
});
afterAll(() => api.close());

it('removes a payload that was put and never cited, an hour later, and leaves the cited ones', async () => {
  const { runId, path, lease } = await heldRun(api);
  const state = 'x'.repeat(2000);
  const saved = await api.send('PUT', `${path}/checkpoint`, { as: worker, headers: lease, body: { state } });
  expect(saved.status).toBe(200);
  const payloads = api.app.get(Payloads);
  const customerId = String((await api.send('GET', path, { as: worker })).body.customerId);
  const began = api.clock.now();
  await payloads.put(
    'acme',
    customerId,
    streamName('run', 'acme', runId),
    'left by a crash',
    new Date(began),
  );
  const sweep = new PayloadSweep(payloads, api.app.get(EventStore), api.app.get(Clock), api.app.get(Log));
  expect(await sweep.sweep()).toBe(0);
  api.clock.stopAt(began + 3_600_001);
  expect(await sweep.sweep()).toBe(1);
  expect(await sweep.sweep()).toBe(0);
  api.clock.stopAt(undefined);
  await api.restart();
  const { body } = await api.send('GET', `${path}/checkpoint`, { as: worker });
  expect(body.workerState).toMatchObject({ state });
});

it('stops within a stream at shutdown', async () => {
  const { path, runId } = await heldRun(api);
  const customerId = String((await api.send('GET', path, { as: worker })).body.customerId);
  const payloads = api.app.get(Payloads);
  await payloads.put('acme', customerId, streamName('run', 'acme', runId), 'left by a crash', new Date(0));
  const events = api.app.get(EventStore);
  let read = 0;
  let stopped: Promise<void> | undefined;
  const stopping = Object.assign(Object.create(events) as EventStore, {
    async *read(stream: string) {
      for await (const event of events.read(stream)) {
        read += 1;
        stopped ??= sweep.beforeApplicationShutdown();
        yield event;
      }
    },
  });
  const sweep = new PayloadSweep(payloads, stopping, api.app.get(Clock), api.app.get(Log));
  await expect(sweep.sweep()).rejects.toMatchObject({ name: 'AbortError' });
  await stopped;
  expect(read).toBe(1);
});
