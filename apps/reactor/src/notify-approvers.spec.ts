import { createHmac, randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { people, seconds } from '#libs/domain/examples';
import { ReactionRunner } from '#libs/reacting';
import { TestStores, grantedRun, send } from '#test/projecting';
import { notifyApprovers } from './notify-approvers.js';

const key = Buffer.alloc(32, 7);
const secret = `whsec_${key.toString('base64')}`;
interface Got {
  headers: IncomingHttpHeaders;
  body: string;
}

let stores: TestStores;
let server: Server;
let url: string;
const got: Got[] = [];
const arrivals = new EventEmitter();
let answers: number[] = [];
let time = seconds(700);

beforeAll(async () => {
  stores = await TestStores.start();
  server = createServer((request, response) => {
    void text(request).then((body) => {
      got.push({ headers: request.headers, body });
      response.writeHead(answers.shift() ?? 204).end();
      arrivals.emit('got');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/approvals`;
});
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await stores.close();
});

const reaction = (webhooks = { acme: { url, secret } }) =>
  notifyApprovers({
    webhooks,
    now: () => Date.parse(time),
    notice: stores.notice,
    signal: new AbortController().signal,
    firstPauseMs: 1,
  });

describe('telling a tenant of its approvals', () => {
  it('posts signed notifications, without anything personal, that a repeat can be told by', async () => {
    const runId = randomUUID();
    const { approvalId, position } = await grantedRun(stores, runId);
    answers = [500, 302, 204];
    const runner = new ReactionRunner(reaction(), stores);
    runner.start();
    expect(await runner.waitFor(position, 5_000)).toBe(true);
    await runner.stop();
    expect(runner.status()).toMatchObject({ handled: 2, deadLetters: 0 });
    const notices = got.map(({ body }) => JSON.parse(body) as Record<string, unknown>);
    expect(notices.map(({ type }) => type)).toEqual([
      'approval.waiting',
      'approval.waiting',
      'approval.waiting',
      'approval.granted',
    ]);
    expect(new Set(got.map(({ headers }) => headers['webhook-id'])).size).toBe(2);
    expect(notices[0]).toEqual({
      type: 'approval.waiting',
      tenant: 'acme',
      runId,
      approvalId,
      revision: '3',
      occurredAt: expect.any(String) as string,
      expiresAt: seconds(3630),
    });
    for (const { headers, body } of got) {
      const { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signature } = headers;
      const signed = createHmac('sha256', key)
        .update(`${String(id)}.${String(time)}.${body}`)
        .digest('base64');
      expect([signature, time]).toEqual([`v1,${signed}`, String(Date.parse(seconds(700)) / 1000)]);
    }
  });

  it('sets aside what an endpoint does not take, and leaves one alone that fails again and again', async () => {
    const heard = reaction();
    const event = (tenant = 'acme') =>
      ({
        type: 'ApprovalDenied',
        data: { approvalId: 'a.1' },
        stream: `run-${tenant}.a`,
        tenant,
        id: 'a',
        revision: 4n,
        position: 9n,
        eventId: randomUUID(),
        metadata: { recordedAt: seconds(1), schemaVersion: 1 },
      }) as const;
    got.length = 0;
    answers = Array<number>(15).fill(503);
    for (let failed = 0; failed < 5; failed++)
      await expect(heard.react(event())).rejects.toThrow('the endpoint answered 503');
    expect(got).toHaveLength(15);
    await expect(heard.react(event())).rejects.toThrow('circuit breaker');
    expect(got).toHaveLength(15);
    expect(heard.isTransient(new Error('any'))).toBe(false);
    await heard.react(event('globex'));
    expect(got).toHaveLength(15);
  });

  it('gives up what no endpoint took for three days, and says so', async () => {
    const event = {
      type: 'ApprovalDenied',
      data: { approvalId: 'b.1' },
      stream: 'run-acme.b',
      tenant: 'acme',
      id: 'b',
      revision: 4n,
      position: 9n,
      eventId: randomUUID(),
      metadata: { recordedAt: seconds(0), schemaVersion: 1 },
    } as const;
    const heard = reaction();
    got.length = 0;
    answers = Array<number>(6).fill(503);
    time = seconds(3 * 86_400);
    await expect(heard.react(event)).rejects.toThrow('the endpoint answered 503');
    time = seconds(3 * 86_400 + 1);
    const told = stores.tells('a notification is given up');
    await heard.react(event);
    expect(await told).toMatchObject({ tenant: 'acme', stream: 'run-acme.b', revision: 4n });
    expect(got).toHaveLength(6);
    time = seconds(700);
  });

  it('tells that the wait ended however it ended', async () => {
    got.length = 0;
    const runId = randomUUID();
    await grantedRun(stores, runId);
    const cancel = { type: 'CancelRun', endedBy: people.dana, at: seconds(650) } as const;
    const { position } = (await send(stores, runId, cancel))!;
    const runner = new ReactionRunner(reaction(), stores);
    runner.start();
    expect(await runner.waitFor(position, 5_000)).toBe(true);
    await runner.stop();
    const types = got.map(({ body }) => (JSON.parse(body) as { type: string }).type);
    expect(types.slice(-1)).toEqual(['approval.withdrawn']);
  });
});
