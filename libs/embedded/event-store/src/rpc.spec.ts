import { Client, Metadata, type ServiceError, credentials, status } from '@grpc/grpc-js';
import { once } from 'node:events';
import { type ClientHttp2Stream, connect, constants as http2 } from 'node:http2';
import fc from 'fast-check';
import type { RpcCall } from './rpc-call.js';
import { RpcServer } from './rpc-server.js';

const asIs = (bytes: Buffer): Buffer => bytes;
const codec = { requestDeserialize: asIs, responseSerialize: asIs };
const method = (name: string, requestStream: boolean, responseStream: boolean) => ({
  path: `/test/${name}`,
  requestStream,
  responseStream,
  ...codec,
});
const definition = {
  echo: method('echo', true, true),
  pause: method('pause', true, true),
  unary: method('unary', false, false),
  flood: method('flood', false, true),
  reset: method('reset', true, true),
  unwritable: {
    ...method('unwritable', false, false),
    responseSerialize: (): Buffer => {
      throw new TypeError('no such field');
    },
  },
};
type Bytes = RpcCall<Buffer, Buffer>;
const noNotice = (notice: string): void => {
  throw new Error(notice);
};

const LIMITS = {
  receiveBytes: 1000,
  callsPerConnection: 4,
  calls: 100,
  connections: 50,
  heldPerConnection: 2 << 20,
  held: 4 << 20,
  firstCallMs: 30_000,
};

let server: RpcServer;
let address: string;
let client: Client;
let flooded = 0;
let cancelled: Promise<void>;
beforeAll(async () => {
  server = new RpcServer({ limits: LIMITS, onNotice: noNotice });
  server.addService(definition, {
    echo: (call: Bytes) => {
      call.on('data', (message: Buffer) => call.write(message));
      call.on('end', () => call.end());
    },
    pause: (call: Bytes) => {
      call.on('data', (message: Buffer) => {
        call.pause();
        call.write(message);
        setImmediate(() => call.resume());
      });
      call.on('end', () => call.end());
    },
    unary: (call: Bytes, answer: (error: Partial<ServiceError> | null, value?: Buffer) => void) => {
      const metadata = new Metadata();
      metadata.set('exception', 'test');
      if (call.request.length === 0) answer({ code: status.ABORTED, details: 'Größe', metadata });
      else answer(null, Buffer.from(call.metadata.get('connection-name')[0] ?? 'none'));
    },
    unwritable: (_call: Bytes, answer: (error: null, value: Buffer) => void) =>
      setImmediate(() => answer(null, Buffer.of(1))),
    reset: (call: Bytes) =>
      call.on('data', (message: Buffer) => {
        call.write(message);
        call['stream'].close(http2.NGHTTP2_CANCEL);
        if (String(message) === 'ended') call.end();
        if (String(message) === 'failed')
          call.emit('error', { code: status.ABORTED, details: '', metadata: new Metadata() });
      }),
    flood: (call: Bytes) => {
      flooded = 0;
      cancelled = new Promise((resolve) => call.on('cancelled', () => resolve()));
      const fill = (): void => {
        while (!call.cancelled) {
          flooded += 1;
          if (!call.write(Buffer.alloc(900))) return;
        }
      };
      call.on('drain', fill);
      fill();
    },
  });
  address = `127.0.0.1:${await server.listen(0, '127.0.0.1')}`;
  client = new Client(address, credentials.createInsecure());
});
afterAll(async () => {
  client.close();
  await server.stop();
});

const unary = (path: string, message: Buffer, metadata = new Metadata()): Promise<Buffer | ServiceError> =>
  new Promise((resolve) =>
    client.makeUnaryRequest(path, asIs, asIs, message, metadata, (error, value) => resolve(error ?? value!)),
  );

const framed = (message: Uint8Array): Buffer => {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
};

describe('a call', () => {
  it.each(['echo', 'pause'])(
    'hands on each message once and in order, however they are cut (%s)',
    async (name) => {
      const session = connect(`http://${address}`);
      const messages = fc.array(fc.uint8Array({ maxLength: 300 }), { minLength: 1, maxLength: 8 });
      await fc.assert(
        fc.asyncProperty(messages, fc.array(fc.nat(2000), { maxLength: 12 }), async (sent, cuts) => {
          const bytes = Buffer.concat(sent.map(framed));
          const call = open(session, `/test/${name}`);
          const edges = [0, ...cuts.map((cut) => cut % bytes.length).sort((a, b) => a - b), bytes.length];
          edges.slice(1).forEach((edge, i) => call.write(bytes.subarray(edges[i], edge)));
          call.end();
          expect(await received(call)).toEqual(bytes);
        }),
        { numRuns: 25 },
      );
      session.close();
    },
  );

  it('has one message where its method has one', async () => {
    const session = connect(`http://${address}`);
    for (const sent of [[], [Buffer.of(1), Buffer.of(2)]]) {
      const call = open(session, '/test/unary');
      call.end(Buffer.concat(sent.map(framed)));
      expect((await trailers(call))['grpc-status']).toBe(String(status.INTERNAL));
    }
    session.close();
  });

  it('carries metadata in, and code, text and trailers out', async () => {
    const metadata = new Metadata();
    metadata.set('connection-name', 'dana');
    expect(String(await unary('/test/unary', Buffer.of(1), metadata))).toBe('dana');
    const error = (await unary('/test/unary', Buffer.alloc(0))) as ServiceError;
    expect([error.code, error.details, error.metadata.get('exception')]).toEqual([
      status.ABORTED,
      'Größe',
      ['test'],
    ]);
  });

  it('of an unknown method is refused, and the connection goes on', async () => {
    expect(await unary('/test/none', Buffer.of(1))).toMatchObject({ code: status.UNIMPLEMENTED });
    expect(String(await unary('/test/unary', Buffer.of(1)))).toBe('none');
  });

  it('stops being written to while its client does not read, and hears that the client left', async () => {
    const session = connect(`http://${address}`);
    const call = open(session, '/test/flood');
    call.end(framed(Buffer.of(1)));
    await once(call, 'response');
    await once(call, 'readable');
    // What the windows, the call and the stream hold; without backpressure this test would not get here.
    expect(flooded * 905).toBeLessThan(1024 * 1024);
    call.close();
    await cancelled;
    session.close();
  });
});

describe('what would end the process', () => {
  it.each(['answered', 'ended', 'failed'])(
    'a stream that was reset in the turn in which it is %s gets nothing, and others are served',
    async (how) => {
      const session = connect(`http://${address}`);
      const call = open(session, '/test/reset');
      call.on('error', () => undefined);
      call.end(framed(Buffer.from(how)));
      await once(call, 'close');
      expect(String(await unary('/test/unary', Buffer.of(1)))).toBe('none');
      session.close();
    },
  );

  it('an answer that cannot be serialized fails its call', async () => {
    expect(await unary('/test/unwritable', Buffer.of(1))).toMatchObject({
      code: status.INTERNAL,
      details: 'the answer cannot be written: no such field',
    });
  });

  it('an error of the listening socket is told, and calls go on', async () => {
    const notices: string[] = [];
    const other = new RpcServer({ limits: LIMITS, onNotice: (notice) => notices.push(notice) });
    await other.listen(0, '127.0.0.1');
    other['server'].emit('error', new Error('EMFILE'));
    expect(notices).toEqual(['the event store cannot listen: EMFILE']);
    await other.stop();
  });
});

describe('the limits', () => {
  it('a message: one byte more is refused', async () => {
    expect(String(await unary('/test/unary', Buffer.alloc(1000, 1)))).toBe('none');
    const error = await unary('/test/unary', Buffer.alloc(1001, 1));
    expect(error).toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: 'a message of 1001 bytes is larger than the limit of 1000',
    });
  });

  it('a compressed message is refused', async () => {
    const session = connect(`http://${address}`);
    const call = open(session, '/test/unary');
    call.end(Buffer.of(1, 0, 0, 0, 1, 7));
    expect((await trailers(call))['grpc-status']).toBe(String(status.UNIMPLEMENTED));
    session.close();
  });

  it('connections: one more is closed at once, and a place becomes free again', async () => {
    const small = new RpcServer({ limits: { ...LIMITS, connections: 1 }, onNotice: noNotice });
    const url = `http://127.0.0.1:${await small.listen(0, '127.0.0.1')}`;
    const first = connect(url);
    await once(first, 'remoteSettings');
    const second = connect(url);
    second.on('error', () => undefined);
    await once(second, 'close');
    expect(first.destroyed).toBe(false);
    first.close();
    await once(first, 'close');
    const third = connect(url);
    await once(third, 'remoteSettings');
    third.close();
    await small.stop();
  });
});

const open = (session: ReturnType<typeof connect>, path: string): ClientHttp2Stream =>
  session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' });

async function received(call: ClientHttp2Stream): Promise<Buffer> {
  const chunks: Buffer[] = [];
  call.on('data', (chunk: Buffer) => chunks.push(chunk));
  await once(call, 'end');
  return Buffer.concat(chunks);
}

/** Of a call that fails before it answers anything, they are its headers. */
async function trailers(call: ClientHttp2Stream): Promise<Record<string, unknown>> {
  const [headers] = (await once(call, 'response')) as [Record<string, unknown>];
  call.resume();
  return headers;
}
