import { createHash } from 'node:crypto';
import { chmod, mkdtemp, readFile, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import type { Json } from '#libs/canonical';
import { Unopenable, Vault, isSealed, openFields, sealFields, sealedFor } from './index.js';

const ana = '3f1a4c1e-0b55-4f0e-9a55-0a7d5a1f0001';
const ben = '3f1a4c1e-0b55-4f0e-9a55-0a7d5a1f0002';

let folder: string;
let vault: Vault;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waymark-vault-'));
  vault = await Vault.open({ folder });
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const filesOf = async (path: string) =>
  (await readdir(path, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

const codeOf = (open: () => unknown) => {
  try {
    open();
  } catch (error) {
    return error instanceof Unopenable ? error.code : String(error);
  }
  return 'opened';
};

describe('sealing', () => {
  it('opens what was sealed, whatever it was', async () => {
    const keys = await vault.person('acme', ana, { create: ['run'] });
    fc.assert(
      fc.property(fc.jsonValue(), fc.string(), (value, place) => {
        const json = JSON.parse(JSON.stringify(value)) as Json;
        expect(keys.open(keys.seal('run', json, place), place)).toEqual(json);
      }),
      { numRuns: 50 },
    );
  });

  it('seals the same value to different bytes', async () => {
    const keys = await vault.person('acme', ana, { create: ['run'] });
    expect(keys.seal('run', 'same', 'p').box).not.toBe(keys.seal('run', 'same', 'p').box);
  });

  it('opens at no other place, with no changed byte, by no other key', async () => {
    const keys = await vault.person('acme', ana, { create: ['run', 'claim'] });
    const others = await vault.person('acme', ben, { create: ['run'] });
    const sealed = keys.seal('run', { name: 'Ana' }, 'here');
    expect(codeOf(() => keys.open(sealed, 'there'))).toBe('altered');
    const { key: claimKey } = keys.seal('claim', 1, 'here');
    const { key: bensKey } = others.seal('run', 1, 'here');
    expect(codeOf(() => keys.open({ ...sealed, key: claimKey }, 'here'))).toBe('altered');
    expect(codeOf(() => others.open(sealed, 'here'))).toBe('foreign-key');
    expect(codeOf(() => others.open({ ...sealed, key: bensKey }, 'here'))).toBe('altered');
    const bytes = Buffer.from(sealed.box, 'base64url');
    bytes.forEach((byte, index) => {
      const changed = Buffer.from(bytes);
      changed[index] = byte ^ 1;
      expect(codeOf(() => keys.open({ ...sealed, box: changed.toString('base64url') }, 'here'))).toBe(
        'altered',
      );
    });
    expect(codeOf(() => keys.open({ ...sealed, box: '' }, 'here'))).toBe('altered');
  });

  it('says that a key is missing, and makes none by itself', async () => {
    const keys = await vault.person('acme', ana);
    expect(() => keys.seal('run', 1, 'p')).toThrow(`no run key for ${ana}`);
    const sealed = { sealed: 'v1', key: `run/${ana}/00000000`, box: 'AAAA' } as const;
    expect(codeOf(() => keys.open(sealed, 'p'))).toBe('missing-key');
    expect((await filesOf(folder)).map((file) => file.slice(folder.length))).toEqual(['/master.key']);
  });

  it('tells a key that was replaced from a value that was altered', async () => {
    const sealed = (await vault.person('acme', ana, { create: ['run'] })).seal('run', 'x', 'p');
    await rm(join(folder, 'people', 'acme', `${ana}.run.key`));
    const fresh = await (await Vault.open({ folder })).person('acme', ana, { create: ['run'] });
    expect(codeOf(() => fresh.open(sealed, 'p'))).toBe('missing-key');
    expect(fresh.seal('run', 'x', 'p').key).toMatch(new RegExp(`^run/${ana}/[0-9a-f]{8}$`));
    expect(fresh.seal('run', 'x', 'p').key).not.toBe(sealed.key);
  });

  it('tells the length of a value to 32 bytes', async () => {
    const keys = await vault.person('acme', ana, { create: ['run'] });
    const boxBytes = (value: Json) => Buffer.from(keys.seal('run', value, 'p').box, 'base64url').length;
    expect([null, true, 'x'.repeat(30), 'é'.repeat(15)].map(boxBytes)).toEqual([60, 60, 60, 60]);
    expect(['x'.repeat(31), 'é'.repeat(16)].map(boxBytes)).toEqual([92, 92]);
  });

  it('digests under keys of a person and kind, apart from what seals', async () => {
    const keys = await vault.person('acme', ana, { create: ['run', 'claim'] });
    const others = await vault.person('acme', ben, { create: ['run'] });
    const digests = [
      keys.hmac('run', 'a', 'x'),
      keys.hmac('run', 'b', 'x'),
      keys.hmac('run', 'a', 'y'),
      keys.hmac('claim', 'a', 'x'),
      others.hmac('run', 'a', 'x'),
    ];
    expect(new Set(digests).size).toBe(5);
    const again = await (await Vault.open({ folder })).person('acme', ana);
    expect(again.hmac('run', 'a', 'x')).toBe(digests[0]);
    expect(() => others.hmac('claim', 'a', 'x')).toThrow(`no claim key for ${ben}`);
  });

  it('seals the personal fields of an object and nothing else', async () => {
    const keys = await vault.person('acme', ana, { create: ['run', 'claim'] });
    const value: { [key: string]: Json } = {
      runId: 'r1',
      note: 'MARKER note',
      people: [{ name: 'MARKER one', age: 1 }, { age: 2 }, { name: 'MARKER two', age: 3 }],
      forged: { sealed: 'v1', key: `run/${ben}`, box: 'MARKER' },
    };
    const fields = [
      { path: ['note'], kind: 'run' },
      { path: ['people', '*', 'name'], kind: 'claim' },
      { path: ['forged'], kind: 'run' },
      { path: ['absent', 'deep'], kind: 'run' },
    ] as const;
    const before = structuredClone(value);
    const sealed = sealFields(value, fields, keys, 'run-acme.r1/e1');
    expect(value).toEqual(before);
    expect(JSON.stringify(sealed)).not.toContain('MARKER');
    expect(sealed).toMatchObject({ runId: 'r1', people: [{ age: 1 }, { age: 2 }, { age: 3 }] });
    expect(isSealed(sealed['note'])).toBe(true);
    expect(sealedFor(sealed, fields)).toBe(ana);
    expect(openFields(sealed, fields, keys, 'run-acme.r1/e1')).toEqual(value);
    expect(await vault.openFields('acme', sealed, fields, 'run-acme.r1/e1')).toEqual(value);
    expect(await vault.openAll('acme', sealed, 'run-acme.r1/e1')).toEqual(value);
    await expect(vault.openAll('acme', sealed, 'run-acme.r1/e2')).rejects.toThrow(
      'cannot open the sealed value at run-acme.r1/e2/note: altered',
    );
    expect(codeOf(() => openFields(sealed, fields, keys, 'run-acme.r1/e2'))).toBe('altered');
    const [one, two, three] = sealed['people'] as [Json, Json, Json];
    const swapped = { ...sealed, people: [three, two, one] };
    expect(codeOf(() => openFields(swapped, fields, keys, 'run-acme.r1/e1'))).toBe('altered');
  });
});

describe('key files', () => {
  it('are readable by their owner alone, and hold no key in the clear', async () => {
    await vault.person('acme', ana, { create: ['run'] });
    await vault.tenant('acme');
    const { privateJwk } = await vault.signingKeys();
    const files = await filesOf(folder);
    expect(files.map((file) => file.slice(folder.length + 1)).sort()).toEqual([
      'master.key',
      `people/acme/${ana}.run.key`,
      'signing.key',
      'tenants/acme.key',
    ]);
    for (const file of files) {
      expect((await stat(file)).mode & 0o777).toBe(0o600);
      expect(await readFile(file, 'utf8')).not.toContain(privateJwk.d);
    }
  });

  it('give the same keys to another process, and one key to two that are first at once', async () => {
    const other = await Vault.open({ folder });
    const [mine, theirs] = await Promise.all(
      [vault, other].map((each) => each.person('acme', ana, { create: ['run', 'claim'] })),
    );
    expect(theirs!.open(mine!.seal('claim', 'x', 'p'), 'p')).toBe('x');
    expect(await other.signingKeys()).toEqual(await vault.signingKeys());
    const digests = await Promise.all(
      [vault, other].map(async (v) => (await v.tenant('acme')).hmac('body', 'x')),
    );
    expect(digests[0]).toBe(digests[1]);
    expect(digests[0]).toMatch(/^[0-9a-f]{64}$/);
  });

  it('finds a key that another process made later', async () => {
    const keys = await vault.person('acme', ana);
    expect(keys.has('run')).toBe(false);
    const theirs = await (await Vault.open({ folder })).person('acme', ana, { create: ['run'] });
    expect(keys.open(theirs.seal('run', 1, 'p'), 'p')).toBe(1);
  });

  it('makes one master key when several start at once', async () => {
    const fresh = join(folder, 'fresh');
    const vaults = await Promise.all(Array.from({ length: 8 }, () => Vault.open({ folder: fresh })));
    const kids = await Promise.all(vaults.map(async (each) => (await each.signingKeys()).kid));
    expect(new Set(kids).size).toBe(1);
  });

  it('removes what killed processes left half made, and nothing else', async () => {
    await vault.tenant('acme');
    const files = await filesOf(folder);
    const left = (name: string) => writeFile(join(folder, 'tmp', name), 'waymark-key-v1 AAAA\n');
    const [ended, old, present] = [`4194305.a`, `${process.pid}.b`, `${process.pid}.c`];
    await Promise.all([ended, old, present].map(left));
    const before = new Date(Date.now() - 61_000);
    await utimes(join(folder, 'tmp', old), before, before);
    await Vault.open({ folder });
    expect(await readdir(join(folder, 'tmp'))).toEqual([present]);
    await rm(join(folder, 'tmp', present));
    expect((await filesOf(folder)).sort()).toEqual(files.sort());
  });

  it('are those of the master key that is expected, or none', async () => {
    expect((await Vault.open({ folder, id: vault.id })).id).toBe(vault.id);
    const other = (await Vault.open({ folder: join(folder, 'other') })).id;
    await expect(Vault.open({ folder, id: other })).rejects.toThrow(
      'master.key is another one than these data were sealed with',
    );
    const gone = join(folder, 'gone');
    await expect(Vault.open({ folder: gone, id: other })).rejects.toThrow('master.key is missing: restore');
    expect(await readdir(folder)).not.toContain('gone');
  });

  it('derives ids that nobody without the key can find', async () => {
    const [acme, zeta] = await Promise.all([vault.tenant('acme'), vault.tenant('zeta')]);
    const ids = [acme.id('a', 'bc'), acme.id('ab', 'c'), acme.id('a', 'b', 'c'), zeta.id('a', 'bc')];
    expect(new Set(ids).size).toBe(4);
    expect(ids[0]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect((await (await Vault.open({ folder })).tenant('acme')).id('a', 'bc')).toBe(ids[0]);
  });

  it('keeps tenants and purposes apart', async () => {
    const [acme, zeta] = await Promise.all([vault.tenant('acme'), vault.tenant('zeta')]);
    const digests = [acme.hmac('a', 'x'), acme.hmac('b', 'x'), zeta.hmac('a', 'x'), acme.hmac('a', 'y')];
    expect(new Set(digests).size).toBe(4);
    expect(digests).not.toContain(createHash('sha256').update('x').digest('hex'));
  });

  it.each([
    ['damaged', (text: string) => text.replace(/.{20}(?= )/, 'A'.repeat(20))],
    ['cut', (text: string) => text.slice(0, 30)],
    ['foreign', () => '-----BEGIN PRIVATE KEY-----'],
  ])('refuses a %s master key, naming the file', async (_name, change) => {
    const path = join(folder, 'master.key');
    await writeFile(path, change(await readFile(path, 'utf8')));
    await expect(Vault.open({ folder })).rejects.toThrow(
      `${path} is not a Waymark master key, or is damaged: restore it from its backup`,
    );
  });

  it('refuses to make a new master key beside keys that the lost one wrapped', async () => {
    await vault.tenant('acme');
    await rm(join(folder, 'master.key'));
    await expect(Vault.open({ folder })).rejects.toThrow('master.key is missing, but');
  });

  it('refuses a key file that was damaged or swapped for another', async () => {
    await vault.person('acme', ana, { create: ['run'] });
    await vault.person('acme', ben, { create: ['run'] });
    const path = (id: string) => join(folder, 'people', 'acme', `${id}.run.key`);
    await chmod(path(ana), 0o600);
    await writeFile(path(ana), await readFile(path(ben), 'utf8'));
    const fresh = await (await Vault.open({ folder })).person('acme', ana);
    expect(() => fresh.has('run')).toThrow(`${path(ana)} is damaged, or was made with another master.key`);
  });

  it('refuses names that could leave the folder', async () => {
    for (const id of ['../x', '', '-', 'a/b', 'a.b'])
      await expect(vault.person('acme', id, { create: ['run'] })).rejects.toThrow('not a name for keys');
    await expect(vault.tenant('..')).rejects.toThrow('not a name for keys');
  });
});
