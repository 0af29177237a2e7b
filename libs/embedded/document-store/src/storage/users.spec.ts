import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serialize, type Document } from 'bson';
import { documentValue } from '../bson/values.js';
import { dispatch } from '../commands/dispatch.js';
import { Engine, type Peer, type Reply } from '../engine.js';

let engine: Engine;
let folder: string;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-users-'));
  engine = await Engine.open(folder, (notice) => process.stderr.write(`${notice}\n`));
});
afterEach(async () => {
  jest.restoreAllMocks();
  await engine.close();
  rmSync(folder, { recursive: true });
});

const stranger: Peer = { address: '127.0.0.1', port: 1, transactions: new Set() };
const root: Peer = { ...stranger, user: { db: 'admin', name: 'root' } };

const command = (document: Document, peer: Peer = root): Promise<Reply> =>
  dispatch(engine, peer, documentValue(Buffer.from(serialize({ ...document, $db: 'admin' }))));

const create = (name: string, roles: string[] = ['root']): Document => ({
  createUser: name,
  pwd: 'p',
  roles,
});
const isRefused = expect.objectContaining({ code: 13 }) as unknown;
const rolesOf = (name: string): string[] | undefined =>
  engine.users.get('admin', name)?.roles.map(({ role }) => role);

describe('a change of users', () => {
  const full = Object.assign(new Error('No space left on device'), { code: 28 });

  /** Runs a command up to its commit, which goes on when `commit` is called. */
  async function heldAtCommit(document: Document): Promise<{ commit: () => void; done: Promise<Reply> }> {
    const toDisk = engine.storage.commit.bind(engine.storage);
    let commit: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (commit = resolve));
    let done: Promise<Reply> | undefined;
    await new Promise<void>((reached) => {
      jest.spyOn(engine.storage, 'commit').mockImplementationOnce((layer) => {
        reached();
        return held.then(() => toDisk(layer));
      });
      done = command(document);
    });
    return { commit, done: done as unknown as Promise<Reply> };
  }

  it('counts once it is on disk, and before it is answered', async () => {
    const made = await heldAtCommit(create('root'));
    expect(engine.users.isEmpty).toBe(true);
    made.commit();
    await made.done;
    expect(rolesOf('root')).toEqual(['root']);
    const gone = await heldAtCommit({ dropUser: 'root' });
    await expect(command({ usersInfo: 1 }, stranger)).rejects.toEqual(isRefused);
    gone.commit();
    await gone.done;
    expect(engine.users.isEmpty).toBe(true);
  });

  it('whose commit fails leaves everybody what they were', async () => {
    await command(create('root'));
    for (const change of [
      create('other'),
      { grantRolesToUser: 'root', roles: ['read'] },
      { dropUser: 'root' },
    ]) {
      jest.spyOn(engine.storage, 'commit').mockRejectedValueOnce(full);
      await expect(command(change)).rejects.toMatchObject({ code: 14031 });
      expect(rolesOf('other')).toBeUndefined();
      expect(rolesOf('root')).toEqual(['root']);
      await expect(command({ usersInfo: 1 }, stranger)).rejects.toEqual(isRefused);
    }
  });
});

describe('changes of one user at once', () => {
  it('make it once', async () => {
    const makes = await Promise.allSettled([command(create('root')), command(create('root', ['read']))]);
    expect(makes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(makes.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { code: 51003 } });
  });

  it('add up, and none brings a dropped user back', async () => {
    await command(create('root'));
    await command(create('other', []));
    const grant = (role: string): Document => ({ grantRolesToUser: 'other', roles: [role] });
    await Promise.all([command(grant('read')), command(grant('readWrite'))]);
    expect(rolesOf('other')).toEqual(['read', 'readWrite']);
    const late = [
      { dropUser: 'other' },
      grant('dbAdmin'),
      { updateUser: 'other', pwd: 'q' },
      { dropUser: 'other' },
    ];
    const answers = await Promise.allSettled(late.map((change) => command(change)));
    const refused = { status: 'rejected', reason: { code: 11 } };
    expect(answers).toMatchObject([{ status: 'fulfilled' }, refused, refused, refused]);
    expect(rolesOf('other')).toBeUndefined();
  });
});

describe('the last user', () => {
  it('of a store that needs one stays, whichever of two drops comes second', async () => {
    await command(create('root'));
    await command(create('other'));
    engine.users.required = true;
    const drops = await Promise.allSettled(['other', 'root'].map((name) => command({ dropUser: name })));
    expect(drops).toMatchObject([{ status: 'fulfilled' }, { status: 'rejected', reason: { code: 20 } }]);
    expect([rolesOf('other'), rolesOf('root')]).toEqual([undefined, ['root']]);
  });
});
