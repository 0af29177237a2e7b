import fc from 'fast-check';
import timestamp from 'google-protobuf/google/protobuf/timestamp_pb.js';
import { decodeBatchRequest } from './batch-request.js';
import { InvalidRequest } from './proposed.js';
import { empty, shared, streams } from './protocol.js';
import { type NewEvent, StoredEvent, TOMBSTONE_REVISION, encodeFrame } from './record.js';
import type { Expected } from './streams.js';
import { CAUGHT_UP, encodeBatchSuccess, encodeCheckpoint, encodeReadEvent, uuidText } from './wire.js';

/** Lengths around 0, 127 / 128 and 16,383 / 16,384 change how protocol buffers write them. */
const bytes = (max: number): fc.Arbitrary<Buffer> =>
  fc
    .oneof(
      fc.uint8Array({ maxLength: max }),
      fc.integer({ min: 100, max: 300 }).map((n) => new Uint8Array(n).fill(7)),
    )
    .map((value) => Buffer.from(value));
const id = fc.uint8Array({ minLength: 16, maxLength: 16 }).map((value) => Buffer.from(value));
const text = fc.string({ unit: 'binary', maxLength: 40 });
const whole = fc.oneof(fc.nat(300), fc.maxSafeInteger().map(Math.abs)).map((n) => n % 2 ** 48);

const stored = fc
  .record({
    event: fc.record<NewEvent>({
      stream: text.map((value) => Buffer.from(value)),
      revision: whole,
      id,
      type: text.map((value) => Buffer.from(value)),
      json: fc.boolean(),
      tombstone: fc.boolean(),
      metadata: bytes(50),
      data: fc.oneof(
        bytes(200),
        fc.integer({ min: 16_000, max: 17_000 }).map((n) => Buffer.alloc(n, 1)),
      ),
    }),
    position: whole.map((n) => Math.max(n, 1)),
    created: fc.integer({ min: 0, max: 9_999_999_999_999 }),
  })
  .map(({ event, position, created }) => {
    const { bytes: encoded, offsets } = encodeFrame([event], position, created, 1);
    return { event, position, created, stored: new StoredEvent(encoded, offsets[0]!, position) };
  });

type Recorded = InstanceType<typeof streams.ReadResp.ReadEvent.RecordedEvent>;

function fieldsOf(recorded: Recorded | undefined): unknown {
  return (
    recorded && {
      id: recorded.getId()?.getString(),
      stream: Buffer.from(recorded.getStreamIdentifier()!.getStreamName_asU8()),
      revision: recorded.getStreamRevision(),
      positions: [recorded.getCommitPosition(), recorded.getPreparePosition()],
      entries: Object.fromEntries(recorded.getMetadataMap().toArray()),
      metadata: Buffer.from(recorded.getCustomMetadata_asU8()),
      data: recorded.getData_asB64(),
    }
  );
}

function fieldsSent({
  event,
  position,
  created,
}: {
  event: NewEvent;
  position: number;
  created: number;
}): unknown {
  return {
    id: uuidText(event.id),
    stream: event.stream,
    revision: event.tombstone ? TOMBSTONE_REVISION : String(event.revision),
    positions: [String(position), String(position)],
    entries: {
      type: event.type.toString(),
      created: String(BigInt(created) * 10_000n).padStart(17, '0'),
      'content-type': event.json ? 'application/json' : 'application/octet-stream',
    },
    metadata: event.metadata,
    data: event.data.toString('base64'),
  };
}

it('writes events and links as the generated classes read them', () => {
  fc.assert(
    fc.property(stored, fc.option(stored, { nil: undefined }), fc.boolean(), (event, link, gone) => {
      const shown = link && gone ? undefined : event;
      const read = streams.ReadResp.deserializeBinary(
        encodeReadEvent(shown?.stored, link?.stored),
      ).getEvent()!;
      expect(fieldsOf(read.getEvent())).toEqual(shown && fieldsSent(shown));
      expect(fieldsOf(read.getLink())).toEqual(link && fieldsSent(link));
      expect(read.getCommitPosition()).toBe(String((link ?? event).position));
    }),
    { numRuns: 60 },
  );
});

it('writes checkpoints, caught-up and successes as the generated classes read them', () => {
  expect(streams.ReadResp.deserializeBinary(CAUGHT_UP).hasCaughtUp()).toBe(true);
  fc.assert(
    fc.property(whole, whole, id, text, (revision, position, correlation, stream) => {
      const at = String(position);
      const checkpoint = streams.ReadResp.deserializeBinary(encodeCheckpoint(position)).getCheckpoint()!;
      expect([checkpoint.getCommitPosition(), checkpoint.getPreparePosition()]).toEqual([at, at]);
      const encoded = encodeBatchSuccess(correlation, Buffer.from(stream), revision, position);
      const read = streams.BatchAppendResp.deserializeBinary(encoded);
      expect(read.getCorrelationId()?.getString()).toBe(uuidText(correlation));
      expect(Buffer.from(read.getStreamIdentifier()!.getStreamName_asU8()).toString()).toBe(
        Buffer.from(stream).toString(),
      );
      const success = read.getSuccess()!;
      expect(success.getCurrentRevision()).toBe(String(revision));
      expect(success.getPosition()?.getCommitPosition()).toBe(at);
      expect(success.getPosition()?.getPreparePosition()).toBe(at);
    }),
  );
});

const raw = fc.record({ id, type: text, contentType: text, metadata: bytes(50), data: bytes(400) });
const expected = fc.oneof(
  fc.constantFrom<Expected[]>('any', 'no_stream', 'stream_exists'),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
);

function request(
  correlation: Buffer,
  structured: boolean,
  options: { stream: string; expected: Expected; deadline: number } | undefined,
  events: { id: Buffer; type: string; contentType: string; metadata: Buffer; data: Buffer }[],
  final: boolean,
): Buffer {
  const message = new streams.BatchAppendReq()
    .setCorrelationId(uuid(correlation, structured))
    .setIsFinal(final);
  if (options) message.setOptions(batchOptions(options));
  for (const event of events) {
    const proposed = new streams.BatchAppendReq.ProposedMessage().setId(uuid(event.id, structured));
    proposed.setCustomMetadata(new Uint8Array(event.metadata)).setData(new Uint8Array(event.data));
    proposed
      .getMetadataMap()
      .set('type', event.type)
      .set('content-type', event.contentType)
      .set('other', 'x');
    message.addProposedMessages(proposed);
  }
  return Buffer.from(message.serializeBinary());
}

function uuid(value: Buffer, structured: boolean): InstanceType<typeof shared.UUID> {
  if (!structured) return new shared.UUID().setString(uuidText(value));
  const halves = new shared.UUID.Structured()
    .setMostSignificantBits(String(value.readBigInt64BE(0)))
    .setLeastSignificantBits(String(value.readBigInt64BE(8)));
  return new shared.UUID().setStructured(halves);
}

function batchOptions(options: { stream: string; expected: Expected; deadline: number }) {
  const message = new streams.BatchAppendReq.Options()
    .setStreamIdentifier(
      new shared.StreamIdentifier().setStreamName(new Uint8Array(Buffer.from(options.stream))),
    )
    .setDeadline(timestamp.Timestamp.fromDate(new Date(options.deadline)));
  if (options.expected === 'any') return message.setAny(new empty.Empty());
  if (options.expected === 'no_stream') return message.setNoStream(new empty.Empty());
  if (options.expected === 'stream_exists') return message.setStreamExists(new empty.Empty());
  return message.setStreamPosition(String(options.expected));
}

const options = fc.record({
  stream: text,
  expected,
  deadline: fc.integer({ min: 0, max: 4_000_000_000_000 }),
});

it('reads batched appends as the generated classes write them', () => {
  const chunks = fc.tuple(
    id,
    fc.boolean(),
    fc.option(options, { nil: undefined }),
    fc.array(raw, { maxLength: 4 }),
    fc.boolean(),
  );
  fc.assert(
    fc.property(chunks, ([correlation, structured, sent, events, final]) => {
      expect(decodeBatchRequest(request(correlation, structured, sent, events, final))).toEqual({
        correlation,
        options: sent && { ...sent, stream: Buffer.from(sent.stream) },
        events: events.map((event) => ({
          ...event,
          type: Buffer.from(event.type),
          contentType: Buffer.from(event.contentType).toString('latin1'),
        })),
        final,
      });
    }),
    { numRuns: 60 },
  );
});

it('refuses what is cut short or no message at all, and never reads beyond it', () => {
  fc.assert(
    fc.property(id, raw, fc.nat(), (correlation, event, cut) => {
      const whole = request(correlation, false, undefined, [event], true);
      const part = whole.subarray(0, cut % whole.length);
      try {
        expect(decodeBatchRequest(part).events.length).toBeLessThanOrEqual(1);
      } catch (error) {
        expect(error).toBeInstanceOf(InvalidRequest);
      }
    }),
  );
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (noise) => {
      try {
        decodeBatchRequest(Buffer.from(noise));
      } catch (error) {
        expect(error).toBeInstanceOf(InvalidRequest);
      }
    }),
  );
});
