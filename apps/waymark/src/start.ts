import { type ChildProcess, spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Config } from '#apps/settings';
import { Child } from './child.js';
import {
  STORE_USERS,
  claim,
  openDataFolder,
  removeRunning,
  type Running,
  writeRunning,
} from './data-folder.js';
import type { EngineUrls } from './engines.js';
import { CannotStart } from './failures.js';
import { checkDistinct, checkPort } from './ports.js';
import { stoppedBySignal, tell } from './service.js';

/** Together less than the ten seconds in which a stop must be over. */
const APP_GRACE_MS = 5_000;
const ENGINES_GRACE_MS = 4_500;
const LOOPBACK = '127.0.0.1';
const HEALTH_EVERY_MS = 50;
const PARENT_EVERY_MS = 250;

/**
 * How the children's engine uses memory and cores. By default it has four threads for collecting and compiling, on two
 * cores more than there are beside the work itself; a young generation of 16 MiB is full before the commands in flight
 * are answered, and what lives is copied; and a small heap beside many buffers is marked whole twice a second, unless
 * it may double first.
 */
const CHILD_OPTIONS = [
  `--v8-pool-size=${Math.max(1, Math.min(4, availableParallelism() - 1))}`,
  '--max-semi-space-size=32',
  '--heap-growing-percent=100',
];

/**
 * The server: an engines process (for the stores that have no address of their own) and an app process, watched
 * over until SIGTERM, SIGINT or the end of the parent. Both are in this process's group, and end when it does.
 *
 * A stop drains the app first, then the engines, within ten seconds; a second signal changes nothing.
 *
 * @param main the program that children run, with `engines` or `app` as its argument.
 * @returns the exit status: 0 after a stop that was asked for, 1 when a child ended too often.
 * @throws CannotStart with nothing left running.
 */
export async function start(config: Config, main: string): Promise<number> {
  // A program that started this one knows from its channel; a person wants it said.
  const attended = process.send === undefined;
  const stopped = Promise.race([stoppedBySignal(), parentGone()]);
  const folder = resolve(config.dataFolder);
  checkDistinct(portsOf(config));
  checkOwn(config);
  await openDataFolder(folder);
  const claimed = await claim(folder, 'server');
  const server = new Server(config, main);
  const over = Promise.race([stopped, server.givenUp]);
  let failure: string | undefined;
  try {
    await checkPort(config.host, config.port, 'WAYMARK_PORT');
    const running = await Promise.race([server.start(), over.then(() => undefined)]);
    if (running !== undefined) {
      await writeRunning(folder, running);
      if (attended) announce(running, folder);
      await tell({ type: 'ready', ready: running });
    }
    failure = (await over) || undefined;
  } finally {
    await server.stop();
    await removeRunning(folder);
    await claimed.release();
  }
  if (failure !== undefined) warn(failure);
  else if (attended) console.log('stopped');
  return failure === undefined ? 0 : 1;
}

/** The server's own engines are its alone. @throws CannotStart */
function checkOwn(config: Config): void {
  const { eventStoreUrl, eventStoreHost, eventStoreTls, mongoUrl, mongoHost, mongoTls } = config;
  if (eventStoreUrl === undefined && (eventStoreHost !== LOOPBACK || eventStoreTls))
    throw elsewhere('EVENTSTORE', 'event-store');
  if (mongoUrl === undefined && (mongoHost !== LOOPBACK || mongoTls))
    throw elsewhere('MONGODB', 'document-store');
}

const elsewhere = (settings: string, engine: string): CannotStart =>
  new CannotStart(
    `WAYMARK_${settings}_HOST and WAYMARK_${settings}_TLS_… are for \`waymark engines --${engine}\`: run that, and give \`waymark start\` its address as WAYMARK_${settings}_URL`,
  );

/** The ports that a server would listen on. */
function portsOf(config: Config) {
  const { port, eventStorePort, eventStoreUrl, mongoPort, mongoUrl, policiesPort, policiesUrl } = config;
  return {
    WAYMARK_PORT: port,
    ...(eventStoreUrl === undefined ? { WAYMARK_EVENTSTORE_PORT: eventStorePort } : {}),
    ...(mongoUrl === undefined ? { WAYMARK_MONGODB_PORT: mongoPort } : {}),
    ...(policiesUrl === undefined ? { WAYMARK_POLICIES_PORT: policiesPort } : {}),
  };
}

class Server {
  readonly givenUp: Promise<string>;
  private readonly engines: Child<EngineUrls> | undefined;
  private readonly app: Child<{ url: string }>;
  private urls: Required<EngineUrls> | undefined;
  private stopping = false;

  constructor(
    private readonly config: Config,
    private readonly main: string,
  ) {
    this.engines = this.enginesWanted().length > 0 ? this.enginesChild() : undefined;
    this.app = new Child('app', (last) => this.launchApp(last?.url), warn);
    this.givenUp = Promise.race([this.app, this.engines].flatMap((child) => child?.givenUp ?? []));
  }

  /** Starts the engines, then the app, and waits until it is ready. Never settles once a stop has begun. */
  async start(): Promise<Running> {
    const own = await this.engines?.start();
    const eventStoreUrl = this.config.eventStoreUrl ?? own?.eventStoreUrl;
    const mongoUrl = this.config.mongoUrl ?? own?.mongoUrl;
    const policiesUrl = this.config.policiesUrl ?? own?.policiesUrl;
    if (eventStoreUrl === undefined || mongoUrl === undefined || policiesUrl === undefined)
      throw new Error('an engine has no address');
    this.urls = { eventStoreUrl, mongoUrl, policiesUrl };
    if (this.stopping) return never();
    const { url } = await this.app.start();
    while (!(await isReady(url))) {
      if (this.stopping) return never();
      await pause(HEALTH_EVERY_MS);
    }
    const { WAYMARK_MONGODB_USERS: mongoUsersFile = this.config.mongoUsersFile } = this.users();
    return {
      pid: process.pid,
      url,
      ...this.urls,
      ...(mongoUsersFile === undefined ? {} : { mongoUsersFile }),
    };
  }

  async stop(): Promise<void> {
    this.stopping = true;
    await this.app.stop(APP_GRACE_MS);
    await this.engines?.stop(ENGINES_GRACE_MS);
  }

  private enginesWanted(): string[] {
    const { eventStoreUrl, mongoUrl, policiesUrl } = this.config;
    return [
      ...(eventStoreUrl === undefined ? ['--event-store'] : []),
      ...(mongoUrl === undefined ? ['--document-store'] : []),
      ...(policiesUrl === undefined ? ['--policy-register'] : []),
    ];
  }

  private enginesChild(): Child<EngineUrls> {
    const environment = (last: EngineUrls | undefined) => ({
      ...portOf('WAYMARK_EVENTSTORE_PORT', last?.eventStoreUrl),
      ...portOf('WAYMARK_MONGODB_PORT', last?.mongoUrl),
      ...portOf('WAYMARK_POLICIES_PORT', last?.policiesUrl),
    });
    const args = ['engines', ...this.enginesWanted()];
    return new Child('engines', (last) => this.run(args, environment(last)), warn);
  }

  private launchApp(lastUrl: string | undefined): ChildProcess {
    return this.run(['app'], {
      WAYMARK_EVENTSTORE_URL: this.urls?.eventStoreUrl ?? '',
      WAYMARK_MONGODB_URL: this.urls?.mongoUrl ?? '',
      WAYMARK_POLICIES_URL: this.urls?.policiesUrl ?? '',
      ...portOf('WAYMARK_PORT', lastUrl),
    });
  }

  /** The embedded document store has users from the start; a real one those that the settings name. */
  private users(): { WAYMARK_MONGODB_USERS?: string } {
    const { mongoUrl, mongoUsersFile, dataFolder } = this.config;
    if (mongoUrl !== undefined || mongoUsersFile !== undefined) return {};
    return { WAYMARK_MONGODB_USERS: join(resolve(dataFolder), STORE_USERS) };
  }

  private run(args: string[], environment: Record<string, string>): ChildProcess {
    return spawn(process.execPath, [...CHILD_OPTIONS, this.main, ...args], {
      env: { ...process.env, ...this.users(), ...environment },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
  }
}

/** A child that comes back listens where it did before, also if it had picked a free port. */
function portOf(setting: string, url: string | undefined): Record<string, string> {
  return url === undefined ? {} : { [setting]: new URL(url).port };
}

async function isReady(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/health/ready`)).ok;
  } catch (error) {
    // The app is being started again; its supervisor gives up on it when that does not help.
    if (error instanceof TypeError) return false;
    throw error;
  }
}

function never<Value>(): Promise<Value> {
  return new Promise(() => undefined);
}

/**
 * A parent that made a channel (a test, a tool) takes this process along when it ends, and so does npm, which may
 * be killed before it could pass a signal on. Of npm's end no event tells, but then the parent is another one.
 */
function parentGone(): Promise<void> {
  return new Promise((done) => {
    if (process.send) process.once('disconnect', () => done());
    if (process.env.npm_lifecycle_event === undefined) return;
    const parent = process.ppid;
    const watch = setInterval(() => {
      if (process.ppid === parent) return;
      clearInterval(watch);
      done();
    }, PARENT_EVERY_MS);
    watch.unref();
  });
}

function warn(text: string): void {
  console.error(`waymark: ${text}`);
}

function announce({ url, policiesUrl }: Running, folder: string): void {
  console.log(
    [
      `Waymark is ready at ${url}`,
      `  data    ${folder}`,
      `  policies ${policiesUrl}/v1/<tenant>/policies/<number>`,
      '  token   npx waymark token --role adjuster --sub dana --tenant acme',
      '  stop    Ctrl-C',
    ].join('\n'),
  );
}
