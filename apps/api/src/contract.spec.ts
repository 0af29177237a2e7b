import { derivedId } from '#libs/canonical';
import { Controller, Get } from '@nestjs/common';
import { customer, dana, heldRun, otherWorker, RunningApi, start, worker } from '#test/api';
import { Called, type Call } from './calls.js';
import { Route, Routes } from './routes.js';

@Controller()
class Forgetful {
  @Route('GET', '/v1/forgetful', { kind: 'view', permit: 'runs.read', summary: 'Asks no policy' })
  read(@Called() call: Call) {
    call.refuseUnasked();
    return { secret: 1 };
  }
}
class ForgetfulModule {}
const forgetful = { module: ForgetfulModule, controllers: [Forgetful] };

@Controller()
class Planted {
  @Get('/v1/planted')
  read() {
    return { secret: 1 };
  }
}
class PlantedModule {}

let api: RunningApi;
beforeAll(async () => {
  api = await RunningApi.start({ WAYMARK_STATE_LIMIT: '700 KiB', WAYMARK_WORKER_STATE_LIMIT: '256 KiB' }, [
    forgetful,
  ]);
});
afterAll(() => api.close());

const codeOf = ({ status, body }: { status: number; body: Record<string, unknown> }) => [status, body.code];
const post = (headers: Record<string, string>, body: object = start) =>
  api.send('POST', '/v1/runs', { as: worker, headers, body });
const example = {
  runId: '33333333-3333-4333-8333-333333333333',
  draftId: 'main',
  code: 'not-found',
  sub: 'dana',
};
const examples: Record<string, string> = {
  ...example,
  claimId: example.runId,
  conversationId: example.runId,
  approvalId: `${example.runId}.1`,
  customerId: example.runId,
  proposalId: example.runId,
  key: 'contact.channel',
  name: 'current-checkpoints',
  rebuildId: example.runId,
};
const routes = () => api.app.get(Routes).known.filter(({ method }) => method !== 'HEAD');
const addressOf = (path: string, values = examples) =>
  path.replace(/:(\w+)/g, (_, name: string) => values[name] ?? '');

describe('identity', () => {
  it('is asked for on every route but the open ones', async () => {
    const closed = routes().filter(({ spec }) => spec.permit !== 'open' && spec.permit !== 'loopback');
    expect(closed.length).toBeGreaterThan(20);
    for (const { method, path } of closed) {
      const answer = await api.send(method, addressOf(path));
      expect([path, ...codeOf(answer)]).toEqual([path, 401, 'unauthenticated']);
      expect(answer.headers['www-authenticate']).toBe('Bearer');
    }
    const open = routes().filter((route) => !closed.includes(route));
    expect(open.map(({ path }) => path).sort()).toEqual(
      ['/', '/docs', '/health/live', '/health/ready', '/metrics', '/openapi.json', '/problems/:code'].sort(),
    );
  });

  it.each([['Bearer x.y.z'], ['Bearer'], ['Basic dXNlcg=='], ['Bearer a b']])(
    'is not given by %s',
    async (authorization) => {
      const answer = await api.send('GET', '/v1/runs', { headers: { authorization } });
      expect(codeOf(answer)).toEqual([401, 'unauthenticated']);
      expect(answer.text).not.toContain('x.y.z');
    },
  );

  it('ends when the token does', async () => {
    const authorization = `Bearer ${await api.token(worker)}`;
    const read = () => api.send('GET', '/v1/runs', { headers: { authorization } });
    expect((await read()).status).toBe(200);
    api.clock.stopAt(Date.now() + 13 * 3_600_000);
    expect(codeOf(await read())).toEqual([401, 'unauthenticated']);
    api.clock.stopAt(undefined);
  });
});

describe('policies', () => {
  it('stop the start where a route names none, naming it', async () => {
    const planted = { module: PlantedModule, controllers: [Planted] };
    await expect(RunningApi.start({}, [planted])).rejects.toThrow(
      'routes without a policy, which nobody may use: GET /v1/planted',
    );
  });

  it('must have been asked before anything is answered', async () => {
    const answer = await api.send('GET', '/v1/forgetful', { as: dana });
    expect(codeOf(answer)).toEqual([500, 'internal-error']);
    expect(answer.text).not.toMatch(/secret|policy|\.ts/);
  });
});

describe('bad input', () => {
  const raw = (body: string | Buffer, headers = {}) =>
    api.send('POST', '/v1/runs', { as: worker, raw: body, headers });

  it('P36: an unknown query parameter is refused on every route, never ignored', async () => {
    for (const { method, path, spec } of routes()) {
      if (spec.kind === 'page') continue;
      const answer = await api.send(method, `${addressOf(path)}?tenent=acme`, { as: worker });
      expect([path, ...codeOf(answer)]).toEqual([path, 400, 'unknown-parameter']);
      expect(answer.body.errors).toEqual([{ field: 'tenent', message: 'unknown' }]);
    }
  });

  it.each(['$where', '__proto__', "run'Id", 'run.Id', 'runId[$gt]', 'status[$ne]', 'constructor'])(
    'P37: %s is no filter',
    async (name) => {
      for (const list of ['/v1/runs', '/v1/claims', '/v1/approvals'])
        expect(codeOf(await api.send('GET', `${list}?${encodeURIComponent(name)}=1`, { as: dana }))).toEqual([
          400,
          'unknown-parameter',
        ]);
    },
  );

  it('P38: an operator in place of an id is refused on every route before any store is asked', async () => {
    const operators = {
      runId: '$ne',
      claimId: '{"$gt":""}',
      approvalId: '[$gt]',
      draftId: '$where',
      customerId: '{"$ne":1}',
      proposalId: '$gt',
      key: '$where',
      name: '$where',
      rebuildId: '$ne',
      code: 'x',
    };
    for (const { method, path, spec } of routes()) {
      if (spec.kind === 'page' || !path.includes(':')) continue;
      const address = addressOf(
        path,
        Object.fromEntries(Object.entries(operators).map(([k, v]) => [k, encodeURIComponent(v)])),
      );
      expect([path, ...codeOf(await api.send(method, address, { as: worker, body: {} }))]).toEqual([
        path,
        400,
        'invalid-parameter',
      ]);
    }
    const bodies = [
      { ...start, runId: { $ne: null } },
      { ...start, customerId: { $gt: '' } },
      { ...start, $where: '1' },
    ];
    for (const body of bodies) expect(codeOf(await post({}, body))).toEqual([400, 'invalid-body']);
    for (const query of [
      'runId=a&runId=b',
      'runId=%7B%22$ne%22:1%7D',
      'limit=0',
      'limit=201',
      'limit=1e2',
      'cursor=%24gt',
      'waitMs=10001',
    ])
      expect([query, ...codeOf(await api.send('GET', `/v1/approvals?${query}`, { as: dana }))]).toEqual([
        query,
        400,
        'invalid-parameter',
      ]);
  });

  it('names each field of a body that cannot be used', async () => {
    const body = { workflow: { name: '', version: '1' }, customerId: 'erin', colour: 'red' };
    const answer = await post({}, body);
    expect(codeOf(answer)).toEqual([400, 'invalid-body']);
    const fields = (answer.body.errors as { field: string }[]).map(({ field }) => field);
    expect(fields.sort()).toEqual(['colour', 'customerId', 'workflow.name']);
  });

  it('takes no free text where an identifier is stored as it is', async () => {
    const body = { ...start, workflow: { name: 'claim of Ana Ruiz', version: '1 (Ana)' } };
    const answer = await post({}, body);
    expect(codeOf(answer)).toEqual([400, 'invalid-body']);
    const message = 'up to 128 of letters, digits and ._:-, first a letter or digit';
    expect(answer.body.errors).toEqual([
      { field: 'workflow.name', message },
      { field: 'workflow.version', message },
    ]);
  });

  it.each([
    ['no JSON', '{"a":'],
    ['nothing', ''],
    ['a member twice', '{"customerId":"a","customerId":"b"}'],
    ['__proto__', '{"__proto__":{"roles":["supervisor"]}}'],
    ['half a surrogate pair', JSON.stringify({ ...start, input: 1 }).replace('1}', '"\\ud83d"}')],
    ['a NUL in a text', JSON.stringify({ ...start, workflow: { name: 'a\0b', version: '1' } })],
    ['too deep a nesting', `{"input":${'['.repeat(70)}${']'.repeat(70)}}`],
  ])('%s is no body', async (_name, body) => {
    expect(codeOf(await raw(body))).toEqual([400, 'invalid-body']);
  });

  it('answers what Fastify refuses as problems, too', async () => {
    const text = { 'content-type': 'text/plain' };
    expect(codeOf(await raw('x', text))).toEqual([415, 'unsupported-media-type']);
    const large = await raw(`{"input":"${'x'.repeat(1_100_000)}"}`);
    expect(large).toMatchObject({
      status: 413,
      body: { code: 'payload-too-large', limit: 1_048_576, size: 1_100_012 },
    });
    expect(codeOf(await api.send('GET', '/nowhere', { as: worker }))).toEqual([404, 'not-found']);
    const wrong = await api.send('DELETE', '/v1/runs', { as: worker });
    expect(wrong).toMatchObject({
      status: 405,
      body: { code: 'method-not-allowed' },
      headers: { allow: 'POST, GET, HEAD' },
    });
    const bad = await api.send('GET', '/v1/runs/%E0%A4%A', { as: worker });
    expect(codeOf(bad)).toEqual([400, 'invalid-parameter']);
    for (const answer of [large, wrong, bad])
      expect(answer.headers['content-type']).toBe('application/problem+json; charset=utf-8');
  });
});

describe('limits', () => {
  it('P42: an event that is larger than one append may be is refused with limit and size; so is a command too many', async () => {
    const { runId, path, lease: headers } = await heldRun(api);
    const step = { stepId: 's', name: 's', kind: 'tool', status: 'completed', output: 'x'.repeat(1_040_000) };
    const other = await RunningApi.start({ WAYMARK_APPEND_LIMIT: '64 KiB', WAYMARK_COMMANDS_AT_ONCE: '1' });
    const small = await heldRun(other);
    const body = { ...step, output: 'x'.repeat(60_000) };
    const answer = await other.send('POST', `${small.path}/steps`, {
      as: worker,
      headers: small.lease,
      body,
    });
    expect(answer).toMatchObject({
      status: 413,
      body: { code: 'payload-too-large', limit: 65_536, field: 'StepCompleted.output' },
    });
    expect(answer.body.size).toBeGreaterThan(65_536);
    expect(await other.events(small.runId)).toHaveLength(2);
    const enter = (phase: string) =>
      other.send('POST', `${small.path}/phase`, { as: worker, headers: small.lease, body: { phase } });
    const [first, second] = await Promise.all([enter('a'), enter('b')]);
    expect(first.status).toBe(200);
    expect(second).toMatchObject({
      status: 503,
      body: { code: 'overloaded' },
      headers: { 'retry-after': '1' },
    });
    expect(await other.events(small.runId)).toHaveLength(3);
    await other.close();
    expect(codeOf(await api.send('POST', `${path}/steps`, { as: worker, headers, body: step }))).toEqual([
      413,
      'state-too-large',
    ]);
    expect(await api.events(runId)).toHaveLength(2);
  });

  it('P06: what would lift the state above its limit is refused, naming limit, size and the largest field', async () => {
    const { runId, path, lease: headers } = await heldRun(api);
    const put = (state: unknown) =>
      api.send('PUT', `${path}/checkpoint`, { as: worker, headers, body: { state } });
    const worker256 = await put({ small: 1, messages: 'x'.repeat(270_000) });
    expect(worker256).toMatchObject({
      status: 413,
      body: { code: 'state-too-large', limit: 262_144, size: 270_025, field: 'state.messages' },
    });
    const body = {
      stepId: 's',
      name: 's',
      kind: 'tool',
      status: 'completed',
      output: { pages: 'x'.repeat(720_000) },
    };
    const step = await api.send('POST', `${path}/steps`, { as: worker, headers, body });
    expect(step).toMatchObject({
      status: 413,
      body: { code: 'state-too-large', limit: 716_800, field: 'output.pages' },
    });
    expect(step.body.size).toBeGreaterThan(720_000);
    expect(await api.events(runId)).toHaveLength(2);
    const half = { ...body, output: 'x'.repeat(400_000) };
    expect((await api.send('POST', `${path}/steps`, { as: worker, headers, body: half })).status).toBe(200);
    expect((await api.send('GET', '/metrics')).text).toMatch(/^waymark_state_above_half_total 1$/m);
    expect((await api.send('POST', `${path}/cancel`, { as: customer })).status).toBe(200);
  });
});

describe('repeats', () => {
  it('P85: fifty at once are one run, and never a failure', async () => {
    const headers = { 'idempotency-key': 'fifty' };
    const answers = await Promise.all(Array.from({ length: 50 }, () => post(headers)));
    const codes = answers.map((answer) => String(codeOf(answer)));
    expect(codes.filter((code) => code === '201,')).toHaveLength(1);
    expect(codes.filter((code) => code === '409,idempotency-key-in-flight')).toHaveLength(49);
    const flying = answers.find(({ status }) => status === 409);
    expect(flying?.headers['retry-after']).toBe('1');
    const first = answers.find(({ status }) => status === 201);
    const again = await post(headers);
    expect(again).toMatchObject({
      status: 201,
      body: first?.body,
      headers: { 'idempotency-replayed': 'true' },
    });
    expect(first?.headers['idempotency-replayed']).toBeUndefined();
  });

  it('P85: another body is refused, also in flight; the key is of one caller and one route', async () => {
    const headers = { 'idempotency-key': 'one' };
    const other = { ...start, input: 1 };
    const both = await Promise.all([post(headers), post(headers, other)]);
    expect(both.map(codeOf)).toEqual([
      [201, undefined],
      [422, 'idempotency-key-reused'],
    ]);
    expect(codeOf(await post(headers, other))).toEqual([422, 'idempotency-key-reused']);
    const elsewhere = await api.send('POST', '/v1/runs', { as: otherWorker, headers, body: other });
    expect(elsewhere.status).toBe(201);
    const [a, b] = [await heldRun(api), await heldRun(api)];
    for (const { path, lease } of [a, b])
      expect(
        (
          await api.send('POST', `${path}/phase`, {
            as: worker,
            headers: { ...lease, ...headers },
            body: { phase: 'x' },
          })
        ).status,
      ).toBe(200);
  });

  it('are told by route and parameters, however the path is written, and by no field of what is saved', async () => {
    const { runId, path, lease } = await heldRun(api);
    const patch = (at: string, body: object) =>
      api.send('PATCH', `${at}/checkpoint`, {
        as: worker,
        headers: { ...lease, 'idempotency-key': 'patch', 'content-type': 'application/merge-patch+json' },
        body,
      });
    const first = await patch(path, { runId: 'one' });
    const again = await patch(`/v1/runs/${runId.toUpperCase()}`, { runId: 'one' });
    expect(again).toMatchObject({ status: 200, headers: { 'idempotency-replayed': 'true' } });
    expect(again.body).toEqual(first.body);
    expect(codeOf(await patch(path, { runId: 'two' }))).toEqual([422, 'idempotency-key-reused']);
    expect(await api.events(runId)).toHaveLength(3);
  });

  it('may name another run under the same key', async () => {
    const headers = { 'idempotency-key': 'two-runs' };
    const one = { ...start, runId: 'aaaaaaaa-0000-4000-8000-000000000001' };
    const two = { ...start, runId: 'aaaaaaaa-0000-4000-8000-000000000002' };
    const answers = [await post(headers, one), await post(headers, two), await post(headers, two)];
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(answers.map((answer) => answer.headers['idempotency-replayed'])).toEqual([
      undefined,
      undefined,
      'true',
    ]);
    const [first] = await api.events(one.runId);
    const [second] = await api.events(two.runId);
    expect(first?.metadata.commandId).not.toBe(second?.metadata.commandId);
    const guessed = derivedId('acme', worker.sub, 'POST /v1/runs', one.runId, 'two-runs');
    expect(first?.metadata.commandId).not.toBe(guessed);
  });

  it('P39: over HTTP the same answer after 30 other events and a restart (10,000: in the store’s own spec)', async () => {
    const { runId, path, lease } = await heldRun(api);
    const send = (stepId: string, headers = {}) => {
      const body = { stepId, name: 'n', kind: 'tool', status: 'completed', output: stepId };
      return api.send('POST', `${path}/steps`, { as: worker, headers: { ...lease, ...headers }, body });
    };
    const key = { 'idempotency-key': 'p39' };
    const first = await send('s', key);
    for (let n = 0; n < 30; n += 1) await send(`other-${n}`);
    await api.restart();
    const again = await send('s', key);
    expect(again).toMatchObject({ status: 200, headers: { 'idempotency-replayed': 'true', etag: '"2"' } });
    expect(again.body).toEqual(first.body);
    expect(await api.events(runId)).toHaveLength(33);
  });

  it.each([[''], ['x'.repeat(256)], ['a b'], ['é']])('the key %j is none', async (key) => {
    expect(codeOf(await post({ 'idempotency-key': key }))).toEqual([400, 'invalid-parameter']);
  });

  it('If-Match holds a command to the revision that was read', async () => {
    const { path, lease } = await heldRun(api);
    const enter = (match: string) =>
      api.send('POST', `${path}/phase`, {
        as: worker,
        headers: { ...lease, 'if-match': match },
        body: { phase: `at-${match.replaceAll('"', '')}` },
      });
    expect(await enter('"0"')).toMatchObject({
      status: 412,
      body: { code: 'revision-mismatch', current: '1' },
    });
    expect(await enter('"1"')).toMatchObject({ status: 200, headers: { etag: '"2"' } });
    expect(codeOf(await enter('2'))).toEqual([400, 'invalid-parameter']);
  });
});
