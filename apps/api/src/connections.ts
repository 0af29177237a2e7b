import { type IncomingMessage, STATUS_CODES, type ServerOptions, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { BODY_LIMIT } from './routes.js';
import { Problem } from './problems.js';

/** How long a request may take to arrive, in milliseconds from its first byte (of a new connection, from its opening). */
export interface Patience {
  /** Until the headers are complete. */
  readonly headersMs: number;
  /** Until the body is; no less than `headersMs`. */
  readonly requestMs: number;
  /** How often both are looked at: a request is cut at most this much later. */
  readonly everyMs: number;
}

export const PATIENCE: Patience = { headersMs: 10_000, requestMs: 15_000, everyMs: 1_000 };

/** The most bytes that the request line and the headers may have together. */
const HEADER_LIMIT = 16 * 1024;

/** What Node's HTTP server is made with. That HTTP/1.1 needs a `Host` is seen to by `nameless`. */
export function serverOptions({ headersMs, requestMs, everyMs }: Patience): ServerOptions {
  return {
    headersTimeout: headersMs,
    requestTimeout: requestMs,
    connectionsCheckingInterval: everyMs,
    maxHeaderSize: HEADER_LIMIT,
    requireHostHeader: false,
  };
}

/** A request line's target as routes know it: without an origin, which names no other server here. */
export function targetOf(url: string): string {
  const path = /^https?:\/\/[^/?#]*/i.test(url) ? url.replace(/^https?:\/\/[^/?#]*/i, '') : url;
  const rooted = path.startsWith('/') ? path : `/${path}`;
  return rooted.replace(/^\/docs\/(?=$|\?)/, '/docs');
}

/** The problem of a request that must name its host and does not (RFC 9112, 3.2). */
export function nameless({ httpVersion, headers }: IncomingMessage): Problem | undefined {
  return httpVersion === '1.1' && headers.host === undefined ? MALFORMED : undefined;
}

/**
 * What is no request, or does not arrive in time, is answered on its connection, which then ends. A connection that
 * the other side has closed is just closed, and so is one on which the answer to a request that came whole is due: what
 * is wrong is then not that request.
 *
 * @returns the problem that was answered.
 */
export function answerUnreadable(error: NodeJS.ErrnoException, socket: Socket): Problem | undefined {
  const { _httpMessage: due } = socket as { _httpMessage?: ServerResponse | null };
  if (error.code === 'ECONNRESET' || !socket.writable || due?.headersSent || due?.req.complete) {
    socket.destroy();
    return undefined;
  }
  const problem = problemOf(error.code);
  const body = JSON.stringify(problem.body('/'));
  socket.end(
    [
      `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
      'Content-Type: application/problem+json; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  );
  return problem;
}

const MALFORMED = new Problem('malformed-request', 'What was sent is no HTTP/1.1 request.');

function problemOf(code = ''): Problem {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return new Problem('request-timeout', 'The request did not arrive in time.');
  if (code === 'HPE_HEADER_OVERFLOW')
    return new Problem('headers-too-large', `The headers may have ${HEADER_LIMIT} bytes together.`, {
      limit: HEADER_LIMIT,
    });
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW')
    return new Problem('payload-too-large', `A body may have ${BODY_LIMIT} bytes.`, { limit: BODY_LIMIT });
  return MALFORMED;
}
