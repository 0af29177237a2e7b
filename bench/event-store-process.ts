import {
  type ServerDuplexStream,
  type ServerUnaryCall,
  Server,
  ServerCredentials,
  type sendUnaryData,
} from '@grpc/grpc-js';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { type RunningEventStore, startEventStore } from '#libs/embedded/event-store';

/** What a process under measurement has used since it started: microseconds of CPU, bytes of memory at the peak. */
export interface Usage {
  cpu: number;
  peakMemory: number;
}

interface Started {
  url: string;
  /** How long the store took to open: milliseconds. */
  opening: number;
}

/** A server in a process of its own, so that its CPU and memory are its own. */
export class MeasuredProcess {
  private constructor(
    private readonly child: ChildProcess,
    readonly started: Started,
  ) {}

  /** The event store on a folder, or, without one, a gRPC echo: the floor under every call. */
  static async start(folder?: string): Promise<MeasuredProcess> {
    const child = fork(fileURLToPath(import.meta.url), [folder ?? ''], {
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
    const gone = once(this.child, 'exit');
    this.child.disconnect();
    await gone;
  }
}

export const ECHO_UNARY = '/bench.Echo/Unary';
export const ECHO_DUPLEX = '/bench.Echo/Duplex';

async function serveEcho(): Promise<string> {
  const asIs = (bytes: Buffer): Buffer => bytes;
  const codec = {
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  };
  const server = new Server();
  server.addService(
    {
      unary: { path: ECHO_UNARY, requestStream: false, responseStream: false, ...codec },
      duplex: { path: ECHO_DUPLEX, requestStream: true, responseStream: true, ...codec },
    },
    {
      unary: (call: ServerUnaryCall<Buffer, Buffer>, answer: sendUnaryData<Buffer>) =>
        answer(null, call.request),
      duplex: (call: ServerDuplexStream<Buffer, Buffer>) => {
        call.on('data', (message: Buffer) => call.write(message));
        call.on('end', () => call.end());
      },
    },
  );
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
  process.on('disconnect', () => server.forceShutdown());
  return `127.0.0.1:${port}`;
}

async function serveStore(folder: string): Promise<string> {
  const store: RunningEventStore = await startEventStore({ folder, port: 0, onNotice: console.error });
  process.on('disconnect', () => void store.close());
  return store.url;
}

async function serve(folder: string): Promise<void> {
  const before = performance.now();
  const url = await (folder === '' ? serveEcho() : serveStore(folder));
  process.on('message', () => {
    const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
    process.send?.({ cpu: userCPUTime + systemCPUTime, peakMemory: maxRSS * 1024 } satisfies Usage);
  });
  process.send?.({ url, opening: performance.now() - before } satisfies Started);
}

if (process.env.BENCH_CHILD === '1' && process.send) await serve(process.argv[2] ?? '');
