import { StoreError } from '../errors.js';
import { newObjectId, Raw } from '../bson/encode.js';
import { fieldsOf } from '../bson/values.js';
import type { Engine, Request } from '../engine.js';
import { sessionMinutes } from '../storage/sessions.js';
import { maximumDocument } from '../storage/unit.js';
import type { Command } from './dispatch.js';

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
function hello(_engine: Engine, { name, peer }: Request) {
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
    ok: 1,
  };
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
  hello: { fields: '*', run: hello },
  isMaster: { fields: '*', run: hello },
  ismaster: { fields: '*', run: hello },
  ping: { fields: '', run: () => ({ ok: 1 }) },
  buildInfo: { fields: '', run: buildInfo },
  buildinfo: { fields: '', run: buildInfo },
  getParameter: { fields: '*', run: getParameter },
};
