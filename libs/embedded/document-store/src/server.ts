import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createSecureServer } from 'node:tls';
import { StoreError } from './errors.js';
import { dispatch } from './commands/dispatch.js';
import { maximumMessage } from './commands/handshake.js';
import { MalformedBson } from './bson/validate.js';
import { firstName } from './bson/values.js';
import type { Engine, Peer, Reply } from './engine.js';
import { checkTypes, encodeReply, errorReply, Framer, parseMessage, type Message } from './wire.js';

/** The port is taken by another process. */
export class PortTaken extends Error {}

const maximumConnections = 1_000;

/** One client connection: its messages are answered one after the other, in order. */
class Connection {
  readonly done: Promise<void>;
  private readonly framer = new Framer();
  private readonly peer: Peer;
  private serving: Promise<void> | undefined;
  private closing = false;

  constructor(
    private readonly engine: Engine,
    private readonly socket: Socket,
    private readonly onNotice: (notice: string) => void,
  ) {
    this.peer = {
      address: socket.localAddress ?? '127.0.0.1',
      port: socket.localPort ?? 0,
      transactions: new Set(),
    };
    socket.setNoDelay(true);
    socket.on('data', (chunk) => this.receive(chunk));
    socket.on('error', () => socket.destroy());
    this.done = new Promise((resolve) => {
      socket.on('close', () => {
        for (const transaction of this.peer.transactions) transaction.abort();
        resolve();
      });
    });
  }

  private receive(chunk: Buffer): void {
    this.framer.push(chunk);
    if (this.framer.buffered > 2 * maximumMessage) this.socket.pause();
    this.serving ??= this.serve().finally(() => {
      this.serving = undefined;
      if (this.closing) this.socket.end();
    });
  }

  private async serve(): Promise<void> {
    try {
      for (let bytes = this.framer.next(); bytes && !this.closing; bytes = this.framer.next()) {
        if (this.socket.isPaused()) this.socket.resume();
        const message = parseMessage(bytes);
        const reply = await this.answer(message);
        if (!message.silent && !this.socket.destroyed) this.send(encodeReply(message, reply));
      }
    } catch (error) {
      if (!(error instanceof MalformedBson)) this.onNotice(`connection closed: ${String(error)}`);
      this.socket.destroy();
    }
  }

  private send(parts: Buffer[]): void {
    const size = parts.reduce((sum, part) => sum + part.length, 0);
    if (size <= 65_536) this.socket.write(Buffer.concat(parts, size));
    else parts.forEach((part) => this.socket.write(part));
  }

  private async answer(message: Message): Promise<Reply> {
    try {
      checkTypes(message);
      const name = firstName(message.command);
      if (message.legacy && !/^(hello|ismaster)$/i.test(name))
        throw new StoreError(59, `OP_QUERY is answered for the first hello only, not for '${name}'`);
      return await dispatch(this.engine, this.peer, message.command);
    } catch (error) {
      if (!(error instanceof StoreError))
        this.onNotice(`command failed: ${(error as Error)?.stack ?? String(error)}`);
      return errorReply(error);
    }
  }

  /** Answers what is being worked on, then ends. */
  close(): void {
    this.closing = true;
    if (!this.serving) this.socket.end();
  }

  destroy(): void {
    this.socket.destroy();
  }
}

/** Certificate and key in PEM. */
export interface TlsOptions {
  readonly cert: string;
  readonly key: string;
}

export interface Listening {
  readonly port: number;
  /** Ends connections after their current command; those that take longer than `milliseconds` are cut. */
  close(milliseconds: number): Promise<void>;
}

export async function listen(
  engine: Engine,
  host: string,
  port: number,
  onNotice: (notice: string) => void,
  tls?: TlsOptions,
): Promise<Listening> {
  const connections = new Set<Connection>();
  const accept = (socket: Socket): void => {
    const connection = new Connection(engine, socket, onNotice);
    connections.add(connection);
    engine.connections = connections.size;
    void connection.done.then(() => {
      connections.delete(connection);
      engine.connections = connections.size;
    });
  };
  const server = tls ? createSecureServer({ ...tls, minVersion: 'TLSv1.2' }, accept) : createServer(accept);
  server.maxConnections = maximumConnections;
  await bind(server, host, port);
  const address = server.address();
  return {
    port: typeof address === 'object' && address ? address.port : port,
    close: async (milliseconds) => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const connection of connections) connection.close();
      const cut = setTimeout(() => connections.forEach((connection) => connection.destroy()), milliseconds);
      await closed;
      clearTimeout(cut);
    },
  };
}

function bind(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(error.code === 'EADDRINUSE' ? new PortTaken(`port ${port} on ${host} is taken`) : error),
    );
    server.listen(port, host, resolve);
  });
}
