import { Metadata, type sendUnaryData, status } from '@grpc/grpc-js';
import {
  type Http2Server,
  type Http2Session,
  type IncomingHttpHeaders,
  type SecureServerOptions,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  createSecureServer,
  createServer,
} from 'node:http2';
import type { Socket } from 'node:net';
import { type Caller, TRUSTED, isUser } from './access/callers.js';
import { Budget } from './budget.js';
import { type Failure, exhausted, failureOf } from './errors.js';
import { isErrno } from './folder.js';
import { CALL_WINDOW, type Codec, RpcCall } from './rpc-call.js';

/** What no client may go beyond. */
export interface RpcLimits {
  /** Bytes of one message. */
  readonly receiveBytes: number;
  /** Open calls of one connection, and of all. */
  readonly callsPerConnection: number;
  readonly calls: number;
  readonly connections: number;
  /** Bytes held for one connection, and for all: see `Budget`. */
  readonly heldPerConnection: number;
  readonly held: number;
  /** How long a connection may go without its first call, or that of a user where there are users: milliseconds. */
  readonly firstCallMs: number;
}

/** Certificate chain and key in PEM. */
export interface TlsOptions {
  readonly cert: string;
  readonly key: string;
}

/** Who calls, by the `authorization` of a call, or why that is refused. */
type Authenticate = (authorization: string | undefined) => Caller | Promise<Caller | Failure>;

export interface RpcOptions {
  readonly limits: RpcLimits;
  /** Told what befalls the listening socket once it listens; open calls go on. */
  readonly onNotice: (notice: string) => void;
  /** Without it there is no TLS. */
  readonly tls?: TlsOptions | undefined;
  /** Everybody is trusted without it. */
  readonly authenticate?: Authenticate;
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

/** Bytes that a client may send ahead in all calls of a connection. */
const CONNECTION_WINDOW = 4 * 1024 * 1024;
/** Bytes of the headers of a call, metadata among them, and how many there may be. */
const HEADER_BYTES = 16 * 1024;
const HEADERS = 64;
const HANDSHAKE_MS = 10_000;
/** After so long without a word from its client a connection is asked by the system whether it is alive. */
const KEEP_ALIVE_MS = 60_000;
/** How long open calls may take to end when stopping: milliseconds. */
const STOP_LIMIT = 2000;

/**
 * gRPC over HTTP/2, as far as this protocol needs it: no compression, no deadlines (clients keep their own). It stands
 * here in place of the server of `@grpc/grpc-js` because that writes each message by itself, in a turn of its own,
 * which costs several times what the store does for an append or an event read.
 */
export class RpcServer {
  private readonly methods = new Map<string, { method: Method; handler: Handler }>();
  private readonly sessions = new Map<Http2Session, Connection>();
  private readonly sockets = new Set<Socket>();
  private readonly server: Http2Server;
  private readonly limits: RpcLimits;
  private readonly authenticate: Authenticate;
  private readonly budget: Budget;
  private calls = 0;

  constructor(private readonly options: RpcOptions) {
    const { limits, tls, authenticate = () => TRUSTED } = options;
    this.limits = limits;
    this.authenticate = authenticate;
    this.budget = new Budget(limits.held);
    this.server = listener(limits, tls);
    this.server.maxConnections = limits.connections;
    this.server.on('connection', (socket: Socket) => {
      socket.setKeepAlive(true, KEEP_ALIVE_MS);
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
          this.options.onNotice(`the event store cannot listen: ${error.message}`),
        );
        const address = this.server.address();
        resolve(typeof address === 'object' && address ? address.port : port);
      });
    });
  }

  /** Takes no more calls, waits for open ones to end, and cuts off those that do not in time. */
  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    for (const session of this.sessions.keys()) session.close();
    const force = setTimeout(() => this.sockets.forEach((socket) => socket.destroy()), STOP_LIMIT);
    await closed;
    clearTimeout(force);
  }

  private welcome(session: ServerHttp2Session): void {
    const { heldPerConnection, firstCallMs } = this.limits;
    const connection = {
      budget: new Budget(heldPerConnection, this.budget),
      due: setTimeout(() => session.destroy(), firstCallMs),
    };
    // A connection that breaks closes its calls, which is where it is heard.
    session.on('error', () => undefined);
    this.sessions.set(session, connection);
    session.on('close', () => {
      clearTimeout(connection.due);
      this.sessions.delete(session);
    });
    session.setLocalWindowSize(CONNECTION_WINDOW);
  }

  private dispatch(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const connection = stream.session && this.sessions.get(stream.session);
    if (!connection) return void stream.destroy();
    const path = headers[':path'] ?? '';
    const known = this.methods.get(String(path));
    const { method, handler } = known ?? UNKNOWN;
    const call = new RpcCall(stream, headers, method, this.limits.receiveBytes, connection.budget);
    this.count(stream);
    if (!known) call.emit('error', failure(status.UNIMPLEMENTED, `there is no method ${String(path)} here`));
    else if (this.calls > this.limits.calls)
      call.emit('error', exhausted(`at most ${this.limits.calls} calls may be open at once`));
    else this.admit(call, headers, connection, () => begin(call, method, handler));
  }

  private count(stream: ServerHttp2Stream): void {
    this.calls += 1;
    stream.on('close', () => (this.calls -= 1));
  }

  /** Begins a call when it is known whose it is; until then nothing more of it is taken. */
  private admit(
    call: RpcCall,
    { authorization }: IncomingHttpHeaders,
    connection: Connection,
    start: () => void,
  ): void {
    const asked = this.authenticate(authorization);
    const settle = (caller: Caller): void => {
      if (isUser(caller)) clearTimeout(connection.due);
      call.caller = caller;
      start();
    };
    if (!(asked instanceof Promise)) return settle(asked);
    call.pause();
    asked
      .then((found) => {
        if (call.cancelled) return;
        if ('code' in found) return void call.emit('error', found);
        settle(found);
        call.resume();
      })
      .catch((error: unknown) => call.emit('error', failureOf(error)));
  }
}

interface Connection {
  readonly budget: Budget;
  readonly due: NodeJS.Timeout;
}

function listener(limits: RpcLimits, tls: TlsOptions | undefined): Http2Server {
  const options: SecureServerOptions = {
    settings: {
      maxConcurrentStreams: limits.callsPerConnection,
      initialWindowSize: CALL_WINDOW,
      maxHeaderListSize: HEADER_BYTES,
    },
    maxHeaderListPairs: HEADERS,
    // What waits for a client is bounded by each call; by this limit new calls would be refused at random.
    maxSessionMemory: Number.MAX_SAFE_INTEGER,
  };
  if (!tls) return createServer(options);
  return createSecureServer({ ...options, ...tls, minVersion: 'TLSv1.2', handshakeTimeout: HANDSHAKE_MS });
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

function begin(call: RpcCall, method: Method, handler: Handler): void {
  if (method.requestStream) run(call, method, handler);
  else whenComplete(call, () => run(call, method, handler));
}

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
