import { createHash } from 'node:crypto';
import {
  createRemoteJWKSet,
  errors,
  importJWK,
  type JWK,
  type JWTVerifyGetKey,
  jwtVerify,
  SignJWT,
} from 'jose';
import { LRUCache } from 'lru-cache';
import { type Identity, type Role, tokenPayload } from './identity.js';

/** The bearer's token names nobody: absent, malformed, forged, expired, or for another service. */
export class Unauthenticated extends Error {
  override readonly name = 'Unauthenticated';
}

/** The keys that tokens are checked against cannot be fetched; the same token may be right in a moment. */
export class KeysUnavailable extends Error {
  override readonly name = 'KeysUnavailable';
}

export interface TokenRules {
  readonly issuer: string;
  readonly audience: string;
  /** How far the clock of the issuer may be off. */
  readonly toleranceSeconds: number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

const ASYMMETRIC = ['EdDSA', 'ES256', 'ES384', 'PS256', 'RS256'];
const CACHED_TOKENS = 10_000;
const MOST_CHARACTERS = 8192;

/** The key pair of an installation without an identity provider. */
export interface OwnKeys {
  readonly kid: string;
  readonly alg: string;
  readonly publicJwk: JWK;
  readonly privateJwk: JWK;
}

/**
 * Turns a bearer token into an identity. Only asymmetric algorithms are accepted, so that a public key can never
 * be passed off as a shared secret. A token once verified is remembered by its SHA-256 until it ends (the
 * signature is most of the cost of a small request); a withdrawn key therefore counts until the tokens it signed
 * have ended, so issuers keep them short.
 */
export class TokenReader {
  private readonly verified = new LRUCache<string, Identity>({ max: CACHED_TOKENS });

  private constructor(
    private readonly keys: JWTVerifyGetKey,
    private readonly algorithms: string[],
    private readonly rules: TokenRules,
  ) {}

  /** Tokens signed by the installation's own key. */
  static async embedded(
    { alg, publicJwk }: Pick<OwnKeys, 'alg' | 'publicJwk'>,
    rules: TokenRules,
  ): Promise<TokenReader> {
    const key = await importJWK(publicJwk, alg);
    return new TokenReader(() => Promise.resolve(key), [alg], rules);
  }

  /** Tokens of an identity provider, by the keys it publishes (RFC 7517). */
  static remote(jwksUrl: string, rules: TokenRules): TokenReader {
    return new TokenReader(createRemoteJWKSet(new URL(jwksUrl)), ASYMMETRIC, rules);
  }

  /**
   * @throws Unauthenticated with a reason that never repeats the token.
   * @throws KeysUnavailable when the provider's keys cannot be fetched.
   */
  read(token: string): Identity | Promise<Identity> {
    if (token.length > MOST_CHARACTERS) throw new Unauthenticated('the token is too long');
    const hash = createHash('sha256').update(token).digest('base64');
    const known = this.verified.get(hash);
    if (known === undefined) return this.verify(token, hash);
    if (this.rules.now() < known.expiresAt + this.rules.toleranceSeconds * 1000) return known;
    this.verified.delete(hash);
    throw new Unauthenticated('the token has expired');
  }

  private async verify(token: string, hash: string): Promise<Identity> {
    const { issuer, audience, toleranceSeconds, now } = this.rules;
    const { payload } = await jwtVerify(token, this.keys, {
      algorithms: this.algorithms,
      issuer,
      audience,
      clockTolerance: toleranceSeconds,
      currentDate: new Date(now()),
      requiredClaims: ['exp', 'sub'],
    }).catch((error: unknown) => {
      throw whyRefused(error);
    });
    const parsed = tokenPayload.safeParse(payload);
    if (!parsed.success) throw new Unauthenticated(`the token's ${whyUnusable(parsed.error.issues)}`);
    const { sub, tenant, roles, customer_id, act_for, exp } = parsed.data;
    const identity = { sub, tenant, roles, customerId: customer_id, actFor: act_for, expiresAt: exp * 1000 };
    this.verified.set(hash, identity);
    return identity;
  }
}

/** A name of ours says what it must be; else the field alone is told. */
function whyUnusable([issue]: readonly { path: PropertyKey[]; message: string }[]): string {
  const field = String(issue?.path[0]);
  return issue?.message.startsWith('must ') ? `${field} ${issue.message}` : `${field} cannot be used`;
}

function whyRefused(error: unknown): Error {
  if (error instanceof errors.JWTExpired) return new Unauthenticated('the token has expired');
  if (error instanceof errors.JWTClaimValidationFailed)
    return new Unauthenticated(`the token's ${error.claim} is not the one expected`);
  if (error instanceof errors.JWKSTimeout || !(error instanceof errors.JOSEError))
    return new KeysUnavailable('the keys of the identity provider cannot be fetched', { cause: error });
  return new Unauthenticated('the token cannot be verified');
}

export interface TokenContent {
  readonly issuer: string;
  readonly audience: string;
  readonly sub: string;
  readonly tenant: string;
  readonly roles: readonly Role[];
  readonly customerId?: string | undefined;
  readonly actFor?: readonly string[] | undefined;
  readonly lifetimeSeconds?: number;
  /** Milliseconds since the epoch; the present by default. */
  readonly now?: number;
}

const TWELVE_HOURS = 12 * 3600;

/** Signs a token with the installation's own key. */
export async function issueToken(keys: Omit<OwnKeys, 'publicJwk'>, content: TokenContent): Promise<string> {
  const { kid, alg, privateJwk } = keys;
  const issuedAt = Math.floor((content.now ?? Date.now()) / 1000);
  const payload = {
    tenant: content.tenant,
    roles: content.roles,
    ...(content.customerId === undefined ? {} : { customer_id: content.customerId }),
    ...(content.actFor?.length ? { act_for: content.actFor } : {}),
  };
  return new SignJWT(payload)
    .setProtectedHeader({ alg, kid })
    .setSubject(content.sub)
    .setIssuer(content.issuer)
    .setAudience(content.audience)
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + (content.lifetimeSeconds ?? TWELVE_HOURS))
    .sign(await importJWK(privateJwk, alg));
}
