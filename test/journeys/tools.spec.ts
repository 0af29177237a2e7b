import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, rmSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { openDataFolder } from '#apps/waymark';
import { startDocumentStore, type RunningDocumentStore } from '#libs/embedded/document-store';
import { Installation } from '#test/support';

/** Real processes take their time on a busy machine. */
jest.setTimeout(120_000);

const NOBODY = 'http://127.0.0.1:1';
const HEAD =
  'policy_number,incident_date,incident_type,incident_severity,witnesses,total_claim_amount,fraud_reported';

describe('the tools', () => {
  let installation: Installation;
  let losses: string;
  beforeAll(async () => {
    installation = await Installation.create();
    await openDataFolder(installation.data);
    losses = join(installation.data, 'losses.csv');
    const rows = Array.from(
      { length: 400 },
      (_, at) => `P-${at},2015-01-20,Vehicle Theft,Total Loss,1,${900 + at},N`,
    );
    writeFileSync(losses, [HEAD, ...rows, ''].join('\n'));
  });
  afterAll(() => installation.remove());

  it('say that no server answers where WAYMARK_URL points, and what an address is', async () => {
    const tools = [['demo'], ['losses', losses]];
    const nobody = await Promise.all(tools.map((args) => installation.run(args, { WAYMARK_URL: NOBODY })));
    for (const { status, out, err } of nobody) {
      expect(status).toBe(1);
      expect(out).not.toContain('books balance');
      expect(err).toMatch(
        /^waymark: no server answers at http:\/\/127\.0\.0\.1:1 \(.*\): start one with `npm start`, or set WAYMARK_URL\n$/,
      );
    }
    const nonsense = await Promise.all(
      tools.map((args) => installation.run(args, { WAYMARK_URL: 'nonsense' })),
    );
    const line = 'waymark: WAYMARK_URL is "nonsense"; expected: an address such as http://127.0.0.1:3000\n';
    expect(nonsense.map(({ status, err }) => [status, err])).toEqual(tools.map(() => [1, line]));
  });

  it('losses: a Ctrl-C ends the server of its own, and leaves nothing behind', async () => {
    const temporary = join(installation.data, 'temporary');
    mkdirSync(temporary);
    const journal = join(installation.data, 'journal');
    writeFileSync(journal, '');
    const watcher = watch(journal);
    const begun = once(watcher, 'change');
    const child = spawn(process.execPath, [installation.program, 'losses', losses, '--journal', journal], {
      env: installation.environment({ WAYMARK_URL: '', TMPDIR: temporary }),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const closed = once(child, 'close') as Promise<[number | null]>;
    const said = text(child.stdout);
    child.stderr.resume();
    await begun;
    watcher.close();
    expect(readdirSync(temporary)).toEqual([expect.stringMatching(/^waymark-losses-/)]);
    child.kill('SIGINT');
    expect((await closed)[0]).toBe(130);
    expect(await said).not.toContain('books');
    expect(readdirSync(temporary)).toEqual([]);
  });
});

describe('the event store alone', () => {
  let installation: Installation;
  beforeAll(async () => {
    installation = await Installation.create();
  });
  afterAll(() => installation.remove());
  const users = (...args: string[]) => installation.run(['event-store', 'users', ...args]);

  it('has users, whose passwords come from standard input', async () => {
    const put = spawn(
      process.execPath,
      [installation.program, 'event-store', 'users', 'put', 'dana', '--group', '$ops', 'night'],
      { env: installation.environment(), stdio: ['pipe', 'ignore', 'inherit'] },
    );
    put.stdin.end('secret\n');
    expect(await once(put, 'close')).toEqual([0, null]);
    expect(await users('list')).toMatchObject({ status: 0, out: 'dana $ops night\n' });
    expect(await users('put', 'eve')).toMatchObject({
      status: 1,
      err: 'waymark: the password of a user is 1 to 1024 bytes long, not 0\n',
    });
    expect(await users('remove', 'eve')).toMatchObject({
      status: 1,
      err: 'waymark: there is no user "eve"\n',
    });
    expect(await users('remove', 'dana')).toMatchObject({ status: 0 });
    expect(await users('list')).toMatchObject({ status: 0, out: '' });
  });

  it('is not served beyond loopback without TLS, and by `start` not at all', async () => {
    const exposed = { WAYMARK_EVENTSTORE_HOST: '0.0.0.0' };
    expect(await installation.run(['engines', '--event-store'], exposed)).toMatchObject({
      status: 1,
      err: 'waymark: host 0.0.0.0 is refused: beyond loopback TLS is needed\n',
    });
    const started = await installation.run(['start'], exposed);
    expect(started.status).toBe(1);
    expect(started.err).toMatch(
      /^waymark: WAYMARK_EVENTSTORE_HOST and .* are for `waymark engines --event-store`/,
    );
    const half = await installation.run(['engines'], { WAYMARK_EVENTSTORE_TLS_KEY: 'key.pem' });
    expect(half.err).toBe(
      'waymark: WAYMARK_EVENTSTORE_TLS_CERT and WAYMARK_EVENTSTORE_TLS_KEY are set together or not\n',
    );
  });
});

describe('an app that runs alone', () => {
  it('refuses a data folder whose keys are gone, and makes no others', async () => {
    const installation = await Installation.create();
    const { ready } = await installation.engines([]);
    const keys = join(installation.data, 'keys');
    rmSync(keys, { recursive: true });
    const engines = { WAYMARK_EVENTSTORE_URL: ready.eventStoreUrl!, WAYMARK_MONGODB_URL: ready.mongoUrl! };
    expect(await installation.run(['app'], engines)).toEqual({
      status: 1,
      out: '',
      err:
        `waymark: the keys of the data folder ${installation.data} cannot be used: ` +
        `${join(keys, 'master.key')} is missing: restore the folder of keys from its backup\n`,
    });
    expect(existsSync(keys)).toBe(false);
    await installation.remove();
  });
});

describe('the document store, looked after', () => {
  let installation: Installation;
  let store: RunningDocumentStore;
  beforeAll(async () => {
    installation = await Installation.create();
    await openDataFolder(installation.data);
    store = await startDocumentStore({ folder: join(installation.data, 'document-store'), port: 0 });
  });
  afterAll(async () => {
    await store.close();
    await installation.remove();
  });

  it('is not served beyond loopback without TLS, and by `start` not at all', async () => {
    const exposed = { WAYMARK_MONGODB_HOST: '0.0.0.0' };
    expect(await installation.run(['engines', '--document-store'], exposed)).toMatchObject({
      status: 1,
      err: "waymark: host '0.0.0.0' is refused: beyond loopback TLS is needed\n",
    });
    const started = await installation.run(['start'], exposed);
    expect(started.status).toBe(1);
    expect(started.err).toMatch(
      /^waymark: WAYMARK_MONGODB_HOST and .* are for `waymark engines --document-store`/,
    );
  });

  it('is checked and backed up into an empty folder only', async () => {
    const run = (...words: string[]) => installation.run(['document-store', ...words]);
    const copy = join(installation.data, 'copy-of-documents');
    expect(await run('backup', copy)).toMatchObject({ status: 0, err: '' });
    expect(await run('backup', copy)).toMatchObject({ status: 1, err: `waymark: ${copy} is not empty\n` });
    expect(await run('check')).toMatchObject({
      status: 0,
      out: '0 documents in 0 collections, all as they were written\n',
    });
  });
});
