import type { Server } from 'node:http';
import { connect } from 'node:net';
import { RunningApi, start, worker } from '#test/api';
import { PATIENCE, targetOf } from './connections.js';

let api: RunningApi;
let port: number;
beforeAll(async () => {
  api = await RunningApi.start({}, [], { ...PATIENCE, everyMs: 20 });
  await api.app.listen(0, '127.0.0.1');
  port = Number(new URL(await api.app.getUrl()).port);
});
afterAll(() => api.close());

interface Heard {
  status: number;
  type: string | undefined;
  body: Record<string, unknown>;
}

/** Sends bytes as they stand, and hears what comes until the server ends the connection. */
function said(bytes: string): Promise<Heard> {
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    socket.setEncoding('utf8').on('data', (more: string) => (text += more));
    socket.once('error', reject);
    socket.once('close', () => {
      const [head = '', body = ''] = text.split('\r\n\r\n');
      const [, status] = head.split(' ');
      const [, type] = /^content-type: (.*)$/im.exec(head) ?? [];
      resolve({ status: Number(status), type, body: JSON.parse(body || '{}') as Heard['body'] });
    });
  });
}

const PROBLEM = 'application/problem+json; charset=utf-8';
const ONE = 'Host: waymark\r\nConnection: close\r\n';

describe('what is no request', () => {
  it.each([
    ['no method', 'HELLO\r\n\r\n', 400, 'malformed-request'],
    ['no host', 'GET /health/live HTTP/1.1\r\nConnection: close\r\n\r\n', 400, 'malformed-request'],
    ['no header', `GET / HTTP/1.1\r\n${ONE}no colon\r\n\r\n`, 400, 'malformed-request'],
    [
      'two lengths',
      `POST /v1/runs HTTP/1.1\r\n${ONE}Content-Length: 1\r\nContent-Length: 2\r\n\r\n`,
      400,
      'malformed-request',
    ],
    [
      'a large header',
      `GET / HTTP/1.1\r\n${ONE}X-Long: ${'x'.repeat(17_000)}\r\n\r\n`,
      431,
      'headers-too-large',
    ],
  ])('%s is answered as a problem', async (_what, bytes, status, code) => {
    const heard = await said(bytes);
    expect(heard).toMatchObject({ status, type: PROBLEM, body: { status, code, type: `/problems/${code}` } });
    expect(new URL(String(heard.body.instance), 'http://here').host).toBe('here');
    const { text } = await api.send('GET', '/metrics');
    expect(text).toContain(`waymark_problems_total{code="${code}"}`);
  });

  it('is told where its body breaks off', async () => {
    const head = `POST /v1/runs HTTP/1.1\r\n${ONE}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n`;
    const authorization = `Authorization: Bearer ${await api.token(worker)}\r\n`;
    const heard = await said(`${head}${authorization}\r\nzz\r\n`);
    expect(heard).toMatchObject({ status: 400, type: PROBLEM, body: { code: 'malformed-request' } });
  });

  it('says how large headers may be', async () => {
    const heard = await said(`GET / HTTP/1.1\r\n${ONE}X-Long: ${'x'.repeat(17_000)}\r\n\r\n`);
    expect(heard.body.limit).toBe(16_384);
  });
});

describe('a request that does not arrive', () => {
  it('is given ten seconds for its headers and fifteen in all, give or take one', () => {
    const { headersTimeout, requestTimeout }: Server = api.app.getHttpServer();
    expect([headersTimeout, requestTimeout, PATIENCE.everyMs]).toEqual([10_000, 15_000, 1_000]);
  });

  it('is answered 408 for its headers, and for its body', async () => {
    const server: Server = api.app.getHttpServer();
    [server.headersTimeout, server.requestTimeout] = [60, 60];
    const timedOut = { status: 408, type: PROBLEM, body: { code: 'request-timeout', instance: '/' } };
    expect(await said('GET /health/live HTTP/1.1\r\nHost: way')).toMatchObject(timedOut);
    const head = `POST /v1/runs HTTP/1.1\r\n${ONE}Content-Type: application/json\r\nContent-Length: 500\r\n`;
    const authorization = `Authorization: Bearer ${await api.token(worker)}\r\n`;
    expect(await said(`${head}${authorization}\r\n{"runId":`)).toMatchObject(timedOut);
    [server.headersTimeout, server.requestTimeout] = [PATIENCE.headersMs, PATIENCE.requestMs];
  });
});

describe('an address', () => {
  it('names no other server, however it is written', async () => {
    for (const target of ['http://elsewhere.example/v1/none?x=1', '//elsewhere.example/v1/none']) {
      const { status, body } = await said(`GET ${target} HTTP/1.1\r\n${ONE}\r\n`);
      expect([status, body.code]).toEqual([404, 'not-found']);
      expect(new URL(String(body.instance), 'http://here').host).toBe('here');
      expect(body.instance).not.toContain('?');
    }
    const whole = await said(`GET http://elsewhere.example/health/live HTTP/1.1\r\n${ONE}\r\n`);
    expect(whole).toMatchObject({ status: 200, body: { status: 'live' } });
  });

  it.each([
    ['/docs/', '/docs'],
    ['/docs/?a=1', '/docs?a=1'],
    ['/docs/x', '/docs/x'],
    ['http://a.example', '/'],
    ['HTTPS://a.example:1/b?c=http://d/', '/b?c=http://d/'],
    ['http://a.example?b', '/?b'],
    ['*', '/*'],
    ['/v1/runs/', '/v1/runs/'],
  ])('%s is %s', (url, target) => {
    expect(targetOf(url)).toBe(target);
  });

  it('of the page of routes may end in a slash', async () => {
    const [page, slashed] = [await api.send('GET', '/docs'), await api.send('GET', '/docs/')];
    expect(slashed).toMatchObject({ status: 200, text: page.text });
  });
});

describe('a body in another charset', () => {
  const send = (contentType: string) =>
    api.send('POST', '/v1/runs', { as: worker, headers: { 'content-type': contentType }, body: start });

  it.each(['ISO-8859-1', '"utf-16"', 'utf-8; charset=latin1', ''])('%s is refused', async (charset) => {
    const { status, body } = await send(`application/json; charset=${charset}`);
    expect([status, body.code]).toEqual([415, 'unsupported-media-type']);
  });

  it.each(['utf-8', '"UTF-8"', 'utf8'])('%s is UTF-8', async (charset) => {
    expect((await send(`application/json; charset=${charset}`)).status).toBe(201);
  });
});
