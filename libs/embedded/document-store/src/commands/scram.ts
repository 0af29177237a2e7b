import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { StoreError } from '../errors.js';
import { Raw, type PlainDocument } from '../bson/encode.js';
import * as options from '../bson/options.js';
import { BsonType, field, valueBytes, type Value } from '../bson/values.js';
import type { Engine, Peer, Request } from '../engine.js';
import type { User } from '../storage/users.js';
import type { Command } from './dispatch.js';

/** A login under way on one connection (RFC 5802, section 5): the server has sent its first message. */
export interface Conversation {
  readonly user: User;
  readonly nonce: string;
  readonly clientFirst: string;
  readonly serverFirst: string;
  readonly skipEmpty: boolean;
  /** The proof was right; only the empty exchange is left. */
  proven: boolean;
}

/** One answer for an unknown user, a wrong password and a broken message. */
const refused = (): StoreError => new StoreError(18, 'Authentication failed.');

const conversationId = 1;

function payloadOf(command: Value): string {
  const payload = field(command, 'payload');
  if (payload?.type !== BsonType.binary) throw new StoreError(14, "BSON field 'payload' must be binary");
  return valueBytes(payload).toString('utf8', 5);
}

function answer(text: string, done: boolean): PlainDocument {
  const content = Buffer.from(text);
  const bytes = Buffer.alloc(5 + content.length);
  bytes.writeInt32LE(content.length);
  content.copy(bytes, 5);
  return { conversationId, done, payload: new Raw({ type: BsonType.binary, bytes, at: 0 }), ok: 1 };
}

/** Begins a login: client-first-message to server-first-message. Any login before it on the connection is forgotten. */
export function begin({ users }: Engine, peer: Peer, command: Value, database: string): PlainDocument {
  delete peer.login;
  if (options.text(command, 'mechanism') !== 'SCRAM-SHA-256')
    throw new StoreError(334, 'Received authentication for a mechanism that is not SCRAM-SHA-256');
  const [, name, clientNonce] =
    /^n,(?:a=[^,]*)?,n=([^,]*),r=([\x21-\x2b\x2d-\x7e]+)$/.exec(payloadOf(command)) ?? [];
  if (name === undefined || clientNonce === undefined) throw refused();
  const user = users.get(database, name.replaceAll('=2C', ',').replaceAll('=3D', '='));
  if (!user) throw refused();
  const nonce = clientNonce + randomBytes(18).toString('base64');
  const { salt, iterations } = user.credential;
  const serverFirst = `r=${nonce},s=${salt.toString('base64')},i=${iterations}`;
  const wanted = options.document(command, 'options');
  const skipEmpty = wanted !== undefined && options.flag(wanted, 'skipEmptyExchange') === true;
  peer.login = {
    user,
    nonce,
    clientFirst: `n=${name},r=${clientNonce}`,
    serverFirst,
    skipEmpty,
    proven: false,
  };
  return answer(serverFirst, false);
}

/** Checks the client's proof; the connection acts as that user from here on. */
function proceed({ peer, command }: Request): PlainDocument {
  const { login } = peer;
  if (!login) throw new StoreError(17, 'No SASL session state found');
  if (login.proven) {
    delete peer.login;
    return answer('', true);
  }
  delete peer.login;
  const message = payloadOf(command);
  const [, withoutProof, nonce, proof] = /^(c=biws,r=([^,]+)),p=([A-Za-z0-9+/=]+)$/.exec(message) ?? [];
  if (withoutProof === undefined || proof === undefined || nonce !== login.nonce) throw refused();
  const { storedKey, serverKey } = login.user.credential;
  const signed = `${login.clientFirst},${login.serverFirst},${withoutProof}`;
  const signature = createHmac('sha256', storedKey).update(signed).digest();
  const sent = Buffer.from(proof, 'base64');
  if (sent.length !== signature.length) throw refused();
  const clientKey = Buffer.from(sent.map((byte, i) => byte ^ (signature[i] as number)));
  if (!timingSafeEqual(createHash('sha256').update(clientKey).digest(), storedKey)) throw refused();
  peer.user = { db: login.user.db, name: login.user.name };
  if (!login.skipEmpty) peer.login = { ...login, proven: true };
  return answer(`v=${createHmac('sha256', serverKey).update(signed).digest('base64')}`, login.skipEmpty);
}

function logout(_engine: Engine, { peer }: Request): PlainDocument {
  delete peer.user;
  return { ok: 1 };
}

export const loginCommands: Readonly<Record<string, Command>> = {
  saslStart: {
    fields: 'mechanism payload options autoAuthorize db',
    needs: 'nothing',
    run: (engine, { peer, command, database }) => begin(engine, peer, command, database),
  },
  saslContinue: {
    fields: 'conversationId payload',
    needs: 'nothing',
    run: (_engine, request) => proceed(request),
  },
  logout: { fields: '', needs: 'nothing', run: logout },
};
