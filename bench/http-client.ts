import { connect, type Socket } from 'node:net';
import { once } from 'node:events';

export interface Answer {
  status: number;
  body: string;
}

/**
 * One keep-alive HTTP/1.1 connection that sends one request at a time. Small on purpose: in a measurement on two
 * cores the client's own work is taken from the server's.
 *
 * Reads answers that carry `content-length`, as the API's do; rejects when the connection ends under a request.
 */
export class HttpConnection {
  private static readonly all = new Set<HttpConnection>();
  private received: Buffer = Buffer.alloc(0);
  private waiting: { resolve: (answer: Answer) => void; reject: (error: Error) => void } | undefined;

  private constructor(
    private readonly socket: Socket,
    private readonly host: string,
  ) {
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => this.take(chunk));
    socket.on('error', (error) => this.fail(error));
    socket.on('close', () => this.fail(new Error('the server closed the connection')));
  }

  static async open(url: string): Promise<HttpConnection> {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    await once(socket, 'connect');
    const connection = new HttpConnection(socket, `${hostname}:${port}`);
    HttpConnection.all.add(connection);
    return connection;
  }

  send(method: string, path: string, headers: string, body = ''): Promise<Answer> {
    const length = Buffer.byteLength(body);
    const type = length > 0 ? `content-type: application/json\r\ncontent-length: ${length}\r\n` : '';
    const answer = new Promise<Answer>((resolve, reject) => (this.waiting = { resolve, reject }));
    this.socket.write(`${method} ${path} HTTP/1.1\r\nhost: ${this.host}\r\n${headers}${type}\r\n${body}`);
    return answer;
  }

  static closeAll(): void {
    for (const { socket } of HttpConnection.all) socket.destroy();
    HttpConnection.all.clear();
  }

  private take(chunk: Buffer): void {
    this.received = this.received.length === 0 ? chunk : Buffer.concat([this.received, chunk]);
    const end = this.received.indexOf('\r\n\r\n');
    if (end < 0) return;
    const head = this.received.toString('latin1', 0, end);
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
    if (this.received.length < end + 4 + length) return;
    const body = this.received.toString('utf8', end + 4, end + 4 + length);
    this.received = this.received.subarray(end + 4 + length);
    const { waiting } = this;
    this.waiting = undefined;
    waiting?.resolve({ status: Number(head.slice(9, 12)), body });
  }

  private fail(error: Error): void {
    this.waiting?.reject(error);
    this.waiting = undefined;
  }
}
