import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { Config } from '#apps/settings';
import { type Launched, launch, type Running, tokenIssuer } from '#apps/waymark';
import { type Answered, call } from './http.js';

const root = resolve(__dirname, '../../..');

type Issue = Awaited<ReturnType<typeof tokenIssuer>>;
export type Role = Parameters<Issue>[0]['role'][number];
export interface Who {
  sub?: string;
  tenant?: string;
  customer?: string;
  actFor?: string[];
}

/** A command that ended: its exit status, and what it said. */
export interface Ran {
  status: number | null;
  out: string;
  err: string;
}

/** A request made as somebody. */
export type Caller = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Record<string, string>,
) => Promise<Answered>;

/** The built program. Builds it first where the sources are newer, so that a spec can also be run on its own. */
export function waymarkProgram(): string {
  execFileSync(process.execPath, [join(root, 'bin/build.mjs')], { stdio: 'inherit' });
  return join(root, 'dist/apps/waymark/src/main.js');
}

/** The environment of a server that believes that it is so much later than it is. */
export function later(milliseconds: number): Record<string, string> {
  const preloaded = join(root, 'test/support/later.cjs');
  return { NODE_OPTIONS: `--require ${preloaded}`, WAYMARK_TEST_LATER_MS: String(milliseconds) };
}

/** A data folder in which servers and engines run, with what they need to be called. */
export class Installation {
  private readonly launched = new Set<{ kill(): Promise<void> }>();
  private issue: Issue | undefined;

  private constructor(
    readonly data: string,
    readonly program: string,
  ) {}

  /** In a temporary folder, or in one that is given: there or not, it is removed in the end. */
  static async create(data?: string): Promise<Installation> {
    return new Installation(data ?? (await mkdtemp(join(tmpdir(), 'waymark-test-'))), waymarkProgram());
  }

  /** Starts a server; on free ports by default. `WAYMARK_TEST_LOG=1` shows what it says. */
  async start(environment: Record<string, string> = {}): Promise<Server> {
    return new Server(this, await this.launch<Running>(['start'], environment));
  }

  /** Starts one engine, or both, without a server. */
  engines(args: string[], environment: Record<string, string> = {}) {
    return this.launch<{ eventStoreUrl?: string; mongoUrl?: string }>(['engines', ...args], environment);
  }

  /** Runs the program to its end; resolves when all that it started has closed its outputs, too. */
  async run(
    args: string[],
    settings: Record<string, string> = {},
    as: { uid?: number; gid?: number } = {},
  ): Promise<Ran> {
    const child = spawn(process.execPath, [this.program, ...args], {
      env: { ...this.environment(), ...settings },
      stdio: ['ignore', 'pipe', 'pipe'],
      ...as,
    });
    const closed = once(child, 'close') as Promise<[number | null]>;
    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
    return { status: (await closed)[0], out, err };
  }

  async token(role: Role | Role[], { sub, tenant = 'acme', customer, actFor }: Who = {}): Promise<string> {
    this.issue ??= await tokenIssuer(Config.from({ WAYMARK_DATA: this.data }));
    const roles = [role].flat();
    return this.issue({ role: roles, sub: sub ?? `${roles[0]}-1`, tenant, customer, actFor });
  }

  /** Kills what still runs, and removes the folder. */
  async remove(): Promise<void> {
    await Promise.all([...this.launched].map((each) => each.kill()));
    await rm(this.data, { recursive: true, force: true });
  }

  /** The environment in which it runs. */
  environment(more: Record<string, string> = {}): NodeJS.ProcessEnv {
    const free = { WAYMARK_PORT: '0', WAYMARK_EVENTSTORE_PORT: '0', WAYMARK_MONGODB_PORT: '0' };
    return { ...process.env, LOG_LEVEL: 'error', ...free, ...more, WAYMARK_DATA: this.data };
  }

  private async launch<Ready>(args: string[], more: Record<string, string>): Promise<Launched<Ready>> {
    const environment = this.environment(more);
    const log = process.env.WAYMARK_TEST_LOG === undefined ? 'ignore' : 'inherit';
    const launched = await launch<Ready>(this.program, args, { environment, log, group: true });
    this.launched.add(launched);
    launched.process.once('close', () => this.launched.delete(launched));
    return launched;
  }
}

/** A running server. */
export class Server {
  readonly url: string;
  readonly eventStoreUrl: string;
  readonly mongoUrl: string;
  readonly policiesUrl: string;
  readonly pid: number;
  /** Resolves when it and all that it started have ended, however that came. */
  readonly gone: Promise<void>;

  constructor(
    private readonly installation: Installation,
    private readonly launched: Launched<Running>,
  ) {
    this.gone = launched.gone;
    const { url, eventStoreUrl, mongoUrl, policiesUrl, pid } = launched.ready;
    this.url = url;
    this.eventStoreUrl = eventStoreUrl;
    this.mongoUrl = mongoUrl;
    this.policiesUrl = policiesUrl;
    this.pid = pid;
  }

  /** Calls as somebody of that role. */
  async as(role: Role | Role[], who: Who = {}): Promise<Caller> {
    const token = await this.installation.token(role, who);
    return (method, path, body, headers) => call(method, `${this.url}${path}`, { token, body, headers });
  }

  /** Registers Dana, an adjuster up to 20,000 USD, and Sam, a supervisor. */
  async registerStaff(): Promise<void> {
    const sam = await this.as('supervisor', { sub: 'sam' });
    const authorityLimit = { amount: '20000.00', currency: 'USD' };
    for (const [sub, entry] of Object.entries({
      dana: { roles: ['adjuster'], authorityLimit },
      sam: { roles: ['supervisor'] },
    })) {
      const { status, body } = await sam('PUT', `/v1/staff/${sub}`, { ...entry, active: true });
      if (status !== 200) throw new Error(`${sub} is not registered: ${JSON.stringify(body)}`);
    }
  }

  /** The settings by which another start comes back at the same addresses. */
  get ports(): Record<string, string> {
    return {
      WAYMARK_PORT: new URL(this.url).port,
      WAYMARK_EVENTSTORE_PORT: new URL(this.eventStoreUrl).port,
      WAYMARK_MONGODB_PORT: new URL(this.mongoUrl).port,
    };
  }

  /** The process that it started as `engines` or `app`. */
  child(name: 'engines' | 'app'): number {
    const listed = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,args='], { encoding: 'utf8' });
    for (const line of listed.split('\n')) {
      const [child, parent, ...args] = line.trim().split(/\s+/);
      if (Number(parent) === this.pid && args.includes(name)) return Number(child);
    }
    throw new Error(`process ${this.pid} has no child ${name}`);
  }

  /** SIGKILL to every process of it at once; resolves when all are gone. */
  kill(): Promise<void> {
    return this.launched.kill();
  }

  /** SIGTERM to the process that was started; resolves with its exit status when all are gone. */
  stop(): Promise<number | null> {
    return this.launched.stop();
  }
}
