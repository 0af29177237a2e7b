/** Error codes of MongoDB that this store answers, with the names drivers and people know them by; others are `Location` and number. */
const names: Readonly<Record<number, string>> = {
  1: 'InternalError',
  2: 'BadValue',
  9: 'FailedToParse',
  14: 'TypeMismatch',
  15: 'Overflow',
  16: 'InvalidLength',
  20: 'IllegalOperation',
  26: 'NamespaceNotFound',
  27: 'IndexNotFound',
  28: 'PathNotViable',
  40: 'ConflictingUpdateOperators',
  43: 'CursorNotFound',
  48: 'NamespaceExists',
  50: 'MaxTimeMSExpired',
  52: 'DollarPrefixedFieldName',
  53: 'InvalidIdField',
  54: 'NotSingleValueField',
  56: 'EmptyFieldName',
  59: 'CommandNotFound',
  66: 'ImmutableField',
  67: 'CannotCreateIndex',
  72: 'InvalidOptions',
  73: 'InvalidNamespace',
  85: 'IndexOptionsConflict',
  86: 'IndexKeySpecsConflict',
  91: 'ShutdownInProgress',
  100: 'UnsatisfiableWriteConcern',
  112: 'WriteConflict',
  146: 'ExceededMemoryLimit',
  171: 'CannotIndexParallelArrays',
  175: 'QueryPlanKilled',
  225: 'TransactionTooOld',
  238: 'NotImplemented',
  251: 'NoSuchTransaction',
  256: 'TransactionCommitted',
  292: 'QueryExceededMemoryLimitNoDiskUseAllowed',
  263: 'OperationNotSupportedInTransaction',
  11: 'UserNotFound',
  13: 'Unauthorized',
  17: 'ProtocolError',
  18: 'AuthenticationFailed',
  31: 'RoleNotFound',
  121: 'DocumentValidationFailure',
  168: 'InvalidPipelineOperator',
  334: 'MechanismUnavailable',
  241: 'ConversionFailure',
  10334: 'BSONObjectTooLarge',
  11000: 'DuplicateKey',
  14031: 'OutOfDiskSpace',
  17280: 'KeyTooLong',
  40415: 'IDLUnknownField',
};

/** A refusal that travels to the client as `{ok: 0, code, codeName, errmsg, ...details}` and leaves no trace in the data. */
export class StoreError extends Error {
  readonly codeName: string;

  constructor(
    readonly code: number,
    message: string,
    /** Fields of the answer beside the code, such as `keyPattern`. */
    readonly details: Readonly<Record<string, unknown>> = {},
    readonly labels: readonly string[] = [],
  ) {
    super(message);
    this.codeName = names[code] ?? `Location${code}`;
  }
}

/** The transaction lost a race for a document or a key; the driver may run the whole transaction again. */
export function writeConflict(reason: string): StoreError {
  return new StoreError(
    112,
    `Write conflict: ${reason}. Please retry the operation or the transaction.`,
    {},
    ['TransientTransactionError'],
  );
}

/** What is left out on purpose is refused by its name. */
export function notSupported(what: string): StoreError {
  return new StoreError(238, `${what} is not supported by this document store`);
}

/** The transaction is not there: never begun, aborted, or lost with a crash. */
export function noTransaction(number: bigint): StoreError {
  return new StoreError(
    251,
    `Given transaction number ${number} does not match any in-progress transactions.`,
    {},
    ['TransientTransactionError'],
  );
}
