import { streamName } from '#libs/event-store';
import { EventStore } from '#libs/event-store';
import {
  customer,
  dana,
  elsewhere,
  erin,
  heldRun,
  otherWorker,
  RunningApi,
  sam,
  stranger,
  worker,
} from '#test/api';

let api: RunningApi;
beforeAll(async () => {
  api = await RunningApi.start();
});
afterAll(() => api.close());

const profile = `/v1/profiles/${erin}`;
const codeOf = ({ status, body }: { status: number; body: Record<string, unknown> }) => [status, body.code];
const read = async (as = customer, query = '') => (await api.send('GET', `${profile}${query}`, { as })).body;

async function propose(runId: string, more: object = {}, as = worker, headers = {}) {
  const body = { key: 'contact.channel', value: 'sms', runId, quoteMessageId: 'message-7', ...more };
  return api.send('POST', `${profile}/proposals`, { as, body, headers });
}
const decide = (proposalId: unknown, decision: string, as = customer) =>
  api.send('POST', `${profile}/proposals/${String(proposalId)}/decision`, { as, body: { decision } });

async function stored(): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const { type, data } of api.app.get(EventStore).read(streamName('profile', 'acme', erin)))
    found.push({ type, data });
  return found;
}

describe('a preference profile', () => {
  it('P94: changes by its customer alone; a proposal only waits', async () => {
    expect(await read()).toEqual({ customerId: erin, preferences: [], proposals: [] });
    const { runId } = await heldRun(api);
    const proposed = await propose(runId);
    expect(proposed).toMatchObject({ status: 201, body: { status: 'pending', revision: '1' } });
    const { proposalId } = proposed.body;
    const waiting = await read();
    expect(waiting).toMatchObject({
      preferences: [],
      proposals: [{ proposalId, key: 'contact.channel', value: 'sms' }],
    });
    expect(await read(worker)).toEqual({ customerId: erin, preferences: [] });

    for (const as of [worker, dana, sam, stranger, elsewhere])
      expect((await decide(proposalId, 'approve', as)).status).toBe(as === worker ? 403 : 404);
    expect(
      codeOf(
        await api.send('PUT', `${profile}/preferences/contact.channel`, {
          as: worker,
          body: { value: 'sms' },
        }),
      ),
    ).toEqual([403, 'not-permitted']);

    const approved = await decide(proposalId, 'approve');
    expect(approved).toMatchObject({ status: 200, body: { proposalId, status: 'approved' } });
    const source = {
      kind: 'proposal',
      proposalId,
      runId,
      quoteMessageId: 'message-7',
      proposedBy: worker.sub,
    };
    const preference = { key: 'contact.channel', value: 'sms', approvedBy: 'erin', source };
    expect(await read(worker)).toMatchObject({ customerId: erin, preferences: [preference] });
    const again = await decide(proposalId, 'approve');
    expect(again.body.revision).toBe(approved.body.revision);
    expect(codeOf(await decide(proposalId, 'reject'))).toEqual([409, 'already-decided']);
    expect(JSON.stringify(await stored())).not.toContain('"sms"');
  });

  it('is set and withdrawn by its customer, and refuses what is in no catalogue', async () => {
    const put = (key: string, value: unknown) =>
      api.send('PUT', `${profile}/preferences/${key}`, { as: customer, body: { value } });
    expect(await put('contact.language', 'de-AT')).toMatchObject({ status: 200, body: { value: 'de-AT' } });
    const kept = (await stored()).length;
    for (const [key, value, code] of [
      ['approve-under-5000', 'always', 'unknown-preference'],
      ['constructor', 'x', 'unknown-preference'],
      ['contact.channel', 'pigeon', 'invalid-preference'],
      ['contact.channel', { $ne: 1 }, 'invalid-body'],
      ['contact.hours', 'a\0b', 'invalid-preference'],
    ] as const)
      expect([key, ...codeOf(await put(key, value))]).toEqual([key, 400, code]);
    expect((await stored()).length).toBe(kept);
    const remove = (key: string) => api.send('DELETE', `${profile}/preferences/${key}`, { as: customer });
    expect(await remove('contact.language')).toMatchObject({ status: 200, body: { withdrawn: true } });
    expect((await remove('contact.language')).status).toBe(200);
    expect(codeOf(await remove('payout.method'))).toEqual([404, 'not-found']);
    expect(((await read()).preferences as { key: string }[]).map(({ key }) => key)).not.toContain(
      'contact.language',
    );
  });

  it('is shown to an assistant while it holds the lease of a run of the customer', async () => {
    for (const as of [dana, sam, stranger, elsewhere, otherWorker])
      expect([as.sub, ...codeOf(await api.send('GET', profile, { as }))]).toEqual([as.sub, 404, 'not-found']);
    const run = await heldRun(api, otherWorker);
    const named = `?runId=${run.runId}`;
    expect(await read(otherWorker)).toMatchObject({ customerId: erin });
    expect(await read(otherWorker, named)).toMatchObject({ customerId: erin });
    const unread = await api.send('GET', `/v1/profiles/${String(stranger.customerId)}${named}`, {
      as: otherWorker,
    });
    expect(codeOf(unread)).toEqual([404, 'not-found']);
    await api.send('POST', `${run.path}/complete`, { as: otherWorker, headers: run.lease });
    expect(codeOf(await api.send('GET', profile, { as: otherWorker }))).toEqual([404, 'not-found']);
    expect(codeOf(await propose(run.runId, {}, otherWorker))).toEqual([409, 'run-ended']);
  });

  it('takes a proposal once, however often it is sent, and only from the run’s worker', async () => {
    const { runId } = await heldRun(api);
    const headers = { 'idempotency-key': 'one' };
    const first = await propose(runId, { key: 'payout.method', value: 'cheque' }, worker, headers);
    const second = await propose(runId, { key: 'payout.method', value: 'cheque' }, worker, headers);
    expect(second.body).toEqual(first.body);
    expect(second.headers['idempotency-replayed']).toBe('true');
    expect(codeOf(await propose(runId, {}, otherWorker))).toEqual([404, 'not-found']);
    expect(codeOf(await propose(runId, {}, customer))).toEqual([403, 'not-permitted']);
  });
});

describe('with the document store down', () => {
  it('profiles of which the run is named are read from their streams', async () => {
    const alone = await RunningApi.start();
    try {
      const { runId } = await heldRun(alone);
      await alone.engines.stopDocuments();
      const get = (query: string) => alone.send('GET', `${profile}${query}`, { as: worker });
      expect(await get(`?runId=${runId}`)).toMatchObject({
        status: 200,
        body: { customerId: erin, preferences: [] },
      });
      const body = { key: 'contact.channel', value: 'post', runId };
      const proposed = await alone.send('POST', `${profile}/proposals`, { as: worker, body });
      expect(proposed.status).toBe(201);
      expect((await alone.send('GET', profile, { as: customer })).body).toMatchObject({
        proposals: [{ value: 'post' }],
      });
      expect((await get('')).status).toBe(503);
    } finally {
      await alone.close();
    }
  });
});
