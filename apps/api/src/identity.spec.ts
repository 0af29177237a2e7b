import { createPublicKey } from 'node:crypto';
import { decodeJwt, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { issueToken, type TokenContent } from '#libs/access';
import { type SigningKeys, Vault } from '#libs/vault';
import { dana, RunningApi } from '#test/api';

let api: RunningApi;
let keys: SigningKeys;
let good: JWTPayload;
beforeAll(async () => {
  api = await RunningApi.start();
  keys = await api.app.get(Vault).signingKeys();
  good = decodeJwt(await api.token(dana));
});
afterAll(() => api.close());

const content: TokenContent = {
  issuer: 'waymark',
  audience: 'waymark',
  sub: 'dana',
  tenant: 'acme',
  roles: ['adjuster'],
};
const read = (token: string) =>
  api.send('GET', '/v1/runs', { headers: { authorization: `Bearer ${token}` } });
/** Signed with what everybody may know, as if it were a secret. */
const hmac = (secret: string | Buffer) =>
  new SignJWT(good).setProtectedHeader({ alg: 'HS256', kid: keys.kid }).sign(Buffer.from(secret));

describe('a token', () => {
  it('is good as the installation signs it', async () => {
    expect((await read(await issueToken(keys, content))).status).toBe(200);
  });

  it.each<[string, () => Promise<string> | string]>([
    [
      'that has expired',
      () => issueToken(keys, { ...content, now: Date.now() - 7_200_000, lifetimeSeconds: 60 }),
    ],
    ['of another issuer', () => issueToken(keys, { ...content, issuer: 'elsewhere' })],
    ['for another audience', () => issueToken(keys, { ...content, audience: 'elsewhere' })],
    ['without a signature (alg none)', () => new UnsecuredJWT(good).encode()],
    ['under the public key as a secret (JWK)', () => hmac(JSON.stringify(keys.publicJwk))],
    ['under the public key as a secret (its bytes)', () => hmac(Buffer.from(keys.publicJwk.x!, 'base64url'))],
    [
      'under the public key as a secret (PEM)',
      () =>
        hmac(createPublicKey({ key: keys.publicJwk, format: 'jwk' }).export({ type: 'spki', format: 'pem' })),
    ],
    [
      'whose payload was exchanged',
      async () => {
        const [head, , signature] = (await issueToken(keys, content)).split('.');
        const payload = Buffer.from(JSON.stringify({ ...good, roles: ['supervisor'] })).toString('base64url');
        return [head, payload, signature].join('.');
      },
    ],
  ])('%s names nobody', async (_what, make) => {
    const token = await make();
    const { status, body, headers, text } = await read(token);
    expect([status, body.code, headers['www-authenticate']]).toEqual([401, 'unauthenticated', 'Bearer']);
    expect(text).not.toContain(token);
  });
});
