import { createServer, type RequestListener } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { Fact } from '#libs/domain/runs';
import { type About, FactSources, policyRef, policyRegister, type SourceKind } from './index.js';

const about: About = { tenant: 'acme', customerId: 'c1', claimIds: [] };
const never = new AbortController().signal;

/** A register that answers as it is told, and counts how often it was asked. */
async function register(answer: RequestListener) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(String(request.url));
    answer(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  return { url, asked, close };
}
const says =
  (status: number, body: unknown): RequestListener =>
  (_request, response) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));

const kept = { policyNumber: 'P 1', status: 'in-force', version: 3, from: '2026-01-01' };

describe('the policy register', () => {
  it('is asked about a policy, on the day that the fact names', async () => {
    const { url, asked, close } = await register(says(200, { ...kept, terms: { excess: 300 } }));
    const look = policyRegister({ url });
    const found = {
      status: 'in-force',
      inForce: true,
      version: 3,
      from: '2026-01-01',
      until: null,
      terms: { excess: 300 },
    };
    expect(await look(about, 'P 1@2026-02-28', never)).toEqual(found);
    expect(await look(about, 'P@1/2', never)).toEqual(found);
    expect(asked).toEqual(['/v1/acme/policies/P%201?on=2026-02-28', '/v1/acme/policies/P%401%2F2']);
    await close();
  });

  it('says so of a policy that it does not know', async () => {
    const { url, close } = await register(says(404, { code: 'policy-unknown' }));
    const unknown = { status: 'unknown', inForce: false, version: 0 };
    expect(await policyRegister({ url })(about, 'P1', never)).toEqual(unknown);
    await close();
  });

  it('is asked three times when it fails, and once when it answers something else', async () => {
    const failing = await register(says(503, {}));
    await expect(policyRegister({ url: failing.url })(about, 'P1', never)).rejects.toThrow('answers 503');
    expect(failing.asked.length).toBe(3);
    await failing.close();
    const odd = await register(says(200, { status: 'splendid' }));
    await expect(policyRegister({ url: odd.url })(about, 'P1', never)).rejects.toThrow(
      'something else than a policy',
    );
    expect(odd.asked.length).toBe(1);
    await odd.close();
  });

  it('is left alone after five failures in a row, then tried by one', async () => {
    let up = false;
    const { url, asked, close } = await register((request, response) =>
      (up ? says(200, kept) : says(500, {}))(request, response),
    );
    const look = policyRegister({ url, restMs: 60_000 });
    await expect(look(about, 'P1', never)).rejects.toThrow('answers 500');
    await expect(look(about, 'P1', never)).rejects.toThrow('is not asked');
    expect(asked.length).toBe(5);
    up = true;
    await expect(look(about, 'P1', never)).rejects.toThrow('is not asked');
    const now = Date.now();
    jest.spyOn(Date, 'now').mockReturnValue(now + 60_001);
    expect(await look(about, 'P1', never)).toMatchObject({ inForce: true });
    jest.restoreAllMocks();
    expect(asked.length).toBe(6);
    await close();
  });

  it('that does not answer is not waited for', async () => {
    const { url, close } = await register(() => undefined);
    await expect(policyRegister({ url, answerMs: 20 })(about, 'P1', never)).rejects.toThrow(
      'does not answer',
    );
    await close();
    await expect(policyRegister({ url })(about, 'P1', never)).rejects.toThrow('cannot be reached');
  });
});

describe('a ref', () => {
  it.each([
    ['P-1', { policyNumber: 'P-1' }],
    ['P-1@2026-02-28', { policyNumber: 'P-1', date: '2026-02-28' }],
    ['a@b@2026-02-28', { policyNumber: 'a@b', date: '2026-02-28' }],
    ['P-1@home', { policyNumber: 'P-1@home' }],
  ])('%s names a policy, and perhaps a day', (ref, named) => {
    expect(policyRef(ref)).toEqual(named);
  });
});

describe('fact sources', () => {
  const fact = (name: string, kind: Fact['source']['kind'], ref?: string): Fact => ({
    name,
    version: 2,
    value: 1,
    source: { kind, ...(ref !== undefined && { ref }) },
    recheck: 'both',
    required: true,
    observedAt: '2026-03-02T09:00:00.000Z',
  });

  it('are asked once for the same thing; one that fails leaves its facts without an answer', async () => {
    const asked: string[] = [];
    const unanswered: SourceKind[] = [];
    const source = (kind: string) => (_: About, ref?: string) => {
      asked.push(`${kind} ${ref}`);
      return ref === 'broken' ? Promise.reject(new Error('broken')) : Promise.resolve({ value: kind });
    };
    const hangs = () => new Promise<never>(() => undefined);
    const sources = new FactSources(
      { claims: source('claims'), policy: source('policy'), profile: hangs },
      (kind) => unanswered.push(kind),
      30,
    );
    const facts = [
      fact('a', 'claims', 'P1'),
      fact('b', 'claims', 'P1'),
      fact('c', 'policy', 'broken'),
      fact('d', 'profile'),
      fact('e', 'statement'),
    ];
    expect(await sources.read(about, facts)).toEqual([
      { name: 'a', version: 2, found: { value: 'claims' } },
      { name: 'b', version: 2, found: { value: 'claims' } },
      { name: 'c', version: 2, found: undefined },
      { name: 'd', version: 2, found: undefined },
      { name: 'e', version: 2, found: undefined },
    ]);
    expect(asked).toEqual(['claims P1', 'policy broken']);
    expect(unanswered.sort()).toEqual(['policy', 'profile']);
  });
});
