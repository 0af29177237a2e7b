import { readFileSync } from 'node:fs';
import { dana, heldRun, notice, operator, RunningApi, stranger, waitingRun, worker } from '#test/api';
import { claimRefusals } from '#libs/domain/claims';
import { profileRefusals } from '#libs/domain/profiles';
import { runRefusals } from '#libs/domain/runs';
import { Controller, Param } from '@nestjs/common';
import { problems } from '../problems.js';
import { problemsPage } from './pages.js';
import { Route, Routes } from '../routes.js';
import { KeysUnavailable } from '#libs/access';
import * as store from '#libs/event-store';

const thrown: Record<string, () => Error> = {
  'concurrent-change': () => new store.ConcurrentChange('run-acme.1'),
  'store-unavailable': () => new store.StoreUnavailable('10.0.0.7:2113 refused'),
  'keys-unavailable': () => new KeysUnavailable('the keys cannot be fetched'),
  'unreadable-record': () => new store.UnknownStoredEvent('run-acme.1', 3n, 'Strange'),
  'internal-error': () => new TypeError('no property of Erin Example'),
};

@Controller()
class Throwing {
  @Route('GET', '/thrown/:code', { kind: 'page', permit: 'open', summary: 'Throws' })
  read(@Param('code') code: string) {
    throw thrown[code]?.() ?? new Error(code);
  }
}
class ThrowingModule {}

let api: RunningApi;
beforeAll(async () => {
  api = await RunningApi.start({}, [{ module: ThrowingModule, controllers: [Throwing] }]);
});
afterAll(() => api.close());

const codeOf = ({ status, body }: { status: number; body: Record<string, unknown> }) => [status, body.code];
const routes = () => api.app.get(Routes).known.filter(({ method }) => method !== 'HEAD');

describe('problems', () => {
  it('are the same in the rules, in the table and on the page', () => {
    const answeredAsMissing = ['approval-unknown'];
    const refusals = [...runRefusals, ...claimRefusals, ...profileRefusals].filter(
      (code) => !answeredAsMissing.includes(code),
    );
    expect(Object.keys(problems)).toEqual(expect.arrayContaining(refusals));
    expect(readFileSync('docs/problems.md', 'utf8')).toBe(problemsPage());
  });

  it('have a page each, open to all', async () => {
    for (const code of Object.keys(problems)) {
      const page = await api.send('GET', `/problems/${code}`);
      expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
      expect(page.text).toContain(`<code>${code}</code>`);
    }
    expect(codeOf(await api.send('GET', '/problems/toString'))).toEqual([404, 'not-found']);
  });

  it.each(Object.keys(thrown))('%s is all that is told of what was thrown', async (code) => {
    const { status, body, text, headers } = await api.send('GET', `/thrown/${code}`);
    expect([status, body.code]).toEqual([problems[code as keyof typeof problems].status, code]);
    expect(text).not.toMatch(/Erin|10\.0\.0|Strange|\.ts/);
    expect(headers['retry-after']).toBe(status === 500 ? undefined : '1');
  });

  it('say the same things in every answer', async () => {
    const answer = await api.send('GET', '/v1/runs/33333333-3333-4333-8333-333333333333?waitMs=1', {
      as: worker,
    });
    expect(answer.body).toEqual({
      type: '/problems/not-found',
      title: 'Not found',
      status: 404,
      detail: 'There is nothing here that you may see.',
      code: 'not-found',
      instance: '/v1/runs/33333333-3333-4333-8333-333333333333',
    });
  });
});

describe('operations', () => {
  it('describe every route by the schemas that validate it', async () => {
    const { body, status } = await api.send('GET', '/openapi.json');
    expect([status, body.openapi]).toEqual([200, '3.1.0']);
    const paths = body.paths as Record<
      string,
      Record<string, { requestBody?: { content: Record<string, { schema: unknown }> } }>
    >;
    const described = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(described.sort()).toEqual(
      routes()
        .map(({ method, path }) => `${method} ${path.replace(/:(\w+)/g, '{$1}')}`)
        .sort(),
    );
    const steps = paths['/v1/runs/{runId}/steps']?.post?.requestBody?.content['application/json']?.schema;
    expect(steps).toMatchObject({
      required: ['stepId', 'name', 'kind', 'status'],
      additionalProperties: false,
    });
    expect(JSON.stringify(body)).not.toMatch(/"(personal|plain)":/);
    const page = await api.send('GET', '/docs');
    const root = await api.send('GET', '/');
    expect([root.status, root.headers.location]).toEqual([302, '/docs']);
    expect(page.text).toContain('POST /v1/runs/{runId}/steps');
    expect(page.text).toContain('body <code>{ stepId: string, name: string, kind: ');
    expect(page.text).toContain('answer 200 <code>{ ready: boolean, eventStore: "up" | "down"');
    const ids = Object.values(paths).flatMap((methods) =>
      Object.values(methods).map((operation) => (operation as { operationId?: string }).operationId),
    );
    expect(ids).toContain('postRunsByRunIdSteps');
    expect(new Set(ids).size).toBe(described.length);
  });

  it('tell an operator how projections stand, and nobody else', async () => {
    const { body } = await api.send('GET', '/v1/projections', { as: operator });
    expect(body.items).toMatchObject([
      {
        name: 'current-checkpoints',
        version: 3,
        deadLetters: 0,
        position: expect.stringMatching(/^\d+$/) as string,
      },
      { name: 'authoritative-claims' },
      { name: 'staff-register' },
      { name: 'preference-profiles' },
    ]);
    expect(codeOf(await api.send('GET', '/v1/projections', { as: dana }))).toEqual([403, 'not-permitted']);
  });

  it('rebuild a projection beside the live one, switch to it and back, for an operator alone', async () => {
    const at = '/v1/projections/staff-register';
    const post = (path: string, body?: object, as = operator) =>
      api.send('POST', `${at}${path}`, { as, ...(body && { body }) });
    const started = await post('/rebuilds', {});
    expect(started.status).toBe(202);
    const { rebuildId } = started.body as { rebuildId: string };
    const show = () => api.send('GET', `${at}/rebuilds/${rebuildId}`, { as: operator });
    let shown = await show();
    while (shown.body.phase === 'building' || shown.body.phase === 'comparing') shown = await show();
    expect(shown.body).toMatchObject({
      version: 1,
      phase: 'ready',
      percent: 100,
      position: expect.stringMatching(/^\d+$/) as string,
      startedBy: operator.sub,
      comparison: { missing: 0, extra: 0, differing: 0, expected: 0 },
    });
    expect(codeOf(await post('/rebuilds', {}))).toEqual([409, 'rebuild-running']);
    expect(codeOf(await post(`/rebuilds/${rebuildId}/pause`))).toEqual([409, 'rebuild-state']);
    expect(codeOf(await post('/rollback'))).toEqual([409, 'nothing-to-roll-back']);
    const slow = await post(`/rebuilds/${rebuildId}/throttle`, { eventsPerSecond: 0 });
    expect(codeOf(slow)).toEqual([400, 'invalid-body']);
    expect((await post(`/rebuilds/${rebuildId}/switch`)).body).toMatchObject({ phase: 'switched' });
    expect((await post('/rollback')).body).toMatchObject({ rebuildId, phase: 'rolled-back' });
    expect(codeOf(await post('/rebuilds', { version: 9 }))).toEqual([422, 'version-not-shipped']);
    expect(codeOf(await post('/rebuilds', {}, dana))).toEqual([403, 'not-permitted']);
    const unknown = await api.send('POST', '/v1/projections/nothing/rebuilds', { as: operator });
    expect(codeOf(unknown)).toEqual([404, 'not-found']);
  });

  it('give metrics to this machine, with neither ids nor persons in them', async () => {
    const { runId } = await waitingRun(api);
    const { text, status } = await api.send('GET', '/metrics');
    expect(status).toBe(200);
    expect(text).toMatch(
      /waymark_http_request_duration_seconds_count\{method="POST",route="\/v1\/runs\/:runId\/approvals",status="201"\} \d/,
    );
    expect(text).toMatch(/waymark_projection_lag_events\{projection="current-checkpoints"\} \d/);
    for (const personal of [runId, 'worker-1', stranger.customerId, notice.policyNumber])
      expect(text).not.toContain(personal);
    const far = await api.app.inject({ method: 'GET', url: '/metrics', remoteAddress: '10.0.0.9' });
    expect(far.statusCode).toBe(404);
  });
});

describe('stores', () => {
  it('a position that the log has not reached is answered as behind', async () => {
    const { path } = await heldRun(api);
    const headers = { 'waymark-min-position': '999999999' };
    for (const address of [path, '/v1/runs?waitMs=20']) {
      const answer = await api.send('GET', address, { as: worker, headers });
      expect(answer).toMatchObject({
        status: 503,
        body: { code: 'read-model-behind' },
        headers: { 'retry-after': '1' },
      });
    }
  });

  it('that are down: lists say so, and health does; single reads and commands go on', async () => {
    const { path, lease: headers } = await heldRun(api);
    const ready = async () => (await api.send('GET', '/health/ready')).status;
    expect(await ready()).toBe(200);
    await api.engines.stopDocuments();
    expect((await api.send('GET', path, { as: worker })).body).toMatchObject({
      status: 'open',
      revision: '1',
    });
    const [list, unready] = await Promise.all([api.send('GET', '/v1/runs', { as: worker }), ready()]);
    expect(unready).toBe(503);
    expect(list).toMatchObject({
      status: 503,
      body: { code: 'read-model-unavailable' },
      headers: { 'retry-after': '1' },
    });
    const enter = (phase: string) =>
      api.send('POST', `${path}/phase`, { as: worker, headers, body: { phase } });
    expect((await enter('x')).status).toBe(200);
    expect((await api.send('GET', '/health/live')).body).toEqual({ status: 'live' });
  });
});
