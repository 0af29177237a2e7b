import { type Caller, customer, dana, heldRun, otherWorker, RunningApi, stranger, worker } from '#test/api';

let api: RunningApi;
beforeAll(async () => {
  api = await RunningApi.start();
});
afterAll(() => api.close());

const officer: Caller = { sub: 'pia', role: 'privacy-officer' };
const codeOf = ({ status, body }: { status: number; body: Record<string, unknown> }) => [status, body.code];

async function begun(as = customer): Promise<string> {
  const answer = await api.send('POST', '/v1/conversations', {
    as,
    body: { customerId: customer.customerId },
  });
  expect(answer.status).toBe(201);
  return `/v1/conversations/${String(answer.body.conversationId)}`;
}
const say = (path: string, as: Caller, role: string, text = 'hello', headers = {}) =>
  api.send('POST', `${path}/messages`, { as, headers, body: { role, text } });
const read = (path: string, as: Caller, query = '') => api.send('GET', `${path}/messages${query}`, { as });

describe('a conversation', () => {
  it('is between the customer, the assistant that works for them, and staff', async () => {
    const path = await begun();
    await heldRun(api);
    const said = [
      await say(path, customer, 'customer', 'My car was hit.'),
      await say(path, worker, 'assistant', 'When was that?'),
      await say(path, dana, 'staff', 'We will look into it.'),
    ];
    expect(said.map(({ status }) => status)).toEqual([201, 201, 201]);
    const { body } = await read(path, worker);
    expect(body.items).toMatchObject([
      { role: 'customer', by: 'erin', text: 'My car was hit.', digest: said[0]?.body.digest },
      { role: 'assistant', by: 'worker-1', text: 'When was that?' },
      { role: 'staff', by: 'dana', text: 'We will look into it.' },
    ]);
    expect(said[0]?.text).not.toContain('car');
  });

  it('does not exist for anybody else', async () => {
    const path = await begun();
    const missing = await read(`/v1/conversations/33333333-3333-4333-8333-333333333333`, stranger);
    const elsewhere: Caller = { ...customer, tenant: 'globex' };
    for (const as of [stranger, otherWorker, elsewhere, officer]) {
      for (const answer of [await read(path, as), await say(path, as, 'customer')])
        expect([as.sub, ...codeOf(answer)]).toEqual([as.sub, 404, 'not-found']);
      const hidden = await read(path, as);
      expect({ ...hidden.body, instance: '' }).toEqual({ ...missing.body, instance: '' });
      expect(codeOf(await api.send('DELETE', path, { as }))).toEqual([404, 'not-found']);
    }
  });

  it('is heard by the assistant that began it', async () => {
    const path = await begun(otherWorker);
    expect((await say(path, otherWorker, 'assistant')).status).toBe(201);
  });

  it('lets nobody speak for another', async () => {
    const path = await begun();
    await heldRun(api);
    for (const [as, role] of [
      [worker, 'customer'],
      [dana, 'customer'],
      [customer, 'staff'],
    ] as const)
      expect(codeOf(await say(path, as, role))).toEqual([403, 'not-permitted']);
    expect((await read(path, customer)).body.items).toEqual([]);
  });

  it('takes a message of 32 KiB in UTF-8, and none larger', async () => {
    const path = await begun();
    expect((await say(path, customer, 'customer', 'é'.repeat(16 * 1024))).status).toBe(201);
    const larger = await say(path, customer, 'customer', `${'é'.repeat(16 * 1024)}x`);
    expect(codeOf(larger)).toEqual([400, 'invalid-body']);
    expect(larger.body.errors).toEqual([
      { field: 'text', message: 'takes 32769 bytes in UTF-8; 32768 are allowed' },
    ]);
  });

  it('has a message once, however often it is sent', async () => {
    const path = await begun();
    const key = { 'idempotency-key': 'one' };
    const first = await say(path, customer, 'customer', 'hello', key);
    const again = await say(path, customer, 'customer', 'hello', key);
    expect([again.status, again.body]).toEqual([201, first.body]);
    expect(again.headers['idempotency-replayed']).toBe('true');
    expect(codeOf(await say(path, customer, 'customer', 'bye', key))).toEqual([
      422,
      'idempotency-key-reused',
    ]);
    expect((await read(path, customer)).body.items).toHaveLength(1);
  });

  it('is begun once under one key', async () => {
    const begin = (customerId: unknown, as = dana) =>
      api.send('POST', '/v1/conversations', {
        as,
        headers: { 'idempotency-key': 'c' },
        body: { customerId },
      });
    const first = await begin(customer.customerId);
    expect((await begin(customer.customerId)).body).toEqual(first.body);
    expect(codeOf(await begin(stranger.customerId))).toEqual([422, 'idempotency-key-reused']);
    expect(codeOf(await begin(customer.customerId, stranger))).toEqual([403, 'not-permitted']);
  });

  it('is read a page at a time', async () => {
    const path = await begun();
    for (const text of ['one', 'two', 'three']) await say(path, customer, 'customer', text);
    const first = (await read(path, customer, '?limit=2')).body;
    expect(first).toMatchObject({ items: [{ text: 'one' }, { text: 'two' }] });
    const second = await read(path, customer, `?limit=2&cursor=${String(first.nextCursor)}`);
    expect(second.body).toMatchObject({ items: [{ text: 'three' }], nextCursor: null });
    expect(codeOf(await read(path, customer, '?cursor=x'))).toEqual([400, 'invalid-parameter']);
  });
});

describe('a conversation that is gone', () => {
  it('was deleted by its customer alone, and says so to whoever might have heard it', async () => {
    const path = await begun();
    await say(path, customer, 'customer');
    expect(codeOf(await api.send('DELETE', path, { as: dana }))).toEqual([403, 'not-permitted']);
    const headers = { 'idempotency-key': 'd' };
    const remove = () => api.send('DELETE', path, { as: customer, headers });
    expect((await remove()).body).toEqual({ deleted: true });
    expect((await remove()).headers['idempotency-replayed']).toBe('true');
    for (const answer of [
      await read(path, customer),
      await say(path, customer, 'customer', 'late'),
      await api.send('DELETE', path, { as: customer }),
      await read(path, dana),
    ])
      expect(codeOf(answer)).toEqual([410, 'conversation-deleted']);
    expect(codeOf(await read(path, stranger))).toEqual([404, 'not-found']);
  });

  it('P79: has expired while its run waits, and the run goes on', async () => {
    const began = Date.now();
    api.clock.stopAt(began);
    const path = await begun();
    const run = await heldRun(api);
    await say(path, customer, 'customer');
    api.clock.stopAt(began + 30 * 86_400_000 - 1);
    expect((await read(path, customer)).body.items).toHaveLength(1);
    api.clock.stopAt(began + 30 * 86_400_000);
    expect(codeOf(await read(path, customer))).toEqual([410, 'conversation-deleted']);
    expect(codeOf(await say(path, customer, 'customer', 'late'))).toEqual([410, 'conversation-deleted']);
    const body = { workerId: 'worker-1' };
    expect((await api.send('POST', `${run.path}/resume`, { as: worker, body })).status).toBe(200);
    api.clock.stopAt(undefined);
  });

  it('went with a period that the privacy officer made shorter', async () => {
    const began = Date.now();
    api.clock.stopAt(began);
    const path = await begun();
    await say(path, customer, 'customer');
    api.clock.stopAt(began + 86_400_000);
    const keep = (as: Caller, conversationDays: unknown) =>
      api.send('PUT', '/v1/retention', { as, body: { conversationDays } });
    expect(codeOf(await keep(dana, 1))).toEqual([403, 'not-permitted']);
    expect(codeOf(await keep(officer, 0))).toEqual([400, 'invalid-body']);
    expect((await read(path, customer)).status).toBe(200);
    expect((await keep(officer, 1)).body).toEqual({ conversationDays: 1 });
    expect(codeOf(await read(path, customer))).toEqual([410, 'conversation-deleted']);
    expect((await api.send('GET', '/v1/retention', { as: officer })).body).toEqual({ conversationDays: 1 });
    api.clock.stopAt(undefined);
  });
});

describe('with the document store down', () => {
  it('conversations say so, and runs go on', async () => {
    const path = await begun();
    await api.engines.stopDocuments();
    expect(codeOf(await read(path, customer))).toEqual([503, 'conversations-unavailable']);
    expect(codeOf(await say(path, customer, 'customer'))).toEqual([503, 'conversations-unavailable']);
    const body = { workflow: { name: 'auto-claim', version: '1' }, customerId: customer.customerId };
    expect((await api.send('POST', '/v1/runs', { as: worker, body })).status).toBe(201);
  });
});
