import { factProblems } from './runs/fact-problems.js';
import { messageProblems } from './runs/message-problems.js';
import { preferenceProblems } from './profiles/preference-problems.js';
import { rebuildProblems } from './operations/rebuild-problems.js';

export interface Kind {
  readonly status: number;
  readonly title: string;
  /** What has happened. */
  readonly meaning: string;
  /** What the caller can do. */
  readonly advice: string;
}

const kind = (status: number, title: string, meaning: string, advice: string): Kind => ({
  status,
  title,
  meaning,
  advice,
});

/** Every code that an answer can carry. `docs/problems.md` and the pages at `/problems/<code>` are made from it. */
export const problems = {
  // The request itself.
  'malformed-request': kind(
    400,
    'That is no request',
    'What was sent is not HTTP/1.1, or names no host. The connection ends; `instance` is `/`, since no address could be read.',
    'Send a request that HTTP/1.1 allows.',
  ),
  'request-timeout': kind(
    408,
    'The request did not arrive in time',
    'Headers must be complete within 10 seconds and the body within 15, give or take one. Nothing was stored; the connection ends.',
    'Send the request again, in one go.',
  ),
  'headers-too-large': kind(
    431,
    'The headers are too large',
    'The address and the headers together are above the limit; `limit` is in bytes. The connection ends.',
    'Send less in headers; a token that names many people for whom its bearer acts may be the cause.',
  ),
  'invalid-body': kind(
    400,
    'The body cannot be used',
    'The body is not JSON, or a field of it is unknown, missing or not what it may be. `errors` names each field.',
    'Correct the fields named and send the request again.',
  ),
  'invalid-parameter': kind(
    400,
    'A parameter cannot be used',
    'A part of the path, a query parameter or a header is not what it may be. `errors` names it.',
    'Correct the parameter named.',
  ),
  'unknown-parameter': kind(
    400,
    'A query parameter is unknown',
    'The route has no such query parameter. It is refused, since ignoring it could answer more than was asked for.',
    'Correct its name; `allowed` lists the ones there are.',
  ),
  unauthenticated: kind(
    401,
    'Nobody is logged in',
    'The bearer token is missing, malformed, expired, or not for this service.',
    'Get a new token and send it as `Authorization: Bearer <token>`.',
  ),
  'not-permitted': kind(
    403,
    'Not permitted',
    'The caller may see this, but may not do what was asked.',
    'Ask someone whose role allows it.',
  ),
  'not-found': kind(
    404,
    'Not found',
    'There is no such thing, or the caller may not know of it; the two look the same.',
    'Check the address and the tenant of the token.',
  ),
  'method-not-allowed': kind(
    405,
    'The method is not allowed here',
    'The address exists, but not for this method.',
    'Use a method that the `Allow` header names.',
  ),
  'payload-too-large': kind(
    413,
    'Too large',
    'The body, or what would be appended for it, is above the limit. Nothing was stored. `limit` and `size` are in bytes.',
    'Send less, or in several requests.',
  ),
  'unsupported-media-type': kind(
    415,
    'The content type is not supported',
    'Bodies are JSON in UTF-8; a patch of worker state may also be `application/merge-patch+json`.',
    'Send `Content-Type: application/json`.',
  ),
  ...rebuildProblems,
  // Repeats and races.
  'idempotency-key-in-flight': kind(
    409,
    'The same request is still running',
    'A request with the same idempotency key and the same body has not been answered yet.',
    'Send it again after `Retry-After` seconds; it answers what the first one did.',
  ),
  'idempotency-key-reused': kind(
    422,
    'The idempotency key was used for another request',
    'The key stands for another body, sent by the same caller to the same route within 24 hours.',
    'Use a new key for a new request.',
  ),
  'revision-mismatch': kind(
    412,
    'The record has changed',
    'The record is not at the revision that `If-Match` names. `current` is the revision it is at.',
    'Read the record, and decide again whether the command is still meant.',
  ),
  'concurrent-change': kind(
    409,
    'Others were faster',
    'Other commands kept changing the same record while this one was tried. Nothing was stored.',
    'Send the request again.',
  ),
  // Stores.
  'too-many-watchers': kind(
    503,
    'Too many clients watch',
    'As many clients watch runs as this process takes; `limit` is how many.',
    'Try again after `Retry-After` seconds, or ask another process.',
  ),
  overloaded: kind(
    503,
    'Too much at once',
    'As many commands are under way as this process takes. Nothing was stored.',
    'Send it again after `Retry-After` seconds.',
  ),
  'store-unavailable': kind(
    503,
    'The event store cannot be reached',
    'The command may or may not have been stored.',
    'Send it again, with the same idempotency key, after `Retry-After` seconds: it has one effect.',
  ),
  'read-model-behind': kind(
    503,
    'The view is not that far yet',
    'The view did not reach the position asked for by `Waymark-Min-Position` in time.',
    'Ask again after `Retry-After` seconds.',
  ),
  'read-model-unavailable': kind(
    503,
    'The view cannot be reached',
    'Lists need the document store, which cannot be reached. Single records can still be read.',
    'Ask again after `Retry-After` seconds.',
  ),
  'conversations-unavailable': kind(
    503,
    'Conversations cannot be reached',
    'Conversations need the document store, which cannot be reached. What was sent may or may not have been stored.',
    'Send it again, with the same idempotency key, after `Retry-After` seconds: it has one effect.',
  ),
  'payloads-unavailable': kind(
    503,
    'The payload store cannot be reached',
    'A large worker state lies in the document store, which cannot be reached. Nothing was stored.',
    'Send it again, with the same idempotency key, after `Retry-After` seconds.',
  ),
  'keys-unavailable': kind(
    503,
    'The identity provider cannot be reached',
    'The keys that tokens are verified with cannot be fetched.',
    'Send the request again after `Retry-After` seconds.',
  ),
  'unreadable-record': kind(
    500,
    'A stored event cannot be read',
    'The record holds an event that this version does not know, or that cannot be opened. Nothing was changed.',
    'Tell the operator, with the value of `instance`.',
  ),
  'internal-error': kind(
    500,
    'Something went wrong',
    'The request failed for a reason that is not the caller’s. It is in the log.',
    'Send it again with the same idempotency key, or tell the operator, with the value of `instance`.',
  ),
  // Runs and their leases.
  'run-exists': kind(
    409,
    'The run exists already',
    'A run with this id was started with another body.',
    'Choose another `runId`, or none.',
  ),
  'run-ended': kind(
    409,
    'The run has ended',
    'The run is completed, failed or cancelled.',
    'Start a new run.',
  ),
  'lease-required': kind(
    428,
    'The lease is missing',
    'A worker’s command must show the lease of the run.',
    'Resume the run, and send `Waymark-Lease: <leaseToken>`.',
  ),
  'stale-lease': kind(
    409,
    'The lease is not the newest one',
    'Another worker has resumed the run since, or the lease was taken by somebody else. Nothing was stored.',
    'Stop working on the run, or resume it.',
  ),
  'lease-held': kind(
    409,
    'Another worker holds the lease',
    'The lease of another worker is live until `expiresAt`.',
    'Wait until then; a supervisor may take it over.',
  ),
  'step-already-completed': kind(
    409,
    'The step is completed',
    'The step was completed before, with another result. The first result stands.',
    'Read the run and go on from its steps, or use another `stepId`.',
  ),
  'state-too-large': kind(
    413,
    'The state is too large',
    'The state of the run or of its worker would be above the limit. Nothing was stored; the run stays as it was. ' +
      '`limit` and `size` are in bytes, `field` is what takes most of it.',
    'Keep large results elsewhere, and put references to them into the state.',
  ),
  'payload-away': kind(
    409,
    'The saved state is in the payload store',
    'A change of it needs the state that it changes.',
    'Nothing; this is between Waymark’s own parts.',
  ),
  'payload-required': kind(
    409,
    'The state is too large for an event',
    'It has to be in the payload store before the run cites it.',
    'Nothing; this is between Waymark’s own parts.',
  ),
  'draft-unknown': kind(404, 'No such draft', 'The run has no draft of that id.', 'Save the draft first.'),
  'draft-outdated': kind(
    409,
    'The draft has a newer version',
    'An approval is asked for the newest version of a draft. `draftVersion` is the newest.',
    'Read the draft, and ask for its newest version.',
  ),
  ...messageProblems,
  ...factProblems,
  // Preferences.
  ...preferenceProblems,
  // Approvals.
  'approval-open': kind(
    409,
    'An approval is open',
    'An approval of this draft is pending, or granted and not executed yet. `approvalId` names it.',
    'Wait for its decision, or withdraw it.',
  ),
  'too-many-approvals': kind(
    409,
    'Too many approvals are open',
    'The run has as many open approvals as it may have; `limit` is how many.',
    'Wait for their decisions, or withdraw some.',
  ),
  'already-decided': kind(
    409,
    'It is decided already',
    'The approval, or the proposal, was decided. The answer says what was decided, by whom and when.',
    'Nothing; the first decision stands.',
  ),
  'approval-expired': kind(
    410,
    'The approval has expired',
    'It was not decided by `expiresAt`.',
    'A worker may ask for a new one.',
  ),
  'approval-invalidated': kind(
    409,
    'The approval is no longer valid',
    'What was shown has changed since; `cause` says what.',
    'A worker may ask for a new one.',
  ),
  'approval-withdrawn': kind(
    409,
    'The approval was withdrawn',
    'Whoever asked for it took it back, or the run ended.',
    'A worker may ask for a new one.',
  ),
  'approval-lapsed': kind(
    409,
    'The grant was not executed in time',
    'The approval was granted, but could not be executed by `executeBy`.',
    'A worker may ask for a new one.',
  ),
  'approval-not-granted': kind(
    409,
    'The approval is not granted',
    'A claim is filed through a granted approval only.',
    'Decide the approval first.',
  ),
  'digest-mismatch': kind(
    409,
    'The digest is another one',
    'The decision names another digest than the approval is for: something else was looked at.',
    'Read the approval again, and decide on what it shows.',
  ),
  'four-eyes': kind(
    403,
    'Somebody else must decide',
    'The requester, the customer, whoever acts for either or has either acting for them, and whoever signed already (or is tied to who signed) cannot sign.',
    'Ask another adjuster or a supervisor.',
  ),
  // Conversations.
  'conversation-deleted': kind(
    410,
    'The conversation is gone',
    'It was deleted, or its retention has ended. No message of it is left, and none can be added.',
    'Begin another conversation.',
  ),
  // Filing.
  'over-authority': kind(
    403,
    'The amount is above your authority',
    'The amount is above the authority limit that the staff register has for the caller, or in another currency. `limit` is that limit; it is null for an adjuster who has none.',
    'Ask someone with more authority, or have a supervisor delegate the decision.',
  ),
  'filing-in-progress': kind(
    409,
    'The claim is being filed',
    'Filing has started and will be completed; until then this cannot change.',
    'Send the request again once the run shows a receipt.',
  ),
  'filing-not-started': kind(
    409,
    'Filing has not started',
    'A receipt is noted for a filing that has started.',
    'Nothing; this is between Waymark’s own parts.',
  ),
  'draft-unopenable': kind(
    409,
    'The draft cannot be opened',
    'The key of its customer was erased or damaged, or its stored bytes were changed. A filing under way ends as refused with ' +
      'this code; nothing else is decided on such a run, which can be cancelled, without a reason where the key is gone.',
    'Tell the operator: a damaged key can be restored from the backup of the folder of keys. Else start a new run.',
  ),
  'filing-refused': kind(
    409,
    'Filing was refused',
    'The claims side refused the approved draft. The run says why.',
    'Correct the draft, and ask for a new approval.',
  ),
  'claim-id-mismatch': kind(
    409,
    'The claim belongs to another draft',
    'A claim’s id follows from the draft that it is filed from.',
    'Nothing; this is between Waymark’s own parts.',
  ),
  'claim-state': kind(
    409,
    'The claim is in another state',
    'This cannot be done with the claim as it is. `status` says how it is, `allowed` in which states it can be done.',
    'Read the claim.',
  ),
  'already-filed': kind(
    409,
    'A claim was filed from this draft',
    'One draft is filed once. `claimId` names the claim, where it is known.',
    'Read the claim.',
  ),
} satisfies Record<string, Kind>;

export type ProblemCode = keyof typeof problems;

/** An answer that is no result: thrown anywhere below the edge, answered in one place there. */
export class Problem extends Error {
  override readonly name = 'Problem';

  constructor(
    readonly code: ProblemCode,
    readonly detail: string,
    /** What the code needs beside the detail: `errors`, `current`, `limit`, `expiresAt` … */
    readonly extra: Readonly<Record<string, unknown>> = {},
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(`${code}: ${detail}`);
  }

  get status(): number {
    return problems[this.code].status;
  }

  /** The body of the answer (RFC 9457). */
  body(instance: string): Record<string, unknown> {
    const { status, title } = problems[this.code];
    const { code, detail } = this;
    return { type: `/problems/${code}`, title, status, detail, code, instance, ...this.extra };
  }
}

/** Missing, hidden, and of another tenant: one answer, so that nothing can be told apart. */
export function notFound(): Problem {
  return new Problem('not-found', 'There is nothing here that you may see.');
}

export function notPermitted(): Problem {
  return new Problem('not-permitted', 'Your role does not allow this.');
}

export function keyReused(): Problem {
  return new Problem('idempotency-key-reused', 'The idempotency key was used with another body.');
}

export function isProblemCode(code: string): code is ProblemCode {
  return Object.hasOwn(problems, code);
}
