import {
  AccessDeniedError,
  EventStoreDBClient,
  type JSONType,
  PARK,
  START,
  UnavailableError,
  jsonEvent,
  persistentSubscriptionToStreamSettingsFromDefaults,
} from '@eventstore/db-client';
import operations from '@eventstore/db-client/generated/operations_pb.js';
import operationsService from '@eventstore/db-client/generated/operations_grpc_pb.js';
import { type ServiceError, Metadata, credentials, status } from '@grpc/grpc-js';
import { once } from 'node:events';
import { readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { generate } from 'selfsigned';
import {
  type RunningEventStore,
  Unprotected,
  backupEventStore,
  listUsers,
  putUsers,
  removeUser,
  startEventStore,
} from '#libs/embedded/event-store';
import {
  type TemporaryFolder,
  all,
  appendPaths,
  errorOf,
  event,
  events,
  newStream,
  temporaryFolder,
} from './subject.js';

/** Of the embedded store alone: a real server has users and certificates of its own. */
const ADMIN = { name: 'admin', password: 'opening: the day', groups: ['$admins'] };
const OPERATOR = { name: 'otto', password: 'looks after it', groups: ['$ops'] };
const DANA = { name: 'dana', password: 'päßwort', groups: ['adjusters'] };
const EVE = { name: 'eve', password: 'listens' };
const USERS = [ADMIN, OPERATOR, DANA, EVE];

let folder: TemporaryFolder;
let store: RunningEventStore;
let caFile: string;
let tls: { cert: string; key: string };
const clients: EventStoreDBClient[] = [];
beforeAll(async () => {
  folder = temporaryFolder();
  const pems = await generate([{ name: 'commonName', value: 'waymark test' }], {
    extensions: [{ name: 'subjectAltName', altNames: [{ type: 7, ip: '127.0.0.1' }] }],
  });
  tls = { cert: pems.cert, key: pems.private };
  caFile = join(folder.path, 'ca.pem');
  writeFileSync(caFile, pems.cert);
  store = await startEventStore({ folder: at('store'), host: '0.0.0.0', port: 0, tls, users: USERS });
});
afterAll(async () => {
  await Promise.all(clients.map((client) => client.dispose()));
  await store.close();
  folder.remove();
});

const at = (name: string): string => join(folder.path, name);

interface Shown {
  readonly name: string;
  readonly password: string;
}
const open = (who?: Shown, scheme = 'esdb'): EventStoreDBClient => {
  const shown = who ? `${encodeURIComponent(who.name)}:${encodeURIComponent(who.password)}@` : '';
  const client = EventStoreDBClient.connectionString(
    `${scheme}://${shown}127.0.0.1:${store.port}?tls=true&tlsCaFile=${encodeURIComponent(caFile)}`,
  );
  clients.push(client);
  return client;
};
const shows = ({ name, password }: Shown) => ({ credentials: { username: name, password } });

/** What a scavenge is answered: a call whose status and trailers can be seen. */
function scavengeBy(who?: Shown): Promise<{ code: number; exception: unknown }> {
  const client = new operationsService.OperationsClient(
    `127.0.0.1:${store.port}`,
    credentials.createSsl(Buffer.from(tls.cert)),
  );
  const metadata = new Metadata();
  if (who) {
    const shown = Buffer.from(`${who.name}:${who.password}`).toString('base64');
    metadata.set('authorization', `Basic ${shown}`);
  }
  return new Promise((resolve) =>
    client.startScavenge(new operations.StartScavengeReq(), metadata, (error: ServiceError | null) => {
      client.close();
      resolve({ code: error?.code ?? status.OK, exception: error?.metadata.get('exception')[0] });
    }),
  );
}

describe('beyond loopback it is refused', () => {
  it('without TLS, without touching the folder', async () => {
    const refused = await errorOf(
      startEventStore({ folder: at('none'), host: '0.0.0.0', port: 0, users: USERS }),
    );
    expect(refused).toEqual(new Unprotected('host 0.0.0.0 is refused: beyond loopback TLS is needed'));
    expect(readdirSync(folder.path)).not.toContain('none');
  });

  it('without users, leaving the folder free', async () => {
    const options = { folder: at('empty'), host: '0.0.0.0', port: 0, tls };
    expect(String(await errorOf(startEventStore(options)))).toMatch(
      /host 0\.0\.0\.0 is refused: beyond loopback users are needed, and .*empty holds none/,
    );
    await putUsers(options.folder, [ADMIN]);
    await (await startEventStore(options)).close();
  });
});

describe('a user', () => {
  it.each(appendPaths)(
    'is known by the connection string ($path, and every other call)',
    async ({ path }) => {
      const client = open(DANA);
      const stream = newStream();
      const options = path === 'classic append' ? shows(DANA) : {};
      await client.appendToStream(stream, events(0, 1), options);
      expect(await all(client.readStream(stream))).toHaveLength(2);
      await client.setStreamMetadata(stream, { maxCount: 1 });
      expect((await client.getStreamMetadata(stream)).metadata).toEqual({ maxCount: 1 });
      const subscription = client.subscribeToStream(stream, { fromRevision: START });
      await once(subscription, 'caughtUp');
      await subscription.unsubscribe();
      await client.deleteStream(stream);
      await client.appendToStream(stream, event(2));
      await client.tombstoneStream(stream);
    },
  );

  it('is known by the credentials of a call, before those of the connection string', async () => {
    const stream = newStream();
    const nobody = open();
    await nobody.appendToStream(stream, event(0), shows(DANA));
    expect(await all(nobody.readStream(stream, shows(DANA)))).toHaveLength(1);
    const wrong = { ...DANA, password: 'guessed' };
    expect(await errorOf(all(open(DANA).readStream(stream, shows(wrong))))).toBeInstanceOf(AccessDeniedError);
  });

  it('is found by discovery, and asked by no one for the list of methods', async () => {
    const stream = newStream();
    await open(DANA, 'esdb+discover').appendToStream(stream, event(0));
  });

  it('is refused with another password, a name that nobody has, or none at all, whatever is asked', async () => {
    const stream = newStream();
    await open(DANA).appendToStream(stream, event(0));
    const strangers = [{ ...DANA, password: 'guessed' }, { name: 'mallory', password: 'x' }, undefined];
    for (const stranger of strangers) {
      const client = open(stranger);
      const asked = [
        client.appendToStream(stream, event(1)),
        client.appendToStream(stream, event(1), stranger ? shows(stranger) : {}),
        client.deleteStream(stream),
        client.tombstoneStream(stream),
        all(client.readStream(stream)),
        all(client.readAll({ maxCount: 1 })),
        client.listAllPersistentSubscriptions(),
        once(client.subscribeToStream(stream), 'data'),
      ];
      for (const error of await Promise.all(asked.map(errorOf)))
        expect(error).toBeInstanceOf(AccessDeniedError);
    }
    expect(await all(open(DANA).readStream(stream))).toHaveLength(1);
  });

  it('is told apart: who cannot be known is UNAUTHENTICATED, who may not is PERMISSION_DENIED', async () => {
    const denied = { code: status.PERMISSION_DENIED, exception: 'access-denied' };
    expect(await scavengeBy({ ...OPERATOR, password: 'guessed' })).toEqual({
      code: status.UNAUTHENTICATED,
      exception: undefined,
    });
    expect(await scavengeBy(DANA)).toEqual(denied);
    expect(await scavengeBy()).toEqual(denied);
    expect(await scavengeBy(OPERATOR)).toEqual({ code: status.OK, exception: undefined });
  });

  it('is heard over TLS only', async () => {
    const client = EventStoreDBClient.connectionString(`esdb://127.0.0.1:${store.port}?tls=false`);
    expect(await errorOf(all(client.readStream('any')))).toBeInstanceOf(UnavailableError);
    await client.dispose();
  });
});

describe('an ordinary user', () => {
  it('may not read the log, nor streams whose names begin with $; an admin may', async () => {
    const category = newStream('cases').split('-')[0]!;
    const stream = newStream(category);
    await open(DANA).appendToStream(stream, event(0));
    const asked = (who: Shown): Promise<unknown>[] => [
      all(open(who).readAll({ maxCount: 1 })),
      all(open(who).readStream(`$ce-${category}`)),
      once(open(who).subscribeToAll(), 'confirmation'),
      open(who).appendToStream(`$mine-${stream}`, event(0)),
      open(who).setStreamMetadata(`$mine-${stream}`, { maxCount: 1 }),
    ];
    for (const error of await Promise.all(asked(DANA).map(errorOf)))
      expect(error).toBeInstanceOf(AccessDeniedError);
    await Promise.all(asked(ADMIN));
  });

  it('is held to the lists of a stream, each of them by itself', async () => {
    const stream = newStream();
    const admin = open(ADMIN);
    await admin.appendToStream(stream, event(0));
    await admin.setStreamMetadata(stream, {
      acl: {
        readRoles: ['adjusters', 'eve'],
        writeRoles: ['adjusters'],
        deleteRoles: ['$admins'],
        metaReadRoles: ['eve'],
      },
    });
    const [dana, eve] = [open(DANA), open(EVE)];
    expect(await all(dana.readStream(stream))).toHaveLength(1);
    expect(await all(eve.readStream(stream))).toHaveLength(1);
    await dana.appendToStream(stream, event(1));
    expect((await eve.getStreamMetadata(stream)).metadata?.acl?.writeRoles).toEqual(['adjusters']);
    const refused = [
      eve.appendToStream(stream, event(2)),
      eve.appendToStream(stream, event(2), shows(EVE)),
      dana.getStreamMetadata(stream),
      dana.deleteStream(stream),
      dana.tombstoneStream(stream),
    ];
    for (const error of await Promise.all(refused.map(errorOf)))
      expect(error).toBeInstanceOf(AccessDeniedError);
    expect(await all(admin.readStream(stream))).toHaveLength(2);
    // No list says who may write the metadata, so whoever may use streams of this kind.
    await dana.setStreamMetadata(stream, {});
    await eve.appendToStream(stream, event(2));
  });

  it('loses a live subscription with the right to it', async () => {
    const stream = newStream();
    const admin = open(ADMIN);
    await admin.appendToStream(stream, event(0));
    const subscription = open(DANA).subscribeToStream(stream, { fromRevision: START });
    const heard: bigint[] = [];
    subscription.on('data', (one) => heard.push(one.event!.revision));
    await once(subscription, 'caughtUp');
    const ended = errorOf(once(subscription, 'never'));
    await admin.setStreamMetadata(stream, { acl: { readRoles: ['$admins'] } });
    expect(await ended).toBeInstanceOf(AccessDeniedError);
    await admin.appendToStream(stream, event(1));
    expect(heard).toEqual([0n]);
  });

  it('is held to what $settings says of streams without lists, and freed of it', async () => {
    const admin = open(ADMIN);
    const stream = newStream();
    await open(DANA).appendToStream(stream, event(0));
    const settings = (data: JSONType) => jsonEvent({ type: 'update-default-acl', data });
    await admin.appendToStream('$settings', settings({ $userStreamAcl: { $r: ['$all'], $w: 'adjusters' } }));
    expect(await errorOf(open(EVE).appendToStream(stream, event(1)))).toBeInstanceOf(AccessDeniedError);
    await open(DANA).appendToStream(stream, event(1));
    expect(await all(open(EVE).readStream(stream))).toHaveLength(2);
    await admin.appendToStream('$settings', settings({}));
    await open(EVE).appendToStream(stream, event(2));
  });

  it('uses persistent subscriptions that operators make, to streams it may read', async () => {
    const stream = newStream();
    const settings = persistentSubscriptionToStreamSettingsFromDefaults({ startFrom: START });
    const [dana, operator] = [open(DANA), open(OPERATOR)];
    await dana.appendToStream(stream, event(0));
    const refused = [
      dana.createPersistentSubscriptionToStream(stream, 'g', settings),
      dana.createPersistentSubscriptionToAll(
        'g',
        persistentSubscriptionToStreamSettingsFromDefaults({}) as never,
      ),
    ];
    for (const error of await Promise.all(refused.map(errorOf)))
      expect(error).toBeInstanceOf(AccessDeniedError);
    await operator.createPersistentSubscriptionToStream(stream, 'g', settings);
    const subscription = dana.subscribeToPersistentSubscriptionToStream(stream, 'g');
    const [heard] = (await once(subscription, 'data')) as [Parameters<typeof subscription.nack>[2]];
    const info = await dana.getPersistentSubscriptionToStreamInfo(stream, 'g');
    expect(info.connections.map(({ username }) => username)).toEqual(['dana']);
    await subscription.nack(PARK, 'later', heard);
    await subscription.unsubscribe();
    const denied = [
      dana.replayParkedMessagesToStream(stream, 'g'),
      dana.updatePersistentSubscriptionToStream(stream, 'g', settings),
      dana.deletePersistentSubscriptionToStream(stream, 'g'),
      dana.restartPersistentSubscriptionSubsystem(),
    ];
    for (const error of await Promise.all(denied.map(errorOf)))
      expect(error).toBeInstanceOf(AccessDeniedError);
    await open(ADMIN).setStreamMetadata(stream, { acl: { readRoles: ['eve'] } });
    const unread = dana.subscribeToPersistentSubscriptionToStream(stream, 'g');
    expect(await errorOf(once(unread, 'data'))).toBeInstanceOf(AccessDeniedError);
    await operator.deletePersistentSubscriptionToStream(stream, 'g');
  });
});

describe('users', () => {
  it('lie in the folder without their passwords, for its owner alone, and go with a backup', async () => {
    const path = join(at('store'), 'users.json');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const stored = readdirSync(at('store'), { withFileTypes: true })
      .filter((one) => one.isFile())
      .map(({ name }) => readFileSync(join(at('store'), name), 'latin1'))
      .join('');
    for (const { password } of USERS) {
      expect(stored).not.toContain(Buffer.from(password).toString('latin1'));
      expect(stored).not.toContain(Buffer.from(password).toString('base64'));
    }
    await backupEventStore(at('store'), at('copy'));
    expect(listUsers(at('copy'))).toEqual(listUsers(at('store')));
    expect(statSync(join(at('copy'), 'users.json')).mode & 0o777).toBe(0o600);
  });

  it('are made, changed and removed while the store runs, and what they may ends with them', async () => {
    const stream = newStream();
    const kim = { name: 'kim', password: 'first' };
    await putUsers(at('store'), [kim]);
    const client = open(kim);
    await client.appendToStream(stream, event(0));
    const subscription = client.subscribeToStream(stream, { fromRevision: START });
    await once(subscription, 'caughtUp');
    await putUsers(at('store'), [{ ...kim, password: 'second' }]);
    expect(await errorOf(all(client.readStream(stream)))).toBeInstanceOf(AccessDeniedError);
    const again = open({ ...kim, password: 'second' });
    await again.appendToStream(stream, event(1));
    removeUser(at('store'), 'kim');
    const ended = errorOf(once(subscription, 'never'));
    // The batched append of `again` is one call that is open still.
    expect(await errorOf(again.appendToStream(stream, event(2)))).toBeInstanceOf(AccessDeniedError);
    await open(DANA).appendToStream(stream, event(2));
    expect(await ended).toBeInstanceOf(AccessDeniedError);
  });

  it('cannot be had in other forms', async () => {
    const wanted: [Parameters<typeof putUsers>[1][number], RegExp][] = [
      [{ name: '$ops', password: 'x' }, /name of a user/],
      [{ name: 'a:b', password: 'x' }, /name of a user/],
      [{ name: '', password: 'x' }, /name of a user/],
      [{ name: 'a', password: '' }, /password of a user is 1 to 1024 bytes/],
      [{ name: 'a', password: 'x'.repeat(1025) }, /not 1025/],
      [{ name: 'a', password: 'x', groups: ['$all'] }, /"\$all" is no name of a group/],
    ];
    const before = listUsers(at('store'));
    for (const [user, reason] of wanted)
      expect(String(await errorOf(putUsers(at('store'), [user])))).toMatch(reason);
    expect(() => removeUser(at('store'), 'mallory')).toThrow('there is no user "mallory"');
    expect(listUsers(at('store'))).toEqual(before);
  });
});
