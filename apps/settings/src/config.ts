import { money, type Money } from '#libs/decider';
import { z } from 'zod';

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
const MIB = 1024 * 1024;
const UNITS: Record<string, number> = { '': 1, B: 1, KiB: 1024, MiB: MIB };

const port = (standard: number) => whole(standard, 0, 65_535);
const url = (schemes: string[]) =>
  z
    .string()
    .refine(
      (text) => schemes.some((scheme) => text.startsWith(`${scheme}://`)),
      `an address that begins with ${schemes.map((s) => `${s}://`).join(' or ')}`,
    )
    .optional();

const pemFile = (what: string, engine: string) =>
  z
    .string()
    .min(1)
    .optional()
    .describe(`The PEM file with the ${what}, for \`engines --${engine}\` with TLS.`);

/** A whole number, given as digits, within bounds. */
function whole(standard: number, least: number, most: number) {
  const range = `a whole number from ${least} to ${most}`;
  return z
    .string()
    .regex(/^\d{1,15}$/, range)
    .transform(Number)
    .refine((number) => number >= least && number <= most, range)
    .default(standard);
}

/** A number of bytes: `65536`, `256 KiB` or `12 MiB`. */
function bytes(standard: number, least: number, most: number) {
  const range = `a size such as "256 KiB" or "12 MiB", from ${least} to ${most} bytes`;
  return z
    .string()
    .regex(/^\d{1,9} ?(B|KiB|MiB)?$/, range)
    .transform((text) => {
      const [, digits = '', unit = ''] = /^(\d+) ?(\w*)$/.exec(text) ?? [];
      return Number(digits) * (UNITS[unit] ?? 1);
    })
    .refine((size) => size >= least && size <= most, range)
    .default(standard);
}

const amount = z
  .string()
  .transform((text) => {
    const [amount, currency, ...rest] = text.split(' ');
    return { amount: amount ?? '', currency: rest.length === 0 ? (currency ?? '') : '' };
  })
  .refine((value) => money.safeParse(value).success, 'an amount with its currency, such as "50000.00 USD"')
  .default({ amount: '50000.00', currency: 'USD' } satisfies Money);

const webhook = z.strictObject({
  url: z.url({ protocol: /^https?$/ }),
  /** `whsec_` and 24 to 64 random bytes in base64. */
  secret: z.string().regex(/^whsec_[A-Za-z0-9+/]{32,86}={0,2}$/),
});
export type Webhook = z.infer<typeof webhook>;

const WEBHOOKS =
  'a JSON object such as {"acme":{"url":"https://…","secret":"whsec_<24 to 64 bytes in base64>"}}';
const webhooks = z
  .string()
  .transform((text, context) => {
    try {
      return z.record(z.string().regex(/^[a-z0-9]{1,32}$/), webhook).parse(JSON.parse(text));
    } catch {
      context.addIssue({ code: 'custom', message: WEBHOOKS });
      return z.NEVER;
    }
  })
  .optional();

/** Settings that hold secrets: what they are set to is never shown. */
const SECRET: readonly string[] = ['WAYMARK_WEBHOOKS'];

/** Every setting, by the name of its environment variable. The whole of what can be set is here. */
export const settings = z.object({
  WAYMARK_HOST: z.string().min(1).default('127.0.0.1').describe('The address to listen on.'),
  WAYMARK_PORT: port(3000).describe('The port to listen on; 0 for a free one.'),
  WAYMARK_DATA: z.string().min(1).default('./data').describe('Where everything lies that must survive.'),
  WAYMARK_EVENTSTORE_PORT: port(2113).describe('Port of the embedded event store; 0 for a free one.'),
  WAYMARK_EVENTSTORE_HOST: z
    .string()
    .min(1)
    .default('127.0.0.1')
    .describe('Where `engines --event-store` listens; beyond loopback with TLS and users only.'),
  WAYMARK_EVENTSTORE_TLS_CERT: pemFile('certificate chain', 'event-store'),
  WAYMARK_EVENTSTORE_TLS_KEY: pemFile('key of the certificate', 'event-store'),
  WAYMARK_MONGODB_PORT: port(27_017).describe('Port of the embedded document store; 0 for a free one.'),
  WAYMARK_MONGODB_HOST: z
    .string()
    .min(1)
    .default('127.0.0.1')
    .describe('Where `engines --document-store` listens; beyond loopback with TLS and users only.'),
  WAYMARK_MONGODB_TLS_CERT: pemFile('certificate chain', 'document-store'),
  WAYMARK_MONGODB_TLS_KEY: pemFile('key of the certificate', 'document-store'),
  WAYMARK_EVENTSTORE_URL: url(['esdb', 'esdb+discover', 'kurrentdb', 'kurrentdb+discover']).describe(
    'A real event store, instead of the embedded one.',
  ),
  WAYMARK_MONGODB_URL: url(['mongodb', 'mongodb+srv']).describe(
    'A real MongoDB, instead of the embedded one.',
  ),
  WAYMARK_POLICIES_PORT: port(0).describe('Port of the embedded policy register; 0 for a free one.'),
  WAYMARK_POLICIES_URL: url(['http', 'https']).describe(
    'A real policy register, instead of the embedded one.',
  ),
  WAYMARK_MONGODB_USERS: z
    .string()
    .min(1)
    .optional()
    .describe('The file with the password of each database’s writer and reader; `start` makes one.'),
  WAYMARK_TWO_PERSON_LIMIT: amount.describe(
    'Above this amount, or in another currency, two people must sign.',
  ),
  WAYMARK_STATE_LIMIT: bytes(12 * MIB, 1024, 15 * MIB).describe(
    'The most that the whole state of one run may take: bytes, or as `12 MiB`.',
  ),
  WAYMARK_WORKER_STATE_LIMIT: bytes(12 * MIB, 1024, 12 * MIB).describe(
    'The most that the state a worker saves may take: bytes, or as `12 MiB`.',
  ),
  WAYMARK_INLINE_STATE_LIMIT: bytes(256 * 1024, 1024, 512 * 1024).describe(
    'The most of it that an event carries; a larger one goes to the payload store.',
  ),
  WAYMARK_APPEND_LIMIT: bytes(MIB, 64 * 1024, 16 * MIB).describe(
    'The most that one append may carry: bytes, or as `1 MiB`; no more than the event store takes.',
  ),
  WAYMARK_EXECUTE_WITHIN_SECONDS: whole(86_400, 1, 30 * 86_400).describe(
    'How long after its grant an approval may be executed, in seconds.',
  ),
  WAYMARK_CONVERSATION_DAYS: whole(30, 1, 3650).describe(
    'How many days messages are kept, for tenants that have set no period of their own.',
  ),
  WAYMARK_WEBHOOKS: webhooks.describe(
    'Where each tenant is told of its approvals, as JSON: `{"acme":{"url":…,"secret":"whsec_…"}}`.',
  ),
  WAYMARK_COMMANDS_AT_ONCE: whole(2000, 1, 100_000).describe(
    'How many commands may be under way; those above it are answered 503.',
  ),
  WAYMARK_WATCHERS: whole(1000, 1, 100_000).describe(
    'How many clients may watch runs; those above it are answered 503.',
  ),
  WAYMARK_CACHED_STREAMS: whole(10_000, 1, 1_000_000).describe('How many folded streams to keep in memory.'),
  AUTH_JWKS_URL: url(['https', 'http']).describe(
    'Where the public keys of tokens are; embedded keys without it.',
  ),
  AUTH_ISSUER: z.string().min(1).default('waymark').describe('The `iss` that a token must carry.'),
  AUTH_AUDIENCE: z.string().min(1).default('waymark').describe('The `aud` that a token must carry.'),
  AUTH_CLOCK_TOLERANCE_SECONDS: whole(5, 0, 120).describe(
    'How far the clock of the issuer may be off, in seconds.',
  ),
  LOG_LEVEL: z
    .enum(LOG_LEVELS, `one of ${LOG_LEVELS.join(', ')}`)
    .default('info')
    .describe('The least severe line to log.'),
});
type Settings = z.infer<typeof settings>;

/** A setting that cannot be used. The message names each variable, and what it may be. */
export class BadSetting extends Error {
  override readonly name = 'BadSetting';
}

/** Where the certificate chain and its key lie. */
export interface PemFiles {
  readonly cert: string;
  readonly key: string;
}

/** Both files or neither. */
function pemFiles(set: Settings, engine: 'EVENTSTORE' | 'MONGODB'): PemFiles | undefined {
  const [ofCert, ofKey] = [`WAYMARK_${engine}_TLS_CERT`, `WAYMARK_${engine}_TLS_KEY`] as const;
  const [cert, key] = [set[ofCert], set[ofKey]];
  if ((cert === undefined) !== (key === undefined))
    throw new BadSetting(`${ofCert} and ${ofKey} are set together or not`);
  return cert === undefined || key === undefined ? undefined : { cert, key };
}

/** The settings, read once at start. */
export class Config {
  readonly host: string;
  readonly port: number;
  readonly dataFolder: string;
  readonly eventStorePort: number;
  readonly eventStoreHost: string;
  readonly eventStoreTls: PemFiles | undefined;
  readonly mongoPort: number;
  readonly mongoHost: string;
  readonly mongoTls: PemFiles | undefined;
  /** Absent while the embedded engine is to be used and has not been started yet. */
  readonly eventStoreUrl: string | undefined;
  readonly mongoUrl: string | undefined;
  readonly policiesPort: number;
  readonly policiesUrl: string | undefined;
  /** Where the passwords of the document store's users are; absent where it has none, or the address has them. */
  readonly mongoUsersFile: string | undefined;
  readonly twoPersonLimit: Money;
  /** Sizes are in bytes of canonical JSON. */
  readonly stateLimit: number;
  readonly workerStateLimit: number;
  readonly inlineStateLimit: number;
  readonly appendLimit: number;
  readonly executeWithinSeconds: number;
  readonly conversationDays: number;
  readonly webhooks: Readonly<Record<string, Webhook>>;
  readonly commandsAtOnce: number;
  readonly watcherLimit: number;
  readonly cachedStreams: number;
  readonly auth: { jwksUrl: string | undefined; issuer: string; audience: string; toleranceSeconds: number };
  readonly logLevel: Settings['LOG_LEVEL'];

  private constructor(set: Settings) {
    this.host = set.WAYMARK_HOST;
    this.port = set.WAYMARK_PORT;
    this.dataFolder = set.WAYMARK_DATA;
    this.eventStorePort = set.WAYMARK_EVENTSTORE_PORT;
    this.eventStoreHost = set.WAYMARK_EVENTSTORE_HOST;
    this.eventStoreTls = pemFiles(set, 'EVENTSTORE');
    this.mongoPort = set.WAYMARK_MONGODB_PORT;
    this.mongoHost = set.WAYMARK_MONGODB_HOST;
    this.mongoTls = pemFiles(set, 'MONGODB');
    this.eventStoreUrl = set.WAYMARK_EVENTSTORE_URL;
    this.mongoUrl = set.WAYMARK_MONGODB_URL;
    this.policiesPort = set.WAYMARK_POLICIES_PORT;
    this.policiesUrl = set.WAYMARK_POLICIES_URL;
    this.mongoUsersFile = set.WAYMARK_MONGODB_USERS;
    this.twoPersonLimit = set.WAYMARK_TWO_PERSON_LIMIT;
    this.stateLimit = set.WAYMARK_STATE_LIMIT;
    this.workerStateLimit = set.WAYMARK_WORKER_STATE_LIMIT;
    this.inlineStateLimit = set.WAYMARK_INLINE_STATE_LIMIT;
    this.appendLimit = set.WAYMARK_APPEND_LIMIT;
    this.executeWithinSeconds = set.WAYMARK_EXECUTE_WITHIN_SECONDS;
    this.webhooks = set.WAYMARK_WEBHOOKS ?? {};
    this.conversationDays = set.WAYMARK_CONVERSATION_DAYS;
    this.commandsAtOnce = set.WAYMARK_COMMANDS_AT_ONCE;
    this.watcherLimit = set.WAYMARK_WATCHERS;
    this.cachedStreams = set.WAYMARK_CACHED_STREAMS;
    this.auth = {
      jwksUrl: set.AUTH_JWKS_URL,
      issuer: set.AUTH_ISSUER,
      audience: set.AUTH_AUDIENCE,
      toleranceSeconds: set.AUTH_CLOCK_TOLERANCE_SECONDS,
    };
    this.logLevel = set.LOG_LEVEL;
  }

  /**
   * Reads the settings from an environment. A variable that is set to nothing counts as not set.
   *
   * @throws BadSetting naming every variable that cannot be used, and what it may be.
   */
  static from(environment: Readonly<Record<string, string | undefined>>): Config {
    const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''));
    const parsed = settings.safeParse(given);
    if (parsed.success) return new Config(parsed.data);
    const lines = parsed.error.issues.map((issue) => {
      const name = String(issue.path[0]);
      const value = SECRET.includes(name) ? 'set to something else' : JSON.stringify(given[name]);
      return `${name} is ${value}; expected: ${issue.message}`;
    });
    throw new BadSetting(lines.join('\n'));
  }
}
