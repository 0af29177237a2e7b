import type { sendUnaryData } from '@grpc/grpc-js';
import { type BatchAppendOptions, EVENT_OVERHEAD } from './batch-appends.js';
import {
  accessDenied,
  failureOf,
  invalidArgument,
  maximumAppendSizeExceeded,
  streamDeleted,
} from './errors.js';
import {
  InvalidRequest,
  countedSize,
  proposed,
  refusesWrites,
  streamName,
  uuidBytes,
  uuidFromHalves,
} from './proposed.js';
import { shared, streams } from './protocol.js';
import type { ProposedEvent } from './record.js';
import type { RpcCall } from './rpc-call.js';
import type { Answer } from './store.js';
import type { Expected } from './streams.js';

type AppendCall = RpcCall<InstanceType<typeof streams.AppendReq>, InstanceType<typeof streams.AppendResp>>;
type AppendCallback = sendUnaryData<InstanceType<typeof streams.AppendResp>>;

/** `Streams/Append`, section 2.1: options, then one message an event; a wrong expected version is an answer. */
export function classicAppend(
  { store, maxAppendBytes, access }: Omit<BatchAppendOptions, 'calls'>,
  call: AppendCall,
  callback: AppendCallback,
): void {
  let target: { stream: string; expected: Expected } | undefined;
  const events: ProposedEvent[] = [];
  let size = 0;
  let done = false;
  const finish: AppendCallback = (error, value) => {
    if (done) return;
    done = true;
    callback(error, value);
  };
  const isWritable = (stream: string): boolean =>
    !refusesWrites(stream) && access.may(call.caller, '$w', stream);
  call.on('data', (request: InstanceType<typeof streams.AppendReq>) => {
    if (done) return;
    try {
      const options = request.getOptions();
      if (options) target = appendTarget(options);
      const event = options ? undefined : classicEvent(request);
      if (event) {
        events.push(event);
        size += countedSize(event);
        if (!call.hold(countedSize(event) + EVENT_OVERHEAD)) return;
      }
      if (target && !isWritable(target.stream)) finish(accessDenied());
      else if (size > maxAppendBytes) finish(maximumAppendSizeExceeded(maxAppendBytes));
    } catch (error) {
      finish(failureOf(error));
    }
  });
  call.on('cancelled', () => (done = true));
  call.on('end', () => {
    if (done) return;
    if (!target) return finish(invalidArgument('the first message of an append must carry its options'));
    const { stream, expected } = target;
    store.append(stream, expected, events).then(
      (answer) =>
        answer.kind === 'stream-deleted'
          ? finish(streamDeleted(stream))
          : finish(null, appendResponse(expected, answer)),
      (error: unknown) => finish(failureOf(error)),
    );
  });
}

function appendTarget(options: InstanceType<typeof streams.AppendReq.Options>): {
  stream: string;
  expected: Expected;
} {
  const stream = streamName(options.getStreamIdentifier()?.getStreamName_asU8() ?? new Uint8Array());
  return { stream, expected: expectedOf(options) };
}

interface Expectation {
  hasAny(): boolean;
  hasNoStream(): boolean;
  hasStreamExists(): boolean;
  getRevision(): string;
}

/** The expectation of an append, delete or tombstone request. */
export function expectedOf(options: Expectation): Expected {
  if (options.hasAny()) return 'any';
  if (options.hasNoStream()) return 'no_stream';
  return options.hasStreamExists() ? 'stream_exists' : BigInt(options.getRevision());
}

function classicEvent(request: InstanceType<typeof streams.AppendReq>): ProposedEvent {
  const message = request.getProposedMessage();
  if (!message) throw new InvalidRequest('an append message must carry options or an event');
  const entries = message.getMetadataMap();
  const type = entries.get('type');
  return proposed({
    id: uuidOf(message.getId()),
    type: type === undefined ? undefined : Buffer.from(type),
    contentType: entries.get('content-type'),
    metadata: Buffer.from(message.getCustomMetadata_asU8()),
    data: Buffer.from(message.getData_asU8()),
  });
}

function uuidOf(id: InstanceType<typeof shared.UUID> | undefined): Buffer | undefined {
  const halves = id?.getStructured();
  if (halves)
    return uuidFromHalves(BigInt(halves.getMostSignificantBits()), BigInt(halves.getLeastSignificantBits()));
  return id && uuidBytes(id.getString());
}

function appendResponse(
  expected: Expected,
  answer: Exclude<Answer, { kind: 'stream-deleted' }>,
): InstanceType<typeof streams.AppendResp> {
  const response = new streams.AppendResp();
  if (answer.kind === 'wrong-revision')
    return response.setWrongExpectedVersion(wrongVersion(expected, answer.last));
  const success = new streams.AppendResp.Success();
  if (answer.revision < 0) success.setNoStream(new shared.Empty());
  else success.setCurrentRevision(String(answer.revision));
  const position = new streams.AppendResp.Position();
  position.setCommitPosition(String(answer.position)).setPreparePosition(String(answer.position));
  return response.setSuccess(success.setPosition(position));
}

function wrongVersion(
  expected: Expected,
  last: number,
): InstanceType<typeof streams.AppendResp.WrongExpectedVersion> {
  const wrong = new streams.AppendResp.WrongExpectedVersion();
  if (last < 0) wrong.setCurrentNoStream(new shared.Empty());
  else wrong.setCurrentRevision(String(last));
  if (expected === 'any') return wrong.setExpectedAny(new shared.Empty());
  if (expected === 'no_stream') return wrong.setExpectedNoStream(new shared.Empty());
  if (expected === 'stream_exists') return wrong.setExpectedStreamExists(new shared.Empty());
  return wrong.setExpectedRevision(String(expected));
}
