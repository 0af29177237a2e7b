import { setTimeout as pause } from 'node:timers/promises';
import { BadSetting } from '#apps/settings';
import { CannotStart } from './failures.js';

export interface Request {
  body?: unknown;
  /** `Idempotency-Key`: with one, a command that is sent again has one effect. */
  key?: string;
  /** `Waymark-Lease`. */
  lease?: string;
  /** `Waymark-Min-Position`. */
  minPosition?: string;
}

/** The body of an answer that is not a problem. */
export type Answer = Record<string, unknown>;

/** A problem answer (RFC 9457) that asking again would not change. */
export class Refused extends Error {
  override readonly name = 'Refused';
  constructor(
    request: string,
    readonly status: number,
    readonly code: string,
    readonly problem: Answer,
  ) {
    super(`${request}: ${status} ${code}: ${String(problem.detail)}`);
  }
}

/** The server could not be reached, or said that it was busy, for longer than the caller's patience. */
export class Unanswered extends Error {
  override readonly name = 'Unanswered';
}

const FIRST_DELAY_MS = 25;
const MOST_DELAY_MS = 1_000;
const PASSING = new Set(['concurrent-change', 'idempotency-key-in-flight']);

/**
 * Calls a server's API as one identity. What passes by itself (no connection, an answer that never came, 429, 503,
 * a lost race) is tried again with growing delays until `patienceMs` is over; so give every command a key.
 */
export class ApiClient {
  constructor(
    private readonly url: string,
    private readonly token: string,
    private readonly patienceMs: number,
  ) {}

  /**
   * @throws Refused for any other problem answer.
   * @throws Unanswered when patience is over.
   */
  async call(method: string, path: string, request: Request = {}): Promise<Answer> {
    const until = Date.now() + this.patienceMs;
    for (let delay = FIRST_DELAY_MS; ; delay = Math.min(delay * 2, MOST_DELAY_MS)) {
      const outcome = await this.attempt(method, path, request);
      if ('answer' in outcome) return outcome.answer;
      if (Date.now() + delay > until) throw new Unanswered(`${method} ${path}: ${outcome.passing}`);
      await pause(delay);
    }
  }

  private async attempt(
    method: string,
    path: string,
    request: Request,
  ): Promise<{ answer: Answer } | { passing: string }> {
    let response: Response;
    let text: string;
    try {
      response = await fetch(`${this.url}${path}`, { method, ...this.contentOf(request) });
      text = await response.text();
    } catch (error) {
      if (error instanceof TypeError) return { passing: causeOf(error) };
      throw error;
    }
    const body = text === '' ? {} : (JSON.parse(text) as Answer);
    if (response.ok) return { answer: body };
    const code = typeof body.code === 'string' ? body.code : 'unknown';
    const passes = response.status === 429 || response.status === 503 || PASSING.has(code);
    if (passes) return { passing: `${response.status} ${code}` };
    throw new Refused(`${method} ${path}`, response.status, code, body);
  }

  private contentOf({ body, key, lease, minPosition }: Request): RequestInit {
    const headers = {
      authorization: `Bearer ${this.token}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key === undefined ? {} : { 'idempotency-key': key }),
      ...(lease === undefined ? {} : { 'waymark-lease': lease }),
      ...(minPosition === undefined ? {} : { 'waymark-min-position': minPosition }),
    };
    return body === undefined ? { headers } : { headers, body: JSON.stringify(body) };
  }
}

/** Why a connection failed, in the words of what refused it. */
export function causeOf(error: TypeError): string {
  return error.cause instanceof Error ? error.cause.message : error.message;
}

/**
 * Where a running server is looked for: the origin of `WAYMARK_URL`.
 *
 * @throws BadSetting if it is no address.
 */
export function serverAddress(): string {
  const given = process.env.WAYMARK_URL || 'http://127.0.0.1:3000';
  if (/^https?:\/\//.test(given) && URL.canParse(given)) return new URL(given).origin;
  throw new BadSetting(
    `WAYMARK_URL is ${JSON.stringify(given)}; expected: an address such as http://127.0.0.1:3000`,
  );
}

/** That no server is where one was looked for. */
export function nobodyAt(url: string, why: string): CannotStart {
  return new CannotStart(
    `no server answers at ${url} (${why}): start one with \`npm start\`, or set WAYMARK_URL`,
  );
}
