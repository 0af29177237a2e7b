import { StoreError, noTransaction, notSupported } from '../errors.js';
import * as options from '../bson/options.js';
import { toInteger } from '../bson/numbers.js';
import {
  BsonType,
  field,
  fieldsOf,
  firstName,
  isNumber,
  textOf,
  valueBytes,
  type Value,
} from '../bson/values.js';
import { tooOld, type Engine, type Peer, type Reply, type Request } from '../engine.js';
import type { Session, Transaction } from '../storage/sessions.js';
import { checkCollation } from './collation.js';
import { definitionCommands } from './definitions.js';
import { explainCommands } from './explain.js';
import { handshakeCommands } from './handshake.js';
import { statisticsCommands } from './statistics.js';
import { readCommands } from './reads.js';
import { loginCommands } from './scram.js';
import { authorize, userCommands, type Need } from './users.js';
import { validateCommands } from './validate.js';
import { transactionCommands } from './transactions.js';
import { writeCommands } from './writes.js';

export interface Command {
  /** Fields the command takes beside the general ones; `*` takes any (the handshake). */
  readonly fields: string;
  /** What the connection's user has to be allowed. */
  readonly needs: Need;
  /** May be part of a transaction. */
  readonly inTransaction?: boolean;
  /** A write that the driver may number and send again. */
  readonly retryable?: boolean;
  run(engine: Engine, request: Request): Promise<Reply> | Reply;
}

/** Everything that is answered; all other commands are 59 CommandNotFound. */
export const commands: Readonly<Record<string, Command>> = {
  ...handshakeCommands,
  ...writeCommands,
  ...readCommands,
  ...definitionCommands,
  ...transactionCommands,
  ...validateCommands,
  ...loginCommands,
  ...userCommands,
  ...explainCommands,
  ...statisticsCommands,
};

/** Fields any command may carry. */
const general = `$db lsid txnNumber autocommit startTransaction readConcern writeConcern maxTimeMS comment
  $readPreference $clusterTime apiVersion apiStrict apiDeprecationErrors`.split(/\s+/);

const knownFields = new Map(
  Object.entries(commands).map(([name, { fields }]) => [
    name,
    new Set([name, ...general, ...fields.split(' ')]),
  ]),
);

/** Options MongoDB has and this store does not: their presence is refused, with their name. */
const leftOut = new Set(
  `let capped timeseries viewOn pipeline max min returnKey showRecordId tailable awaitData encryptionInformation size
  clusteredIndex expireAfterSeconds changeStreamPreAndPostImages needsMerge sampleRate storageEngine
  indexOptionDefaults hidden`.split(/\s+/),
);

/** Commands MongoDB has and this store leaves out on purpose, with what they stand for. */
export const refusedCommands: ReadonlyMap<string, string> = new Map([
  ['mapReduce', 'map-reduce'],
  ['mapreduce', 'map-reduce'],
  ['$eval', 'server-side JavaScript'],
  ['eval', 'server-side JavaScript'],
  ['geoSearch', 'geo search'],
  ['shardCollection', 'sharding'],
  ['enableSharding', 'sharding'],
  ['addShard', 'sharding'],
  ['split', 'sharding'],
  ['moveChunk', 'sharding'],
  ['createSearchIndexes', 'search indexes'],
  ['bulkWrite', 'the bulkWrite command over several collections'],
]);

export async function dispatch(engine: Engine, peer: Peer, command: Value): Promise<Reply> {
  const name = firstName(command);
  const handler = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!handler && refusedCommands.has(name)) throw notSupported(refusedCommands.get(name) ?? name);
  if (!handler) throw new StoreError(59, `no such command: '${name}'`);
  checkFields(command, name, handler);
  authorize(engine, peer, name, handler.needs, options.text(command, '$db') ?? 'admin');
  checkConcerns(command);
  checkCollation(command);
  const request = contextOf(engine, peer, command, name, handler);
  const { transaction } = request;
  if (!transaction) return handler.run(engine, request);
  if (!peer.transactions.has(transaction)) {
    peer.transactions.add(transaction);
    void transaction.ended.then(() => peer.transactions.delete(transaction));
  }
  try {
    const reply = await handler.run(engine, request);
    if (!Buffer.isBuffer(reply) && reply['writeErrors']) transaction.abort();
    return reply;
  } catch (error) {
    transaction.abort();
    throw error;
  }
}

function checkFields(command: Value, name: string, { fields }: Command): void {
  if (fields === '*') return;
  const known = knownFields.get(name);
  for (const { name: option } of fieldsOf(command)) {
    if (known?.has(option)) continue;
    if (leftOut.has(option)) throw notSupported(`option '${option}' of ${name}`);
    throw new StoreError(40415, `BSON field '${name}.${option}' is an unknown field.`);
  }
}

/** Everything acknowledged is on disk, on the only member there is: w: 1, w: majority and j mean the same. */
function checkConcerns(command: Value): void {
  const concern = options.document(command, 'writeConcern');
  const w = concern && field(concern, 'w');
  if (w && isNumber(w) && (toInteger(w) ?? 0n) > 1n)
    throw new StoreError(100, 'Not enough data-bearing nodes: this store is one member');
  if (w?.type === BsonType.string && textOf(w) !== 'majority')
    throw new StoreError(100, `No write concern mode named '${textOf(w)}' found`);
  const level = options.document(command, 'readConcern');
  const wanted = level && options.text(level, 'level');
  if (wanted === 'snapshot' && options.flag(command, 'autocommit') !== false)
    throw notSupported("read concern 'snapshot' outside a transaction");
}

function contextOf(engine: Engine, peer: Peer, command: Value, name: string, handler: Command): Request {
  const database = options.text(command, '$db') ?? 'admin';
  const lsid = options.document(command, 'lsid');
  const id = lsid && field(lsid, 'id');
  if (lsid && (id?.type !== BsonType.binary || valueBytes(id).length !== 21))
    throw new StoreError(9, 'lsid.id must be a UUID');
  const session = id && engine.sessions.of(Buffer.from(valueBytes(id).subarray(5)));
  const number = options.long(command, 'txnNumber');
  if (number !== undefined && !session) throw new StoreError(72, 'txnNumber needs an lsid');
  const inTransaction = options.flag(command, 'autocommit') === false;
  if (number !== undefined && !inTransaction && !handler.retryable)
    throw new StoreError(20, `txnNumber may not be given to ${name}`);
  const transaction =
    inTransaction && session
      ? transactionOf(engine, session, number, options.flag(command, 'startTransaction') === true, name)
      : undefined;
  if (transaction && !handler.inTransaction)
    throw new StoreError(263, `Cannot run '${name}' in a multi-document transaction.`);
  return {
    name,
    command,
    database,
    peer,
    ...(session ? { session } : {}),
    ...(number !== undefined ? { number } : {}),
    ...(transaction ? { transaction } : {}),
    checkTime: deadline(options.whole(command, 'maxTimeMS')),
  };
}

function transactionOf(
  engine: Engine,
  session: Session,
  number: bigint | undefined,
  start: boolean,
  name: string,
): Transaction | undefined {
  if (number === undefined) throw new StoreError(72, 'autocommit needs a txnNumber');
  const current = session.transaction;
  if (start) {
    const last =
      current && current.number > (session.last?.number ?? -1n) ? current.number : session.last?.number;
    if (last !== undefined && number <= last) throw tooOld(number, last);
    return engine.beginTransaction(session, number);
  }
  if (name === 'commitTransaction' || name === 'abortTransaction') return undefined;
  if (current?.number === number && current.state === 'open') return current;
  if (current?.number === number && current.state === 'committed')
    throw new StoreError(256, `Transaction ${number} has been committed.`);
  throw noTransaction(number);
}

function deadline(milliseconds: number | undefined): () => void {
  if (!milliseconds) return () => undefined;
  const end = performance.now() + milliseconds;
  return () => {
    if (performance.now() > end) throw new StoreError(50, 'operation exceeded time limit');
  };
}
