import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { z } from 'zod';
import { Policies, statusOn } from './policies.js';

export interface PolicyRegisterOptions {
  /** Where the policies lie; made where there is none. */
  readonly folder: string;
  /** 0 for a free one. */
  readonly port: number;
  /** The day on which a policy is asked about where the question names none: `YYYY-MM-DD`. */
  readonly today?: () => string;
}

export interface RunningPolicyRegister {
  readonly url: string;
  readonly port: number;
  /** Answers what was asked, then closes what lies on disk. */
  close(): Promise<void>;
}

const LOOPBACK = '127.0.0.1';
const BODY_LIMIT = 64 * 1024;
const ADDRESS = /^\/v1\/([a-z0-9]{1,32})\/policies\/([^/]+)$/;

const day = z.iso.date();
const policy = z
  .strictObject({ from: day, until: day.optional(), terms: z.record(z.string(), z.json()).optional() })
  .refine(({ from, until }) => until === undefined || until >= from, 'until: no day before from');

/**
 * A small register of policies for one machine: `PUT` and `GET /v1/<tenant>/policies/<number>`. `GET` takes `on`, a
 * day, and says how the policy stands then. Loopback only, without users. What `PUT` answered is on disk.
 */
export async function startPolicyRegister(options: PolicyRegisterOptions): Promise<RunningPolicyRegister> {
  const { folder, port, today = () => new Date().toISOString().slice(0, 10) } = options;
  const policies = Policies.open(folder);
  const server = createServer((request, response) => {
    answer(policies, today, request)
      .catch((error: unknown) => problemOf(error))
      .then(({ status, body }) => {
        response.writeHead(status, { 'content-type': 'application/json' });
        response.end(JSON.stringify(body));
      })
      .catch((error: unknown) => response.destroy(error as Error));
  });
  try {
    server.listen(port, LOOPBACK);
    await once(server, 'listening');
  } catch (error) {
    await policies.close();
    throw error;
  }
  const { port: listening } = server.address() as AddressInfo;
  const close = async () => {
    const closed = once(server, 'close');
    server.close();
    server.closeIdleConnections();
    await closed;
    await policies.close();
  };
  return { url: `http://${LOOPBACK}:${listening}`, port: listening, close };
}

interface Answer {
  readonly status: number;
  readonly body: object;
}

class Unusable extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

async function answer(policies: Policies, today: () => string, request: IncomingMessage): Promise<Answer> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://register');
  const [, tenant, encoded] = ADDRESS.exec(pathname) ?? [];
  if (tenant === undefined || encoded === undefined)
    throw new Unusable(404, 'not-found', 'there is nothing here');
  const policyNumber = numberIn(encoded);
  if (request.method === 'PUT') {
    const parsed = policy.safeParse(await bodyOf(request));
    if (!parsed.success) throw new Unusable(400, 'invalid-body', z.prettifyError(parsed.error));
    return {
      status: 200,
      body: { policyNumber, ...(await policies.put(tenant, policyNumber, parsed.data)) },
    };
  }
  if (request.method !== 'GET') throw new Unusable(405, 'method-not-allowed', 'GET or PUT');
  const on = day.safeParse(searchParams.get('on') ?? today());
  if (!on.success) throw new Unusable(400, 'invalid-parameter', 'on: a day such as 2026-02-28');
  const found = policies.find(tenant, policyNumber);
  if (!found) throw new Unusable(404, 'policy-unknown', 'there is no such policy');
  return { status: 200, body: { policyNumber, status: statusOn(found, on.data), ...found } };
}

function numberIn(encoded: string): string {
  try {
    const policyNumber = decodeURIComponent(encoded);
    if (policyNumber.length <= 64) return policyNumber;
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
  }
  throw new Unusable(400, 'invalid-parameter', 'a policy number has 1 to 64 characters');
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > BODY_LIMIT)
      throw new Unusable(413, 'payload-too-large', `a body may have ${BODY_LIMIT} bytes`);
    parts.push(part);
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString('utf8')) as unknown;
  } catch (error) {
    if (error instanceof SyntaxError) throw new Unusable(400, 'invalid-body', 'the body is not JSON');
    throw error;
  }
}

function problemOf(error: unknown): Answer {
  if (!(error instanceof Unusable)) return { status: 500, body: { code: 'internal-error' } };
  return { status: error.status, body: { code: error.code, detail: error.message } };
}
