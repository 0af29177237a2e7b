import type { Refusal } from '#libs/decider';

/** The rule said no; nothing was appended. */
export class RefusedCommand extends Error {
  override readonly name = 'RefusedCommand';

  constructor(readonly refusal: Refusal) {
    super(refusal.detail);
  }
}

/** There is no such stream, it was retired, or the caller may not know of it. */
export class StreamNotFound extends Error {
  override readonly name = 'StreamNotFound';

  constructor(readonly stream: string) {
    super(`no stream ${stream}`);
  }
}

/** The caller may know of the stream, but not do this to it. */
export class NotPermitted extends Error {
  override readonly name = 'NotPermitted';

  constructor(readonly stream: string) {
    super(`not permitted on ${stream}`);
  }
}

/** The stream is not at the revision that the caller named; `current` is -1 for one that does not exist. */
export class RevisionMismatch extends Error {
  override readonly name = 'RevisionMismatch';

  constructor(
    readonly expected: bigint,
    readonly current: bigint,
  ) {
    super(`expected revision ${expected}, the stream is at ${current}`);
  }
}

/** The command id was used, less than a day ago, with another body. */
export class IdempotencyKeyReused extends Error {
  override readonly name = 'IdempotencyKeyReused';

  constructor(readonly commandId: string) {
    super('the idempotency key was used with another body');
  }
}

/** Others were faster each time; nothing was appended. Trying again is safe. */
export class ConcurrentChange extends Error {
  override readonly name = 'ConcurrentChange';

  constructor(readonly stream: string) {
    super(`${stream} kept changing`);
  }
}

/**
 * The store cannot be reached, or did not answer in time. A command may have been appended all the same: sent again
 * with its id, it has one effect.
 */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';
}

/** What the command would append is larger than one append may be, in bytes; nothing was appended. */
export class AppendTooLarge extends Error {
  override readonly name = 'AppendTooLarge';

  /** @param field the largest field of the largest event, as `<Type>.<field>`. */
  constructor(
    readonly limit: number,
    readonly size: number,
    readonly field: string,
  ) {
    super(`an append may have ${limit} bytes, this has ${size}; the largest field is ${field}`);
  }
}

/** A stored event of a type or schema version that this code does not know: its stream takes no commands. */
export class UnknownStoredEvent extends Error {
  override readonly name = 'UnknownStoredEvent';

  constructor(
    readonly stream: string,
    readonly revision: bigint,
    readonly type: string,
  ) {
    super(`unknown event ${type} at ${stream}@${revision}`);
  }
}

/** What an event cites of the payload store is not there, or cannot be opened: trying again does not help. */
export class PayloadMissing extends Error {
  override readonly name = 'PayloadMissing';
}

/** A stored event without a proper envelope, or whose sealed fields or payload do not open: its stream takes no commands. */
export class UnreadableEvent extends Error {
  override readonly name = 'UnreadableEvent';

  constructor(
    readonly stream: string,
    readonly revision: bigint,
    readonly reason: string,
  ) {
    super(`unreadable event at ${stream}@${revision}: ${reason}`);
  }
}
