import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { call, Installation, type Server } from '#test/support';

/** Real processes take their time on a busy machine. */
jest.setTimeout(60_000);

const LOOK_MS = 20;

describe('waymark start', () => {
  let installation: Installation;
  let server: Server;
  beforeAll(async () => {
    installation = await Installation.create();
    server = await installation.start();
  });
  afterAll(() => installation.remove());

  it('is ready, and says where its parts are', async () => {
    expect((await call('GET', `${server.url}/health/ready`)).status).toBe(200);
    expect(JSON.parse(readFileSync(join(installation.data, 'running.json'), 'utf8'))).toEqual({
      pid: server.pid,
      url: server.url,
      eventStoreUrl: server.eventStoreUrl,
      mongoUrl: server.mongoUrl,
      policiesUrl: server.policiesUrl,
      mongoUsersFile: join(installation.data, 'document-store-users.json'),
    });
  });

  it('refuses what it cannot run on in one line, and leaves nothing running', async () => {
    const folders = await Promise.all(
      ['port', 'engine', 'foreign', 'host'].map((name) => mkdtemp(join(tmpdir(), name))),
    );
    const [forPort = '', forEngine = '', foreign = '', forHost = ''] = folders;
    writeFileSync(join(foreign, 'thesis.txt'), '');
    const [port, enginePort] = [server.url, server.mongoUrl].map((url) => new URL(url).port) as [
      string,
      string,
    ];
    const outcomes = await Promise.all([
      installation.run(['start']),
      installation.run(['start'], { WAYMARK_DATA: forPort, WAYMARK_PORT: port }),
      installation.run(['start'], { WAYMARK_DATA: forEngine, WAYMARK_MONGODB_PORT: enginePort }),
      installation.run(['start'], { WAYMARK_DATA: foreign }),
      installation.run(['start'], { WAYMARK_PORT: '70000' }),
      installation.run(['start'], { WAYMARK_PORT: '1', WAYMARK_MONGODB_PORT: '1' }),
      installation.run(['start'], { WAYMARK_DATA: forHost, WAYMARK_HOST: '192.0.2.1' }),
      installation.run(['start'], { WAYMARK_DATA: join(foreign, 'thesis.txt', 'data') }),
    ]);
    expect(outcomes).toEqual(
      [
        `the data folder ${installation.data} is in use by process ${server.pid}`,
        `port ${port} on 127.0.0.1 is taken: name another in WAYMARK_PORT`,
        `port ${enginePort} on 127.0.0.1 is taken: name another in WAYMARK_MONGODB_PORT`,
        `the data folder ${foreign} holds something else (thesis.txt): name an empty one in WAYMARK_DATA`,
        'WAYMARK_PORT is "70000"; expected: a whole number from 0 to 65535',
        'WAYMARK_PORT and WAYMARK_MONGODB_PORT are both 1: name another port in one of them',
        '192.0.2.1 is no address of this machine (EADDRNOTAVAIL): name another in WAYMARK_HOST',
        `the data folder ${join(foreign, 'thesis.txt', 'data')} cannot be used: ` +
          'a part of the path is not a folder (ENOTDIR); mend that, or name another in WAYMARK_DATA',
      ].map((line) => ({ status: 1, out: '', err: `waymark: ${line}\n` })),
    );
    expect(await readdir(foreign)).toEqual(['thesis.txt']);
    await Promise.all(folders.map((folder) => rm(folder, { recursive: true })));
  });

  it('prints a token and nothing else while it runs', async () => {
    const args = ['token', '--role', 'adjuster', '--sub', 'dana', '--tenant', 'acme'];
    const { status, out, err } = await installation.run(args);
    expect({ status, err }).toEqual({ status: 0, err: '' });
    expect(out).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/);
    const payload = JSON.parse(Buffer.from(out.split('.')[1] ?? '', 'base64url').toString()) as object;
    expect(payload).toMatchObject({ sub: 'dana', tenant: 'acme', roles: ['adjuster'] });
  });

  it('issues no token for nobody, nor where no server ever was', async () => {
    const customer = ['token', '--role', 'customer', '--tenant', 'acme', '--sub'];
    const outcomes = await Promise.all([
      installation.run([...customer, '']),
      installation.run([...customer, 'erin']),
      installation.run(['token', '--role', 'adjuster', '--tenant', 'acme', '--sub', 'dana'], {
        WAYMARK_DATA: join(installation.data, 'none'),
      }),
    ]);
    expect(outcomes.map(({ status, out, err }) => [status, out, err.split('\n')[0]])).toEqual([
      [1, '', expect.stringContaining('A name is 1 to 128 of')],
      [1, '', 'waymark: --role customer needs --customer: a customer sees what is their own'],
      [
        1,
        '',
        `waymark: no data folder at ${join(installation.data, 'none')}: start the server first, or set WAYMARK_DATA`,
      ],
    ]);
    expect(existsSync(join(installation.data, 'none'))).toBe(false);
  });

  it('starts a killed app again, at the same address', async () => {
    const cut = untilCut(server.url);
    process.kill(server.child('app'), 'SIGKILL');
    await cut;
    await untilReady(server.url);
  });

  it('drains and ends at SIGTERM, also when it comes twice, and starts again on the same data', async () => {
    process.kill(server.pid, 'SIGTERM');
    const began = performance.now();
    expect(await server.stop()).toBe(0);
    expect(performance.now() - began).toBeLessThan(10_000);
    expect(existsSync(join(installation.data, 'running.json'))).toBe(false);
    server = await installation.start(server.ports);
  });

  it('takes its children along when it is killed alone', async () => {
    process.kill(server.pid, 'SIGKILL');
    await server.gone;
    server = await installation.start(server.ports);
    expect((await call('GET', `${server.url}/health/ready`)).status).toBe(200);
  });
});

/** Waits for a connection to end: a killed process ends those it held. */
async function untilCut(url: string): Promise<void> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  await new Promise<void>((resolve) => {
    socket.on('error', () => resolve());
    socket.on('close', () => resolve());
  });
}

async function untilReady(url: string): Promise<void> {
  while ((await statusOf(`${url}/health/ready`)) !== 200) await pause(LOOK_MS);
}

/** Nothing while nobody listens. */
async function statusOf(url: string): Promise<number | undefined> {
  try {
    return (await call('GET', url)).status;
  } catch (error) {
    if ((error as Error).message === 'fetch failed') return undefined;
    throw error;
  }
}
