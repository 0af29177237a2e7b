import { randomUUID } from 'node:crypto';
import { Installation, StreamReader } from '#test/support';

/** Real processes take their time on a busy machine. */
jest.setTimeout(60_000);

const workflow = { name: 'motor-loss', version: '1' };
const done = (stepId: string) => ({
  stepId,
  name: stepId,
  kind: 'tool',
  status: 'completed',
  output: stepId,
});

describe('a run whose read model stood still', () => {
  let installation: Installation;
  beforeAll(async () => {
    installation = await Installation.create();
  });
  afterAll(() => installation.remove());

  it('P01: goes on with the step after the last that was acknowledged', async () => {
    const [events, documents] = await Promise.all([
      installation.engines(['--event-store']),
      installation.engines(['--document-store']),
    ]);
    const urls = {
      WAYMARK_EVENTSTORE_URL: events.ready.eventStoreUrl ?? '',
      WAYMARK_MONGODB_URL: documents.ready.mongoUrl ?? '',
    };
    const server = await installation.start(urls);
    const assistant = await server.as('assistant');
    const runId = randomUUID();
    const path = `/v1/runs/${runId}`;
    await assistant('POST', '/v1/runs', { runId, workflow, customerId: randomUUID() });
    const resumed = await assistant('POST', `${path}/resume`, { workerId: 'w' });
    const lease = { 'waymark-lease': String(resumed.body.leaseToken) };

    await documents.kill();
    expect(await assistant('POST', `${path}/steps`, done('s1'), lease)).toMatchObject({ status: 200 });
    await Promise.all([server.kill(), events.kill()]);

    const again = await installation.start();
    const same = await again.as('assistant');
    const { body } = await same('POST', `${path}/resume`, { workerId: 'w' });
    expect(body.run).toMatchObject({
      steps: { total: 1, completed: 1, recent: [{ stepId: 's1', status: 'completed' }] },
    });
    const newLease = { 'waymark-lease': String(body.leaseToken) };
    expect(await same('POST', `${path}/steps`, done('s1'), newLease)).toMatchObject({ status: 200 });
    expect(await same('POST', `${path}/steps`, done('s2'), newLease)).toMatchObject({ status: 200 });

    const streams = new StreamReader(again.eventStoreUrl);
    const steps = (await streams.read(`run-acme.${runId}`)).filter((event) => event.type === 'StepCompleted');
    expect(steps.map((event) => event.data.stepId)).toEqual(['s1', 's2']);
    await streams.close();
  });
});
