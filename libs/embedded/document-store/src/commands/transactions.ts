import { StoreError, noTransaction } from '../errors.js';
import { Raw, toValue } from '../bson/encode.js';
import * as options from '../bson/options.js';
import { BsonType, field, fieldsOf, valueBytes, type Value } from '../bson/values.js';
import type { Engine, Request } from '../engine.js';
import { sessionMinutes } from '../storage/sessions.js';
import { atOnce } from '../work.js';
import type { Command } from './dispatch.js';
import { randomBytes } from 'node:crypto';

/**
 * Commits once: a repeated commit is answered from memory, or after a crash from what was kept with the changes.
 * Answered when on disk.
 */
async function commit(engine: Engine, { session, number }: Request): Promise<{ ok: number }> {
  if (!session || number === undefined)
    throw new StoreError(72, 'commitTransaction needs an lsid and a txnNumber');
  const { saved } = await engine.writer.run(() =>
    atOnce(() => {
      const transaction = session.transaction?.number === number ? session.transaction : undefined;
      if (transaction?.state === 'committed') return { saved: engine.storage.saved() };
      if (transaction?.state !== 'open') {
        if (session.last?.number === number && !session.last.reply) return { saved: engine.storage.saved() };
        throw noTransaction(number);
      }
      const before = session.last;
      try {
        engine.sessions.remember(session, number, transaction.unit.layer);
        return { saved: transaction.commit() };
      } catch (error) {
        session.last = before;
        transaction.abort();
        throw error;
      }
    }),
  );
  await saved;
  return { ok: 1 };
}

async function abort(engine: Engine, { session, number }: Request): Promise<{ ok: number }> {
  if (!session || number === undefined)
    throw new StoreError(72, 'abortTransaction needs an lsid and a txnNumber');
  return engine.writer.run(() =>
    atOnce(() => {
      const transaction = session.transaction?.number === number ? session.transaction : undefined;
      if (transaction?.state === 'committed' || (session.last?.number === number && !session.last.reply))
        throw new StoreError(256, `Transaction ${number} has been committed.`);
      if (transaction?.state !== 'open') throw noTransaction(number);
      transaction.abort();
      return { ok: 1 };
    }),
  );
}

function endSessions(engine: Engine, { command, name }: Request): { ok: number } {
  for (const lsid of fieldsOf(options.array(command, name) as Value)) {
    const id = lsid.type === BsonType.object ? field(lsid, 'id') : undefined;
    if (id?.type !== BsonType.binary) throw new StoreError(9, `${name} needs session ids`);
    const session = valueBytes(id).subarray(5);
    engine.cursors.killSession(session);
    if (name === 'refreshSessions') engine.sessions.of(Buffer.from(session));
    else engine.sessions.end(session);
  }
  return { ok: 1 };
}

function startSession() {
  const bytes = Buffer.concat([Buffer.from([16, 0, 0, 0, 4]), randomBytes(16)]);
  bytes[11] = ((bytes[11] as number) & 0x0f) | 0x40;
  bytes[13] = ((bytes[13] as number) & 0x3f) | 0x80;
  const id = new Raw(toValue(new Raw({ type: BsonType.binary, bytes, at: 0 })));
  return { id: { id }, timeoutMinutes: sessionMinutes, ok: 1 };
}

export const transactionCommands: Readonly<Record<string, Command>> = {
  commitTransaction: { fields: 'recoveryToken', needs: 'session', inTransaction: true, run: commit },
  abortTransaction: { fields: 'recoveryToken', needs: 'session', inTransaction: true, run: abort },
  endSessions: { fields: '', needs: 'session', run: endSessions },
  refreshSessions: { fields: '', needs: 'session', run: endSessions },
  startSession: { fields: '', needs: 'session', run: startSession },
};
