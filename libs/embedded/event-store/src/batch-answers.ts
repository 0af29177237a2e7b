import type { BatchOptions } from './batch-request.js';
import { any, code as status, empty, shared, statusMessages, streams } from './protocol.js';
import type { Answer } from './store.js';
import { uuidText } from './wire.js';

/** The answers of one batched append other than plain success, through the generated classes (section 2.5). */

interface Detail {
  serializeBinary(): Uint8Array;
}

function identifier(stream: Buffer): InstanceType<typeof shared.StreamIdentifier> {
  return new shared.StreamIdentifier().setStreamName(new Uint8Array(stream));
}

function response(correlation: Buffer, stream: Buffer): InstanceType<typeof streams.BatchAppendResp> {
  return new streams.BatchAppendResp()
    .setCorrelationId(new shared.UUID().setString(uuidText(correlation)))
    .setStreamIdentifier(identifier(stream));
}

function encode(message: InstanceType<typeof streams.BatchAppendResp>): Buffer {
  return Buffer.from(message.serializeBinary());
}

/** The client dies on an error without details or stream, so every error has both. */
function failed(
  correlation: Buffer,
  stream: Buffer,
  code: (typeof status.Code)[keyof typeof status.Code],
  message: string,
  typeName: string,
  detail: Detail,
): Buffer {
  const packed = new any.Any();
  packed.pack(detail.serializeBinary(), `event_store.client.${typeName}`);
  const error = new statusMessages.Status().setCode(code).setMessage(message).setDetails(packed);
  return encode(response(correlation, stream).setError(error));
}

export type BatchFailure = 'timeout' | 'access-denied' | 'too-large' | 'bad-request' | 'unavailable';

/**
 * `unavailable` travels as a bad request does: only for types that the client does not know does it show the
 * message to its caller, and failing the whole call would fail appends of other clients in the same process.
 */
export function batchFailure(
  correlation: Buffer,
  stream: Buffer,
  kind: BatchFailure,
  message = '',
  maxAppendBytes = 0,
): Buffer {
  switch (kind) {
    case 'timeout':
      return failed(
        correlation,
        stream,
        status.Code.DEADLINE_EXCEEDED,
        'Timeout',
        'Timeout',
        new shared.Timeout(),
      );
    case 'access-denied':
      return failed(
        correlation,
        stream,
        status.Code.PERMISSION_DENIED,
        'Access Denied',
        'AccessDenied',
        new shared.AccessDenied(),
      );
    case 'too-large': {
      const detail = new shared.MaximumAppendSizeExceeded().setMaxappendsize(maxAppendBytes);
      const text = `Maximum Append Size of ${maxAppendBytes} Exceeded.`;
      return failed(
        correlation,
        stream,
        status.Code.INVALID_ARGUMENT,
        text,
        'MaximumAppendSizeExceeded',
        detail,
      );
    }
    case 'bad-request': {
      const detail = new shared.BadRequest().setMessage(message);
      return failed(correlation, stream, status.Code.INVALID_ARGUMENT, message, 'BadRequest', detail);
    }
    case 'unavailable': {
      const detail = new shared.BadRequest().setMessage(message);
      return failed(correlation, stream, status.Code.UNAVAILABLE, message, 'BadRequest', detail);
    }
  }
}

/** An append that the rules refuse. */
export function batchRefusal(
  correlation: Buffer,
  options: BatchOptions,
  answer: Exclude<Answer, { kind: 'written' }>,
): Buffer {
  if (answer.kind === 'stream-deleted') {
    const detail = new shared.StreamDeleted().setStreamIdentifier(identifier(options.stream));
    return failed(
      correlation,
      options.stream,
      status.Code.NOT_FOUND,
      'StreamDeleted',
      'StreamDeleted',
      detail,
    );
  }
  const detail = new shared.WrongExpectedVersion();
  if (answer.last < 0) detail.setCurrentNoStream(new empty.Empty());
  else detail.setCurrentStreamRevision(String(answer.last));
  if (options.expected === 'any') detail.setExpectedAny(new empty.Empty());
  else if (options.expected === 'no_stream') detail.setExpectedNoStream(new empty.Empty());
  else if (options.expected === 'stream_exists') detail.setExpectedStreamExists(new empty.Empty());
  else detail.setExpectedStreamPosition(String(options.expected));
  const name = 'WrongExpectedVersion';
  return failed(correlation, options.stream, status.Code.ALREADY_EXISTS, name, name, detail);
}

/** Success of an empty append to a stream without events. */
export function batchNoEvents(correlation: Buffer, stream: Buffer, position: number): Buffer {
  const at = new shared.AllStreamPosition()
    .setCommitPosition(String(position))
    .setPreparePosition(String(position));
  const success = new streams.BatchAppendResp.Success().setNoStream(new empty.Empty()).setPosition(at);
  return encode(response(correlation, stream).setSuccess(success));
}
