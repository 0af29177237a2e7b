import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SignJWT, UnsecuredJWT } from 'jose';
import { issueToken, KeysUnavailable, TokenReader, Unauthenticated } from './index.js';

const NOW = Date.UTC(2026, 0, 5, 12);
const CUSTOMER = '11111111-1111-4111-8111-111111111111';

function keyPair() {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const jwk = { format: 'jwk' } as const;
  return { kid: 'k', alg: 'EdDSA', publicJwk: publicKey.export(jwk), privateJwk: privateKey.export(jwk) };
}

const SUBJECTS = "the token's sub must be 1 to 128 of A-Z, a-z, 0-9 and . _ @ : | + -";
const keys = keyPair();
const service = { issuer: 'waymark', audience: 'waymark' };
const dana = { ...service, sub: 'dana', tenant: 'acme', roles: ['adjuster'] as const, now: NOW };

async function reader(clock: { now: number } = { now: NOW }) {
  return TokenReader.embedded(keys, { ...service, toleranceSeconds: 5, now: () => clock.now });
}

async function refusal(token: string): Promise<string> {
  const tokens = await reader();
  const error: unknown = await (async () => tokens.read(token))().catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(Unauthenticated);
  return (error as Error).message;
}

describe('tokens', () => {
  it('name their bearer, with all that policies need', async () => {
    const tokens = await reader();
    const content = { ...dana, customerId: CUSTOMER, actFor: ['erin'], lifetimeSeconds: 60 };
    const token = await issueToken(keys, content);
    const identity = {
      sub: 'dana',
      tenant: 'acme',
      roles: ['adjuster'],
      customerId: CUSTOMER,
      actFor: ['erin'],
      expiresAt: NOW + 60_000,
    };
    await expect(tokens.read(token)).resolves.toEqual(identity);
    expect(tokens.read(token)).toEqual(identity);
  });

  it('end when they say, also when they were verified before; the tolerance is bounded', async () => {
    const clock = { now: NOW };
    const tokens = await reader(clock);
    const token = await issueToken(keys, { ...dana, lifetimeSeconds: 60 });
    await tokens.read(token);
    clock.now = NOW + 64_999;
    expect(await tokens.read(token)).toMatchObject({ sub: 'dana' });
    clock.now = NOW + 65_000;
    expect(() => tokens.read(token)).toThrow('the token has expired');
    await expect(tokens.read(token)).rejects.toThrow('the token has expired');
  });

  it.each(['auth0|5f7c', 'dana+claims@example.com', 'urn:x:y', 'a'.repeat(128)])(
    'may name %s',
    async (sub) => {
      expect(await (await reader()).read(await issueToken(keys, { ...dana, sub }))).toMatchObject({ sub });
    },
  );

  it('leave out roles that Waymark does not know', async () => {
    const token = await new SignJWT({ tenant: 'acme', roles: ['root', 'auditor'] })
      .setProtectedHeader({ alg: 'EdDSA' })
      .setSubject('a')
      .setIssuer('waymark')
      .setAudience('waymark')
      .setExpirationTime(NOW / 1000 + 60)
      .sign(generatedKey());
    expect(await (await reader()).read(token)).toMatchObject({ roles: ['auditor'] });
  });

  it.each([
    ['another key', async () => issueToken(keyPair(), dana), 'the token cannot be verified'],
    ['another issuer', async () => issueToken(keys, { ...dana, issuer: 'x' }), "the token's iss is not"],
    ['another audience', async () => issueToken(keys, { ...dana, audience: 'x' }), "the token's aud is not"],
    [
      'a tenant that is no name',
      async () => issueToken(keys, { ...dana, tenant: 'a.b' }),
      "the token's tenant",
    ],
    ['no subject', async () => issueToken(keys, { ...dana, sub: '' }), "the token's sub"],
    ['half a character', async () => issueToken(keys, { ...dana, sub: 'a\ud800' }), SUBJECTS],
    ['a control character', async () => issueToken(keys, { ...dana, sub: 'a\u0007' }), SUBJECTS],
    ['a subject of 129', async () => issueToken(keys, { ...dana, sub: 'a'.repeat(129) }), SUBJECTS],
    ['a path', async () => issueToken(keys, { ...dana, sub: 'a/b' }), SUBJECTS],
    [
      'half a character acted for',
      async () => issueToken(keys, { ...dana, actFor: ['erin', '\udc00'] }),
      "the token's act_for must be 1 to 128 of",
    ],
    [
      'more than twenty acted for',
      async () => issueToken(keys, { ...dana, actFor: Array.from({ length: 21 }, (_, at) => `s${at}`) }),
      "the token's act_for must have at most 20 entries",
    ],
    ['no signature', async () => new UnsecuredJWT({ sub: 'dana' }).encode(), 'the token cannot be verified'],
    ['not a token', async () => 'x', 'the token cannot be verified'],
    ['a book', async () => 'x'.repeat(9000), 'the token is too long'],
  ])('refuse %s without repeating it', async (_name, make, reason) => {
    const token = await make();
    const message = await refusal(token);
    expect(message).toContain(reason);
    if (token.length > 1) expect(message).not.toContain(token);
  });

  it('may act for twenty, however long their names are', async () => {
    const actFor = Array.from({ length: 20 }, (_, at) => String(at).padStart(128, 'x'));
    const token = await issueToken(keys, { ...dana, actFor });
    expect(await (await reader()).read(token)).toMatchObject({ actFor });
  });

  it('refuse a shared secret where a public key is expected', async () => {
    const secret = Buffer.from(JSON.stringify(keys.publicJwk));
    const token = await new SignJWT({ tenant: 'acme', roles: ['supervisor'] })
      .setProtectedHeader({ alg: 'HS256' })
      .setSubject('eve')
      .setExpirationTime(NOW / 1000 + 60)
      .sign(secret);
    expect(await refusal(token)).toBe('the token cannot be verified');
  });
});

describe('tokens of an identity provider', () => {
  async function provider(published: object[]) {
    const server = createServer((_request, response) => response.end(JSON.stringify({ keys: published })));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    const rules = { ...service, toleranceSeconds: 5, now: () => NOW };
    const tokens = TokenReader.remote(`http://127.0.0.1:${port}/keys`, rules);
    return { tokens, close: () => new Promise((resolve) => server.close(resolve)) };
  }

  it('are verified with the keys that it publishes, and no others', async () => {
    const { tokens, close } = await provider([{ ...keys.publicJwk, kid: 'k', alg: 'EdDSA', use: 'sig' }]);
    expect(await tokens.read(await issueToken(keys, dana))).toMatchObject({ sub: 'dana' });
    const forged = await issueToken(keyPair(), dana);
    await expect(tokens.read(forged)).rejects.toThrow(Unauthenticated);
    const unknown = await issueToken({ ...keyPair(), kid: 'other' }, dana);
    await expect(tokens.read(unknown)).rejects.toThrow(Unauthenticated);
    await close();
  });

  it('may be right in a moment while it does not answer', async () => {
    const { tokens, close } = await provider([]);
    await close();
    await expect(tokens.read(await issueToken(keys, dana))).rejects.toThrow(KeysUnavailable);
  });
});

function generatedKey() {
  return { ...keys.privateJwk, alg: 'EdDSA' } as Parameters<SignJWT['sign']>[0];
}
