import { rmSync } from 'node:fs';
import { MongoClient } from 'mongodb';
import { generate } from 'selfsigned';
import { startDocumentStore, type RunningDocumentStore } from '#libs/embedded/document-store';
import { realServer, temporaryFolder } from './target.js';

const embedded = realServer ? describe.skip : describe;

const users = [
  { name: 'admin', password: 'secret-admin', db: 'admin', roles: [{ role: 'root', db: 'admin' }] },
  { name: 'claims-writer', password: 'secret-w', db: 'claims', roles: [{ role: 'readWrite', db: 'claims' }] },
  { name: 'claims-reader', password: 'secret-r', db: 'claims', roles: [{ role: 'read', db: 'claims' }] },
];
const unauthorized = { code: 13, codeName: 'Unauthorized' };

embedded('users', () => {
  let folder: string;
  let store: RunningDocumentStore;
  const clients: MongoClient[] = [];
  beforeEach(async () => {
    folder = temporaryFolder();
    store = await startDocumentStore({ folder, port: 0, users });
  });
  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.close()));
    await store.close();
    rmSync(folder, { recursive: true });
  });

  async function as(username?: string, password = '', authSource = 'claims'): Promise<MongoClient> {
    const auth = username === undefined ? {} : { auth: { username, password }, authSource };
    const client = new MongoClient(store.url, { serverSelectionTimeoutMS: 3000, ...auth });
    clients.push(client);
    return client.connect();
  }

  it('are each let into their database, to read or to write', async () => {
    const writer = (await as('claims-writer', 'secret-w'))
      .db('claims')
      .collection<{ _id: number; n?: number }>('a');
    const reader = (await as('claims-reader', 'secret-r'))
      .db('claims')
      .collection<{ _id: number; n?: number }>('a');
    await writer.insertOne({ _id: 1 });
    await writer.createIndex({ n: 1 });
    expect(await reader.find().toArray()).toEqual([{ _id: 1 }]);
    expect(await reader.aggregate([{ $count: 'n' }]).toArray()).toEqual([{ n: 1 }]);
    await expect(reader.insertOne({ _id: 2 })).rejects.toMatchObject(unauthorized);
    await expect(reader.drop()).rejects.toMatchObject(unauthorized);
    await expect(reader.findOneAndUpdate({ _id: 1 }, { $set: { n: 1 } })).rejects.toMatchObject(unauthorized);
    expect(await reader.find().toArray()).toEqual([{ _id: 1 }]);
  });

  it('are kept out of every other database', async () => {
    const writer = await as('claims-writer', 'secret-w');
    const other = writer.db('profiles').collection('a');
    await expect(other.insertOne({ a: 1 })).rejects.toMatchObject(unauthorized);
    await expect(other.findOne()).rejects.toMatchObject(unauthorized);
    await expect(writer.db('claims').renameCollection('a', 'b')).rejects.toMatchObject({
      code: 26,
    });
    const move = { renameCollection: 'claims.a', to: 'profiles.a' };
    await expect(writer.db('admin').command(move)).rejects.toMatchObject(unauthorized);
    await expect(writer.db('claims').command({ createUser: 'x', pwd: 'y', roles: [] })).rejects.toMatchObject(
      unauthorized,
    );
    const admin = await as('admin', 'secret-admin', 'admin');
    expect(await admin.db('profiles').listCollections().toArray()).toEqual([]);
  });

  it('learn nothing of another database by asking how it would answer', async () => {
    const admin = await as('admin', 'secret-admin', 'admin');
    await admin.db('profiles').collection<{ _id: string }>('a').insertOne({ _id: 'secret' });
    const claims = (await as('claims-reader', 'secret-r')).db('claims');
    const inner = (database: string) => ({
      explain: { find: 'a', filter: { _id: 'secret' }, $db: database },
    });
    await expect(claims.command(inner('profiles'))).rejects.toMatchObject({
      code: 73,
      errmsg: 'Mismatched $db in explain command. Expected claims but got profiles',
    });
    expect(await claims.command(inner('claims'))).toMatchObject({
      queryPlanner: { namespace: 'claims.a', winningPlan: { stage: 'EOF' } },
    });
  });

  it('go on with and kill the cursors they opened, and no others', async () => {
    const admin = await as('admin', 'secret-admin', 'admin');
    await admin.db('claims').collection('a').insertMany([{}, {}, {}]);
    await admin.db('profiles').command({ createUser: 'reader', pwd: 'p', roles: ['read'] });
    const reader = (await as('claims-reader', 'secret-r')).db('claims');
    const writer = (await as('claims-writer', 'secret-w')).db('claims');
    const profiles = (await as('reader', 'p', 'profiles')).db('profiles');
    const { cursor } = await reader.command({ find: 'a', batchSize: 1 }, { useBigInt64: true });
    const { id } = cursor as { id: bigint };
    const kill = { killCursors: 'a', cursors: [id] };
    for (const [db, command] of [
      [profiles, kill],
      [writer, kill],
      [reader, { ...kill, killCursors: 'b' }],
    ] as const)
      expect(await db.command(command, { useBigInt64: true })).toMatchObject({
        cursorsKilled: [],
        cursorsNotFound: [id],
      });
    await expect(writer.command({ getMore: id, collection: 'a' })).rejects.toMatchObject(unauthorized);
    expect(await reader.command({ getMore: id, collection: 'a', batchSize: 1 })).toMatchObject({ ok: 1 });
    expect(await reader.command(kill, { useBigInt64: true })).toMatchObject({
      cursorsKilled: [id],
      cursorsNotFound: [],
    });
  });

  it('are asked for their password, and nobody comes in without', async () => {
    const refusal = { code: 18, codeName: 'AuthenticationFailed' };
    await expect(as('claims-writer', 'wrong')).rejects.toMatchObject(refusal);
    await expect(as('nobody', 'secret-w')).rejects.toMatchObject(refusal);
    await expect(as('claims-writer', 'secret-w', 'other')).rejects.toMatchObject(refusal);
    const nobody = await as();
    expect(await nobody.db('admin').command({ ping: 1 })).toMatchObject({ ok: 1 });
    await expect(nobody.db('claims').collection('a').findOne()).rejects.toMatchObject(unauthorized);
    await expect(nobody.db('admin').command({ createUser: 'x', pwd: 'y', roles: [] })).rejects.toMatchObject(
      unauthorized,
    );
  });

  it('are made, changed, granted and dropped by an administrator, at once for open connections', async () => {
    const claims = (await as('admin', 'secret-admin', 'admin')).db('claims');
    await claims.command({ createUser: 'third', pwd: 'p', roles: ['read'] });
    await expect(claims.command({ createUser: 'third', pwd: 'p', roles: [] })).rejects.toMatchObject({
      code: 51003,
    });
    await expect(claims.command({ createUser: 'x', pwd: 'p', roles: ['dbOwner'] })).rejects.toMatchObject({
      code: 238,
    });
    const third = (await as('third', 'p')).db('claims').collection('a');
    await expect(third.insertOne({})).rejects.toMatchObject(unauthorized);
    await claims.command({ grantRolesToUser: 'third', roles: ['readWrite'] });
    expect(await third.insertOne({})).toMatchObject({ acknowledged: true });
    expect(await claims.command({ usersInfo: 'third' })).toMatchObject({
      users: [
        {
          user: 'third',
          db: 'claims',
          roles: [
            { role: 'read', db: 'claims' },
            { role: 'readWrite', db: 'claims' },
          ],
        },
      ],
    });
    await claims.command({ updateUser: 'third', pwd: 'q' });
    await expect(as('third', 'p')).rejects.toMatchObject({ code: 18 });
    await claims.command({ dropUser: 'third' });
    await expect(third.insertOne({})).rejects.toMatchObject(unauthorized);
    await expect(claims.command({ dropUser: 'third' })).rejects.toMatchObject({ code: 11 });
  });

  it('are still there when the folder is opened again', async () => {
    await store.close();
    store = await startDocumentStore({ folder, port: 0 });
    await expect((await as()).db('claims').collection('a').findOne()).rejects.toMatchObject(unauthorized);
    expect(await (await as('claims-reader', 'secret-r')).db('claims').collection('a').findOne()).toBeNull();
  });
});

embedded('beyond loopback', () => {
  let folder: string;
  let store: RunningDocumentStore | undefined;
  const clients: MongoClient[] = [];
  beforeEach(() => {
    folder = temporaryFolder();
  });
  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.close()));
    await store?.close();
    store = undefined;
    rmSync(folder, { recursive: true });
  });

  function client(port: number, auth: object = {}): MongoClient {
    const made = new MongoClient(`mongodb://127.0.0.1:${port}/?directConnection=true&tls=true`, {
      tlsAllowInvalidCertificates: true,
      serverSelectionTimeoutMS: 3000,
      ...auth,
    });
    clients.push(made);
    return made;
  }

  async function exposed() {
    const { cert, private: key } = await generate([{ name: 'commonName', value: 'localhost' }]);
    return { folder, host: '0.0.0.0', port: 0, tls: { cert, key } };
  }

  it('TLS and users are needed, and TLS is spoken', async () => {
    await expect(startDocumentStore({ folder, host: '0.0.0.0', port: 0 })).rejects.toThrow('TLS is needed');
    const open = await exposed();
    await expect(startDocumentStore(open)).rejects.toThrow('users are needed');
    store = await startDocumentStore({ ...open, users });
    const auth = { username: 'claims-reader', password: 'secret-r' };
    const reader = client(store.port, { auth, authSource: 'claims' });
    expect(await reader.db('claims').collection('a').findOne()).toBeNull();
  });

  it('the last user stays, so that the store never opens to everybody', async () => {
    store = await startDocumentStore({ ...(await exposed()), users });
    const auth = { username: 'admin', password: 'secret-admin' };
    const admin = client(store.port, { auth, authSource: 'admin' });
    await admin.db('claims').command({ dropUser: 'claims-writer' });
    await admin.db('claims').command({ dropUser: 'claims-reader' });
    await expect(admin.db('admin').command({ dropUser: 'admin' })).rejects.toMatchObject({ code: 20 });
    await expect(client(store.port).db('claims').collection('a').findOne()).rejects.toMatchObject(
      unauthorized,
    );
  });
});
