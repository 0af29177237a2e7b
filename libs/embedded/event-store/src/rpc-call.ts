import { Metadata, status } from '@grpc/grpc-js';
import { EventEmitter } from 'node:events';
import { type IncomingHttpHeaders, type ServerHttp2Stream, constants as http2 } from 'node:http2';
import { type Caller, TRUSTED } from './access/callers.js';
import { type Budget, Share } from './budget.js';
import { type Failure, exhausted, messageOf } from './errors.js';

/** Bytes of one call that its client may send ahead. */
export const CALL_WINDOW = 256 * 1024;
/** Compressed flag and length, before every message. */
const PREFIX = 5;
/** Messages of one turn leave together; more than this at once leaves at once. */
const FLUSH_BYTES = 64 * 1024;
const RESPONSE = { ':status': 200, 'content-type': 'application/grpc+proto' };

/** How the messages of one method are read and written. */
export interface Codec<Request, Response> {
  requestDeserialize(bytes: Buffer): Request;
  responseSerialize(value: Response): Buffer;
}

/**
 * One call, with the events and methods of a streaming call of `@grpc/grpc-js`: emits `data`, `end`, `drain`,
 * `cancelled` (the client left, or the call was failed from here), and takes `emit('error', failure)` for its failure.
 * What is written in one turn goes out as one block, which is what makes many small messages cheap.
 */
export class RpcCall<Request = unknown, Response = unknown> extends EventEmitter {
  /** The only message of a call that has one. */
  request!: Request;
  caller: Caller = TRUSTED;
  cancelled = false;
  private readonly decoder: MessageDecoder;
  private readonly arrived: Buffer[] = [];
  private paused = false;
  private inputEnded = false;
  private leaving: Buffer[] = [];
  private leavingBytes = 0;
  private blocked = false;
  private answered = false;
  private readonly share: Share;
  /** Bytes that have arrived and were not handed on, and that the client has not taken. */
  private waiting = 0;
  private untaken = 0;

  constructor(
    private readonly stream: ServerHttp2Stream,
    private readonly headers: IncomingHttpHeaders,
    private readonly codec: Codec<Request, Response>,
    receiveLimit: number,
    budget: Budget,
  ) {
    super();
    this.share = new Share(budget);
    this.decoder = new MessageDecoder(receiveLimit);
    this.on('error', (failure: Failure) => this.fail(failure));
    stream.on('data', (chunk: Buffer) => this.receive(chunk));
    stream.on('end', () => {
      this.inputEnded = true;
      this.deliver();
    });
    stream.on('drain', () => {
      this.blocked = false;
      this.share.give(this.untaken);
      this.untaken = 0;
      this.emit('drain');
    });
    // A reset by the client; 'close' follows.
    stream.on('error', () => this.cancel());
    stream.on('close', () => {
      this.share.close();
      this.cancel();
    });
  }

  get metadata(): Metadata {
    return Metadata.fromHttp2Headers(this.headers);
  }

  getPeer(): string {
    const socket = this.stream.session?.socket;
    return socket?.remoteAddress ? `${socket.remoteAddress}:${socket.remotePort}` : 'unknown';
  }

  /** The address by which the client reached this server, as it says. */
  get authority(): string {
    return this.headers[':authority'] ?? '';
  }

  /** While it is paused, what the client may send ahead counts as held. */
  pause(): this {
    if (this.paused) return this;
    this.paused = true;
    this.stream.pause();
    this.hold(CALL_WINDOW);
    return this;
  }

  resume(): this {
    if (!this.paused) return this;
    this.paused = false;
    this.release(CALL_WINDOW);
    this.deliver();
    if (!this.paused) this.stream.resume();
    return this;
  }

  /**
   * Counts bytes that are kept for this call beyond the message in which they came, until they are released or the call
   * is over. If the connection, or all of them together, has too much by then the call is failed and this is false.
   */
  hold(bytes: number): boolean {
    const fits = this.share.take(bytes);
    if (!fits) this.fail(TOO_MUCH);
    return fits;
  }

  release(bytes: number): void {
    this.share.give(bytes);
  }

  /** False when the client is behind: wait for `drain`. */
  write(value: Response): boolean {
    if (this.cancelled || this.answered) return false;
    const message = this.serialized(value);
    if (!message) return false;
    const prefix = Buffer.allocUnsafe(PREFIX);
    prefix[0] = 0;
    prefix.writeUInt32BE(message.length, 1);
    if (this.leaving.length === 0) process.nextTick(flush, this);
    this.leaving.push(prefix, message);
    this.leavingBytes += PREFIX + message.length;
    if (this.leavingBytes >= FLUSH_BYTES) this.flush();
    return !this.blocked;
  }

  /** Ends the call well. */
  end(): this {
    if (!this.answered) this.finish({ 'grpc-status': status.OK });
    return this;
  }

  /** Sends what was written; a client that is gone gets nothing. */
  flush(): void {
    if (this.leaving.length === 0) return;
    const bytes = Buffer.concat(this.leaving, this.leavingBytes);
    this.leaving = [];
    this.leavingBytes = 0;
    if (this.gone) return;
    if (!this.stream.headersSent) this.stream.respond(RESPONSE, { waitForTrailers: true });
    if (this.stream.write(bytes) || this.answered) return;
    this.blocked = true;
    if (this.share.take(bytes.length)) this.untaken += bytes.length;
    // Who does not take its answers would not take this one: what waits for it is dropped.
    else this.stream.close(http2.NGHTTP2_ENHANCE_YOUR_CALM);
  }

  /** A stream that was reset is closed a tick before its events say so. */
  private get gone(): boolean {
    return this.cancelled || this.stream.destroyed || this.stream.closed;
  }

  /** Undefined for an answer that is not of its type: the call has failed then. */
  private serialized(value: Response): Buffer | undefined {
    try {
      return this.codec.responseSerialize(value);
    } catch (error) {
      this.fail({
        code: status.INTERNAL,
        details: `the answer cannot be written: ${messageOf(error)}`,
        metadata: new Metadata(),
      });
      return undefined;
    }
  }

  private fail({ code, details, metadata }: Failure): void {
    if (this.answered) return;
    this.finish({ ...metadata?.toHttp2Headers(), 'grpc-status': code, 'grpc-message': encodeURI(details) });
    this.cancel();
  }

  private finish(trailers: Record<string, unknown>): void {
    this.flush();
    this.answered = true;
    if (this.gone) return;
    const headers = trailers as Record<string, string>;
    if (!this.stream.headersSent) this.stream.respond({ ...RESPONSE, ...headers }, { endStream: true });
    else {
      this.stream.once('wantTrailers', () => this.stream.sendTrailers(headers));
      this.stream.end();
    }
    // What the client still sends is dropped, so that it can finish sending.
    this.arrived.length = 0;
    this.decoder.clear();
    this.release(this.waiting);
    this.waiting = 0;
    this.resume();
  }

  private cancel(): void {
    if (this.cancelled) return;
    this.cancelled = true;
    this.emit('cancelled');
  }

  private receive(chunk: Buffer): void {
    if (this.answered) return;
    if (!this.hold(chunk.length)) return;
    this.waiting += chunk.length;
    try {
      this.decoder.take(chunk, this.arrived);
    } catch (error) {
      if (!(error instanceof BadMessage)) throw error;
      return this.fail({ ...error.failure, metadata: new Metadata() });
    }
    this.deliver();
  }

  private deliver(): void {
    while (!this.paused && !this.answered) {
      const bytes = this.arrived.shift();
      if (!bytes) break;
      this.release(PREFIX + bytes.length);
      this.waiting -= PREFIX + bytes.length;
      this.hand(bytes);
    }
    if (this.inputEnded && !this.paused && this.arrived.length === 0 && !this.cancelled) {
      this.inputEnded = false;
      this.emit('end');
    }
  }

  private hand(bytes: Buffer): void {
    let message: Request;
    try {
      message = this.codec.requestDeserialize(bytes);
    } catch {
      return this.fail({
        code: status.INTERNAL,
        details: 'a message of the request is not of its type',
        metadata: new Metadata(),
      });
    }
    this.emit('data', message);
  }
}

const TOO_MUCH = exhausted('too much of what this client has sent, or was sent, is not done with yet');

const flush = (call: RpcCall): void => call.flush();

class BadMessage extends Error {
  constructor(readonly failure: Pick<Failure, 'code' | 'details'>) {
    super(failure.details);
  }
}

/** Cuts what arrives into messages; one that lies whole in a chunk is not copied. */
class MessageDecoder {
  private rest: Buffer[] = [];
  private restBytes = 0;
  private wanted = PREFIX;

  constructor(private readonly limit: number) {}

  take(chunk: Buffer, into: Buffer[]): void {
    if (this.restBytes + chunk.length < this.wanted) return this.keep(chunk);
    let bytes = chunk;
    if (this.restBytes > 0) bytes = Buffer.concat([...this.rest, chunk], this.restBytes + chunk.length);
    let at = 0;
    this.wanted = PREFIX;
    while (bytes.length - at >= PREFIX) {
      const end = at + PREFIX + this.lengthAt(bytes, at);
      if (end > bytes.length) {
        this.wanted = end - at;
        break;
      }
      into.push(bytes.subarray(at + PREFIX, end));
      at = end;
    }
    this.rest = [];
    this.restBytes = 0;
    if (at < bytes.length) this.keep(bytes.subarray(at));
  }

  clear(): void {
    this.rest = [];
    this.restBytes = 0;
  }

  private keep(chunk: Buffer): void {
    this.rest.push(chunk);
    this.restBytes += chunk.length;
  }

  private lengthAt(bytes: Buffer, at: number): number {
    if (bytes[at] !== 0)
      throw new BadMessage({ code: status.UNIMPLEMENTED, details: 'messages must not be compressed' });
    const length = bytes.readUInt32BE(at + 1);
    if (length > this.limit)
      throw new BadMessage({
        code: status.RESOURCE_EXHAUSTED,
        details: `a message of ${length} bytes is larger than the limit of ${this.limit}`,
      });
    return length;
  }
}
