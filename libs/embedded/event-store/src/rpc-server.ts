import { Metadata, type sendUnaryData, status } from '@grpc/grpc-js';
import {
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  createServer,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { Failure } from './errors.js';
import { isErrno } from './folder.js';
import { type Codec, RpcCall } from './rpc-call.js';

/** What no client may go beyond. */
export interface RpcLimits {
  /** Bytes of one message. */
  readonly receiveBytes: number;
  /** Open calls of one connection. */
  readonly callsPerConnection: number;
  readonly connections: number;
}

/** A method as the generated service definitions describe it. */
export interface Method extends Codec<unknown, unknown> {
  readonly path: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
}

/** Of a call, and a callback where the answer is one message. */
type Handler = (call: never, answer: never) => void;

/** The port is taken by another program. Nothing was opened. */
export class PortTaken extends Error {
  override readonly name = 'PortTaken';
}

/** Bytes that a client may send ahead: of one call, and of all calls of a connection. */
const CALL_WINDOW = 1024 * 1024;
const CONNECTION_WINDOW = 4 * 1024 * 1024;
/** How long open calls may take to end when stopping: milliseconds. */
const STOP_LIMIT = 2000;

/**
 * gRPC over HTTP/2, as far as this protocol needs it: no compression, no deadlines (clients keep their own). It stands
 * here in place of the server of `@grpc/grpc-js` because that writes each message by itself, in a turn of its own,
 * which costs several times what the store does for an append or an event read.
 */
export class RpcServer {
  private readonly methods = new Map<string, { method: Method; handler: Handler }>();
  private readonly sessions = new Set<ServerHttp2Session>();
  private readonly sockets = new Set<Socket>();
  private readonly server: Http2Server;

  /** `onNotice` is told what befalls the listening socket once it listens; open calls go on. */
  constructor(
    private readonly limits: RpcLimits,
    private readonly onNotice: (notice: string) => void,
  ) {
    this.server = createServer({
      settings: { maxConcurrentStreams: limits.callsPerConnection, initialWindowSize: CALL_WINDOW },
      // What waits for a client is bounded by each call; by this limit new calls would be refused at random.
      maxSessionMemory: Number.MAX_SAFE_INTEGER,
    });
    this.server.maxConnections = limits.connections;
    this.server.on('connection', (socket: Socket) => {
      this.sockets.add(socket);
      socket.on('close', () => this.sockets.delete(socket));
    });
    this.server.on('session', (session) => this.welcome(session));
    this.server.on('stream', (stream, headers) => this.dispatch(stream, headers));
  }

  addService(definition: Record<string, unknown>, handlers: Record<string, Handler>): void {
    for (const [name, handler] of Object.entries(handlers)) {
      const method = definition[name] as Method;
      this.methods.set(method.path, { method, handler });
    }
  }

  /** Answers the port that it listens on. Throws `PortTaken`. */
  listen(port: number, host: string): Promise<number> {
    return new Promise((resolve, reject) => {
      const refused = (error: Error): void =>
        reject(
          isErrno(error, 'EADDRINUSE')
            ? new PortTaken(`port ${port} on ${host} is taken by another program`, { cause: error })
            : error,
        );
      this.server.once('error', refused);
      this.server.listen(port, host, () => {
        this.server.off('error', refused);
        this.server.on('error', (error: Error) =>
          this.onNotice(`the event store cannot listen: ${error.message}`),
        );
        const address = this.server.address();
        resolve(typeof address === 'object' && address ? address.port : port);
      });
    });
  }

  /** Takes no more calls, waits for open ones to end, and cuts off those that do not in time. */
  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    for (const session of this.sessions) session.close();
    const force = setTimeout(() => this.sockets.forEach((socket) => socket.destroy()), STOP_LIMIT);
    await closed;
    clearTimeout(force);
  }

  private welcome(session: ServerHttp2Session): void {
    // A connection that breaks closes its calls, which is where it is heard.
    session.on('error', () => undefined);
    this.sessions.add(session);
    session.on('close', () => this.sessions.delete(session));
    session.setLocalWindowSize(CONNECTION_WINDOW);
  }

  private dispatch(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const path = headers[':path'] ?? '';
    const known = this.methods.get(String(path));
    const { method, handler } = known ?? UNKNOWN;
    const call = new RpcCall(stream, headers, method, this.limits.receiveBytes);
    if (!known) call.emit('error', failure(status.UNIMPLEMENTED, `there is no method ${String(path)} here`));
    else if (method.requestStream) run(call, method, handler);
    else whenComplete(call, () => run(call, method, handler));
  }
}

const UNKNOWN: { method: Method; handler: Handler } = {
  method: {
    path: '',
    requestStream: false,
    responseStream: false,
    requestDeserialize: (bytes) => bytes,
    responseSerialize: () => Buffer.alloc(0),
  },
  handler: () => undefined,
};

/** A call with one message is handled when that is there. */
function whenComplete(call: RpcCall, handle: () => void): void {
  let messages = 0;
  call.on('data', (message: unknown) => {
    messages += 1;
    call.request = message;
  });
  call.on('end', () => {
    if (messages === 1) handle();
    else
      call.emit('error', failure(status.INTERNAL, `the call carries ${messages} messages where it has one`));
  });
}

function run(call: RpcCall, method: Method, handler: Handler): void {
  const answer: sendUnaryData<unknown> = (error, value) => {
    if (error) {
      const { code, details, metadata } = error;
      call.emit('error', {
        code: code ?? status.UNKNOWN,
        details: details ?? '',
        metadata: metadata ?? new Metadata(),
      });
    } else {
      if (value !== null && value !== undefined) call.write(value);
      call.end();
    }
  };
  handler(call as never, (method.responseStream ? undefined : answer) as never);
}

const failure = (code: status, details: string): Failure => ({ code, details, metadata: new Metadata() });
