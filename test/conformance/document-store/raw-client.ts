import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { deserialize, serialize, type Document } from 'bson';

/** Speaks OP_MSG without a driver, for what a driver would not send. */
export class RawClient {
  private received = Buffer.alloc(0);

  private constructor(private readonly socket: Socket) {
    socket.on('data', (chunk: Buffer) => {
      this.received = Buffer.concat([this.received, chunk]);
      socket.emit('grown');
    });
    socket.on('error', () => socket.destroy());
  }

  static async open(url: string): Promise<RawClient> {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    await once(socket, 'connect');
    return new RawClient(socket);
  }

  async command(command: Document): Promise<Document> {
    const body = serialize(command);
    const header = Buffer.alloc(21);
    header.writeInt32LE(21 + body.length, 0);
    header.writeInt32LE(2013, 12);
    this.socket.write(Buffer.concat([header, body]));
    while (this.received.length < 4 || this.received.length < this.received.readInt32LE(0))
      await once(this.socket, 'grown');
    const size = this.received.readInt32LE(0);
    const reply = deserialize(this.received.subarray(21, size));
    this.received = this.received.subarray(size);
    return reply;
  }

  /** Sends bytes as they are and waits until the server closes the connection. */
  async untilClosed(bytes: Buffer): Promise<void> {
    const closed = once(this.socket, 'close');
    this.socket.write(bytes);
    await closed;
  }

  close(): void {
    this.socket.destroy();
  }
}
