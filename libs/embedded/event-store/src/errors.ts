import { Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { DamagedLog, LogUnwritable } from './segments.js';
import { InvalidRequest } from './proposed.js';
import type { Expected } from './streams.js';

/** How a call ends that does not end well: status and trailers of section 2.6. */
export type Failure = Pick<ServiceError, 'code' | 'details' | 'metadata'>;

/** Thrown to end a call with a failure that is already known. */
export class CallFailed extends Error {
  override readonly name = 'CallFailed';
  constructor(readonly failure: Failure) {
    super(failure.details);
  }
}

function failure(code: status, details: string, trailers: Record<string, string> = {}): Failure {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(trailers)) metadata.set(name, trailerText(value));
  return { code, details, metadata };
}

/** Trailers are visible ASCII; a name that is not travels percent-encoded. */
const trailerText = (value: string): string =>
  /^[\x20-\x7e]*$/.test(value) ? value : encodeURIComponent(value);

export const streamDeleted = (stream: string): Failure =>
  failure(status.FAILED_PRECONDITION, `Event stream '${stream}' is deleted.`, {
    exception: 'stream-deleted',
    'stream-name': stream,
  });

export const accessDenied = (): Failure =>
  failure(status.PERMISSION_DENIED, 'Access Denied', { exception: 'access-denied' });

/** Of credentials that are not right; `accessDenied` is for who may not do what is asked. */
export const unauthenticated = (): Failure => failure(status.UNAUTHENTICATED, 'Unauthenticated');

export const maximumAppendSizeExceeded = (limit: number): Failure =>
  failure(status.INVALID_ARGUMENT, `Maximum Append Size of ${limit} Exceeded.`, {
    exception: 'maximum-append-size-exceeded',
    'maximum-append-size': String(limit),
  });

/** The special expectations as the numbers that the protocol's trailers use for them. */
function expectedNumber(expected: Expected): string {
  if (expected === 'no_stream') return '-1';
  if (expected === 'any') return '-2';
  return expected === 'stream_exists' ? '-4' : String(expected);
}

/** Of delete and tombstone; an append answers this as a message. `last` is −1 for a stream without events. */
export function wrongExpectedVersion(stream: string, expected: Expected, last: number): Failure {
  const expectedText = expectedNumber(expected);
  return failure(
    status.FAILED_PRECONDITION,
    `Wrong expected version of stream '${stream}': expected ${expectedText}, actual ${last}.`,
    {
      exception: 'wrong-expected-version',
      'stream-name': stream,
      'expected-version': expectedText,
      'actual-version': last < 0 ? '' : String(last),
    },
  );
}

/** Refusals of persistent subscriptions; `reason` says why one failed. */
const PERSISTENT = {
  exists: status.ALREADY_EXISTS,
  'does-not-exist': status.NOT_FOUND,
  failed: status.INTERNAL,
  dropped: status.CANCELLED,
} as const;

export function persistentFailure(
  kind: keyof typeof PERSISTENT,
  stream: string,
  group: string,
  reason = kind === 'dropped' ? 'was dropped' : kind.replaceAll('-', ' '),
): Failure {
  return failure(PERSISTENT[kind], `Subscription group ${group} on stream ${stream} ${reason}.`, {
    exception: `persistent-subscription-${kind}`,
    'stream-name': stream,
    'group-name': group,
    ...(kind === 'failed' ? { reason } : {}),
  });
}

export const maximumSubscribersReached = (stream: string, group: string): Failure =>
  failure(
    status.FAILED_PRECONDITION,
    `Maximum subscriptions reached for subscription group ${group} on stream ${stream}.`,
    { exception: 'maximum-subscribers-reached', 'stream-name': stream, 'group-name': group },
  );

export const invalidArgument = (details: string): Failure => failure(status.INVALID_ARGUMENT, details);

export const exhausted = (details: string): Failure => failure(status.RESOURCE_EXHAUSTED, details);

export const unavailable = (details: string): Failure => failure(status.UNAVAILABLE, details);

/** What a thrown error means for the call in which it happened. */
export function failureOf(error: unknown): Failure {
  if (error instanceof CallFailed) return error.failure;
  if (error instanceof InvalidRequest)
    return error.missing.length === 0
      ? failure(status.UNKNOWN, error.message)
      : failure(status.INVALID_ARGUMENT, error.message, {
          exception: 'missing-required-metadata-property',
          'required-metadata-properties': error.missing.join(','),
        });
  if (error instanceof LogUnwritable) return unavailable(error.message);
  if (error instanceof DamagedLog) return failure(status.DATA_LOSS, error.message);
  return failure(status.UNKNOWN, messageOf(error));
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
