import { StoreError } from '../errors.js';
import { newObjectId, Raw, type PlainDocument } from '../bson/encode.js';
import * as options from '../bson/options.js';
import { fieldsOf, type Value } from '../bson/values.js';
import type { Engine, Peer, Request } from '../engine.js';
import { sessionMinutes } from '../storage/sessions.js';
import { maximumDocument } from '../storage/unit.js';
import type { Command } from './dispatch.js';
import { begin } from './scram.js';

/** Name of the replica set of which this store is the only member. */
export const setName = 'rs0';

/** Largest message taken, in bytes. */
export const maximumMessage = 48_000_000;

/** Statements of one write command: drivers split larger bulks, so that no bulk keeps others waiting for long. */
export const maximumBatch = 1_000;

const wireVersion = 25;
export const version = '8.0.0';
const electionId = new Raw(newObjectId());

/**
 * The store presents itself as the primary of a replica set of one, at the address the client reached it by: only
 * then do drivers use sessions, retryable writes and transactions. There is no `topologyVersion`, so that drivers
 * ask again at their interval.
 */
function hello(engine: Engine, { name, peer, command }: Request) {
  const me = `${peer.address}:${peer.port}`;
  return {
    ...(name === 'hello' ? { isWritablePrimary: true } : { ismaster: true, helloOk: true }),
    setName,
    setVersion: 1,
    electionId,
    secondary: false,
    hosts: [me],
    primary: me,
    me,
    maxBsonObjectSize: maximumDocument,
    maxMessageSizeBytes: maximumMessage,
    maxWriteBatchSize: maximumBatch,
    localTime: new Date(),
    logicalSessionTimeoutMinutes: sessionMinutes,
    minWireVersion: 0,
    maxWireVersion: wireVersion,
    readOnly: false,
    ...loginOffered(engine, peer, command),
    ok: 1,
  };
}

/** Which mechanisms a user has, and the first step of a login that came with the hello; a failed one is tried again. */
function loginOffered(engine: Engine, peer: Peer, command: Value): PlainDocument {
  const asked = options.text(command, 'saslSupportedMechs');
  const early = options.document(command, 'speculativeAuthenticate');
  return {
    ...(asked === undefined ? {} : { saslSupportedMechs: ['SCRAM-SHA-256'] }),
    ...(early ? firstStep(engine, peer, early) : {}),
  };
}

function firstStep(engine: Engine, peer: Peer, early: Value): PlainDocument {
  try {
    return { speculativeAuthenticate: begin(engine, peer, early, options.text(early, 'db') ?? 'admin') };
  } catch (error) {
    if (error instanceof StoreError) return {};
    throw error;
  }
}

function buildInfo() {
  return {
    version,
    versionArray: [8, 0, 0, 0],
    gitVersion: 'waymark-document-store',
    modules: [],
    storageEngines: ['lmdb'],
    bits: 64,
    debug: false,
    maxBsonObjectSize: maximumDocument,
    ok: 1,
  };
}

function getParameter(_engine: Engine, { command }: Request) {
  const names = fieldsOf(command)
    .map(({ name }) => name)
    .filter((name) => !['getParameter', '$db', 'lsid', '$readPreference', '$clusterTime'].includes(name));
  if (names.length !== 1 || names[0] !== 'featureCompatibilityVersion')
    throw new StoreError(72, 'no option found to get');
  return { featureCompatibilityVersion: { version: '8.0' }, ok: 1 };
}

export const handshakeCommands: Readonly<Record<string, Command>> = {
  hello: { fields: '*', needs: 'nothing', run: hello },
  isMaster: { fields: '*', needs: 'nothing', run: hello },
  ismaster: { fields: '*', needs: 'nothing', run: hello },
  ping: { fields: '', needs: 'nothing', run: () => ({ ok: 1 }) },
  buildInfo: { fields: '', needs: 'nothing', run: buildInfo },
  buildinfo: { fields: '', needs: 'nothing', run: buildInfo },
  getParameter: { fields: '*', needs: 'session', run: getParameter },
};
