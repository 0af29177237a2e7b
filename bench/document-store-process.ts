import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { startDocumentStore } from '#libs/embedded/document-store';

/** What a process has used so far: microseconds of CPU of all its threads, bytes of memory it holds now. */
export interface Usage {
  cpu: number;
  /** Resident, without the pages of the mapped data file. */
  memory: number;
}

interface Started {
  /** Of the store: the connection string. Of the echo: the port. */
  address: string;
  /** How long it took to open: milliseconds. */
  opening: number;
}

/** A server in a process of its own, so that its CPU and memory are its own. */
export class MeasuredProcess {
  private constructor(
    private readonly child: ChildProcess,
    readonly started: Started,
  ) {}

  /** The document store on a folder, or, without one, an echo of bytes: the floor under every command. */
  static async start(folder = ''): Promise<MeasuredProcess> {
    const child = fork(fileURLToPath(import.meta.url), [folder], {
      env: { ...process.env, BENCH_CHILD: '1' },
    });
    const [started] = (await once(child, 'message')) as [Started];
    return new MeasuredProcess(child, started);
  }

  async usage(): Promise<Usage> {
    const answer = once(this.child, 'message') as Promise<[Usage]>;
    this.child.send('usage');
    return (await answer)[0];
  }

  async stop(): Promise<void> {
    if (!this.child.connected) return;
    const gone = once(this.child, 'exit');
    this.child.disconnect();
    await gone;
  }
}

/** One connection to the echo that sends a message and waits until all of it came back. */
export class EchoClient {
  private missing = 0;
  private back: () => void = () => undefined;

  private constructor(private readonly socket: Socket) {
    socket.setNoDelay(true).on('data', (chunk: Buffer) => {
      this.missing -= chunk.length;
      if (this.missing === 0) this.back();
    });
  }

  static async open(port: number): Promise<EchoClient> {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    return new EchoClient(socket);
  }

  send(message: Buffer): Promise<void> {
    this.missing = message.length;
    return new Promise((resolve) => {
      this.back = resolve;
      this.socket.write(message);
    });
  }

  close(): void {
    this.socket.destroy();
  }
}

async function serveEcho(): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.setNoDelay(true));
    socket.on('data', (chunk) => socket.write(chunk)).on('close', () => sockets.delete(socket));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  process.on('disconnect', () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return String((server.address() as AddressInfo).port);
}

async function serveStore(folder: string): Promise<string> {
  const store = await startDocumentStore({ folder, port: 0, onNotice: console.error });
  process.on('disconnect', () => void store.close());
  return store.url;
}

function heldMemory(): number {
  let inFile = false;
  let file = 0;
  for (const line of readFileSync('/proc/self/smaps', 'utf8').split('\n')) {
    if (/^[0-9a-f]+-[0-9a-f]+ /.test(line)) inFile = line.endsWith('/data.mdb');
    else if (inFile && line.startsWith('Rss:')) file += Number(/\d+/.exec(line)?.[0]) * 1024;
  }
  return process.memoryUsage().rss - file;
}

async function serve(folder: string): Promise<void> {
  const before = performance.now();
  const address = await (folder === '' ? serveEcho() : serveStore(folder));
  process.on('message', () => {
    const { userCPUTime, systemCPUTime } = process.resourceUsage();
    process.send?.({ cpu: userCPUTime + systemCPUTime, memory: heldMemory() } satisfies Usage);
  });
  process.send?.({ address, opening: performance.now() - before } satisfies Started);
}

if (process.env.BENCH_CHILD === '1' && process.send) await serve(process.argv[2] ?? '');
