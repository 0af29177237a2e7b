import {
  type Caller,
  customer,
  dana,
  erin,
  registerStaff,
  RunningApi,
  stranger,
  start,
  worker,
  notice,
} from '#test/api';

const DAY = 86_400_000;
const MARKER = 'a blue lorry from Gdansk';
let api: RunningApi;
beforeAll(async () => {
  api = await RunningApi.start();
  await registerStaff(api);
});
afterAll(() => api.close());

interface Said {
  readonly messageId: string;
  readonly digest: string;
}
const codeOf = ({ status, body }: { status: number; body: Record<string, unknown> }) => [status, body.code];

async function begun(as = customer): Promise<string> {
  const body = { customerId: as.customerId };
  const answer = await api.send('POST', '/v1/conversations', { as, body });
  return String(answer.body.conversationId);
}
async function said(conversationId: string, text = MARKER, as = customer): Promise<Said> {
  const body = { role: 'customer', text };
  const answer = await api.send('POST', `/v1/conversations/${conversationId}/messages`, { as, body });
  return { messageId: String(answer.body.messageId), digest: String(answer.body.digest) };
}
async function talkingRun(conversationId?: string) {
  const body = { ...start, ...(conversationId && { conversationId }) };
  const started = await api.send('POST', '/v1/runs', { as: worker, body });
  const runId = String(started.body.runId);
  const path = `/v1/runs/${runId}`;
  const resume = () => api.send('POST', `${path}/resume`, { as: worker, body: { workerId: 'w' } });
  const headers = { 'waymark-lease': String((await resume()).body.leaseToken) };
  const step = (stepId: string, cites?: readonly unknown[], more = {}) =>
    api.send('POST', `${path}/steps`, {
      as: worker,
      headers: { ...headers, ...more },
      body: { stepId, name: 'Listen', kind: 'model', status: 'completed', ...(cites && { cites }) },
    });
  return { runId, path, headers, resume, step };
}
const timeline = async (path: string) =>
  (await api.send('GET', `${path}/timeline`, { as: dana })).body.items as Record<string, unknown>[];
const remove = (conversationId: string) =>
  api.send('DELETE', `/v1/conversations/${conversationId}`, { as: customer });

describe('a run that cites messages', () => {
  it('names them by id and digest, never their text, and says when they are deleted', async () => {
    const conversationId = await begun();
    const [first, second] = [await said(conversationId), await said(conversationId, 'and its number plate')];
    const { runId, path, step, resume } = await talkingRun(conversationId);
    const key = { 'idempotency-key': 'listen' };
    const recorded = await step('listen', [first, second], key);
    expect(recorded.status).toBe(200);
    const cites = [first, second].map((each) => ({ ...each, status: 'kept' }));
    const text = 'The step listen was completed. It cites 2 messages.';
    expect((await timeline(path)).at(-1)).toMatchObject({ type: 'StepCompleted', text, cites });
    expect((await remove(conversationId)).status).toBe(200);

    const after = await timeline(path);
    expect(after.at(-1)).toMatchObject({
      text: 'The step listen was completed. It cites 2 messages, deleted under retention.',
      cites: [
        { ...first, status: 'deleted' },
        { ...second, status: 'deleted' },
      ],
    });
    expect(after.slice(0, -1).every(({ cites: none }) => none === undefined)).toBe(true);
    const again = await step('listen', [first, second], key);
    expect([again.body, again.headers['idempotency-replayed']]).toEqual([recorded.body, 'true']);
    expect((await step('listen', [first, second])).body.revision).toBe(recorded.body.revision);
    expect(codeOf(await step('late', [first]))).toEqual([409, 'message-unknown']);
    expect((await step('later')).status).toBe(200);
    expect((await resume()).status).toBe(200);
    expect(JSON.stringify((await api.events(runId)).map(({ data }) => data))).not.toContain(MARKER);
  });

  it('cites nothing that its own conversation does not hold, and stores nothing of a step that does', async () => {
    const [conversationId, another, hers] = [await begun(), await begun(), await begun(stranger)];
    const own = await said(conversationId);
    const others = [
      { ...own, digest: 'e'.repeat(64) },
      { ...own, messageId: erin },
      await said(another),
      await said(hers, MARKER, stranger),
    ];
    const { runId, step } = await talkingRun(conversationId);
    const before = (await api.events(runId)).length;
    for (const other of others) {
      const answer = await step('listen', other.messageId === own.messageId ? [other] : [own, other]);
      expect(codeOf(answer)).toEqual([409, 'message-unknown']);
      expect(answer.body.messages).toEqual([other.messageId]);
    }
    expect(codeOf(await step('listen', [own, own]))).toEqual([400, 'invalid-body']);
    expect(codeOf(await step('listen', Array(21).fill(own)))).toEqual([400, 'invalid-body']);
    expect((await api.events(runId)).length).toBe(before);
    expect((await step('listen', [own])).status).toBe(200);
    for (const foreign of [undefined, hers]) {
      const run = await talkingRun(foreign);
      expect(codeOf(await run.step('listen', [own]))).toEqual([409, 'message-unknown']);
    }
  });

  it('P79: outlives its messages while it waits for a person, with its evidence', async () => {
    const began = Date.now();
    api.clock.stopAt(began);
    const officer: Caller = { sub: 'pia', role: 'privacy-officer' };
    await api.send('PUT', '/v1/retention', { as: officer, body: { conversationDays: 1 } });
    const conversationId = await begun();
    const message = await said(conversationId);
    const { path, headers, step, resume } = await talkingRun(conversationId);
    await step('listen', [message]);
    const draft = { kind: 'claim', content: notice };
    await api.send('PUT', `${path}/drafts/main`, { as: worker, headers, body: draft });
    const asked = {
      draftId: 'main',
      draftVersion: 1,
      summary: 's',
      basedOn: [],
      expiresInSeconds: 2_592_000,
    };
    const { body } = await api.send('POST', `${path}/approvals`, { as: worker, headers, body: asked });
    api.clock.stopAt(began + DAY - 1);
    expect((await timeline(path)).find(({ cites }) => cites)).toMatchObject({ cites: [{ status: 'kept' }] });
    api.clock.stopAt(began + 10 * DAY);
    const read = await api.send('GET', `/v1/conversations/${conversationId}/messages`, { as: customer });
    expect(codeOf(read)).toEqual([410, 'conversation-deleted']);
    expect((await timeline(path)).find(({ cites }) => cites)).toMatchObject({
      text: 'The step listen was completed. It cites a message, deleted under retention.',
      cites: [{ ...message, status: 'deleted' }],
    });
    const resumed = await resume();
    expect(resumed.status).toBe(200);
    expect(resumed.body.run).toMatchObject({
      status: 'waiting',
      steps: { completed: 1, recent: [{ stepId: 'listen' }] },
    });
    const decided = await api.send('POST', `/v1/approvals/${String(body.approvalId)}/decision`, {
      as: dana,
      body: { decision: 'grant', digest: body.digest },
    });
    expect(decided.body).toMatchObject({ status: 'granted' });
    api.clock.stopAt(undefined);
  });

  it('with the document store down cites nothing anew, and does not know what is deleted', async () => {
    const conversationId = await begun();
    const message = await said(conversationId);
    const { path, step } = await talkingRun(conversationId);
    await step('listen', [message]);
    await api.engines.stopDocuments();
    expect(codeOf(await step('again', [message]))).toEqual([503, 'conversations-unavailable']);
    expect((await step('without')).status).toBe(200);
    expect((await timeline(path)).find(({ cites }) => cites)).toMatchObject({
      text: 'The step listen was completed. It cites a message.',
      cites: [{ ...message, status: 'unknown' }],
    });
  });
});
