import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MongoClient } from 'mongodb';
import { databases, StoreUsers } from '#apps/settings';
import { startDocumentStore } from '#libs/embedded/document-store';
import { ReadModels } from '#libs/projecting';

interface Planted {
  _id: string;
  by: string;
}

const unauthorized = { code: 13, codeName: 'Unauthorized' };

describe('a database', () => {
  let folder: string;
  let models: ReadModels;
  let users: StoreUsers;
  let url: string;
  let stop: () => Promise<void>;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'waymark-owners-'));
    const file = join(folder, 'users.json');
    users = await StoreUsers.ensure(file);
    const store = await startDocumentStore({ folder: join(folder, 'documents'), port: 0, users: users.all });
    url = store.url;
    models = await ReadModels.connect({
      url,
      credentials: (database, access) => users.credentials(database, access),
    });
    stop = async () => {
      await models.close();
      await store.close();
    };
  });
  afterAll(async () => {
    await stop();
    await rm(folder, { recursive: true });
  });

  it('is written by its writer and read by its reader', async () => {
    for (const name of databases) {
      const written = models.openReadModel(name).collection<Planted>('planted');
      const read = models.openReadModel(name, 'reader').collection<Planted>('planted');
      await written.insertOne({ _id: 'own', by: name });
      expect(await read.find().toArray()).toEqual([{ _id: 'own', by: name }]);
      await expect(read.insertOne({ _id: 'read', by: name })).rejects.toMatchObject(unauthorized);
    }
  });

  it('is closed to the writer and the reader of every other one', async () => {
    for (const { name: username, password, db } of users.all) {
      const client = new MongoClient(url, { auth: { username, password }, authSource: db });
      const other = client.db(databases.find((name) => name !== db)).collection<Planted>('planted');
      await expect(other.insertOne({ _id: 'planted', by: username })).rejects.toMatchObject(unauthorized);
      await expect(other.findOne()).rejects.toMatchObject(unauthorized);
      await client.close();
    }
  });

  it('is closed to whoever has no credential, and one without an owner is not opened', async () => {
    const client = new MongoClient(url);
    await expect(client.db('leases').collection('planted').findOne()).rejects.toMatchObject(unauthorized);
    await client.close();
    expect(() => models.openReadModel('nobodys')).toThrow('nobodys-writer');
  });

  it('has its passwords in a file that only its owner reads, and keeps them', async () => {
    const file = join(folder, 'users.json');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await StoreUsers.ensure(file)).all).toEqual(users.all);
  });
});
