import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Vault } from '#libs/vault';
import { claim, needDataFolder, openDataFolder } from './data-folder.js';
import { CannotStart } from './failures.js';

describe('the data folder', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'waymark-folder-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('is made and marked, and opened again', async () => {
    const inner = join(folder, 'a', 'b');
    await openDataFolder(inner);
    await openDataFolder(inner);
    expect((await readdir(inner)).sort()).toEqual(['keys', 'waymark.json']);
    const { id } = await Vault.open({ folder: join(inner, 'keys') });
    expect(JSON.parse(await readFile(join(inner, 'waymark.json'), 'utf8'))).toEqual({ format: 1, keys: id });
  });

  it('is refused untouched when its keys are gone, or others', async () => {
    await openDataFolder(folder);
    const keys = join(folder, 'keys');
    await rm(keys, { recursive: true });
    await expect(openDataFolder(folder)).rejects.toThrow(
      new CannotStart(
        `the keys of the data folder ${folder} cannot be used: ` +
          `${join(keys, 'master.key')} is missing: restore the folder of keys from its backup`,
      ),
    );
    expect(await readdir(folder)).toEqual(['waymark.json']);
    await Vault.open({ folder: keys });
    await expect(openDataFolder(folder)).rejects.toThrow('is another one than these data were sealed with');
  });

  it('is refused untouched when it holds something else', async () => {
    await writeFile(join(folder, 'thesis.txt'), 'x');
    await expect(openDataFolder(folder)).rejects.toThrow(/holds something else \(thesis.txt\).*WAYMARK_DATA/);
    expect(await readdir(folder)).toEqual(['thesis.txt']);
  });

  it.each(['{"format":2}', '{', ''])('is refused when its marker says %s', async (marker) => {
    await writeFile(join(folder, 'waymark.json'), marker);
    await expect(openDataFolder(folder)).rejects.toThrow(/has format .*; this version of Waymark reads 1/);
  });

  it('is refused in one line where it cannot be made', async () => {
    const [file, link] = [join(folder, 'file'), join(folder, 'link')];
    await writeFile(file, '');
    await symlink(join(folder, 'gone'), link);
    const cannot = async (path: string, why: string) =>
      expect(openDataFolder(path)).rejects.toThrow(
        `the data folder ${path} cannot be used: ${why}; mend that, or name another in WAYMARK_DATA`,
      );
    await cannot(join(file, 'data'), 'a part of the path is not a folder (ENOTDIR)');
    await cannot(link, 'it does not exist, or is a link that leads nowhere (ENOENT)');
    if (process.platform !== 'linux') return;
    await cannot('/proc/waymark', 'it does not exist, or is a link that leads nowhere (ENOENT)');
    await cannot('/proc/waymark/data', 'it does not exist, or is a link that leads nowhere (ENOENT)');
  });

  it('is needed, and not made, by what works on one that is there', async () => {
    for (const path of [folder, join(folder, 'none')])
      await expect(needDataFolder(path)).rejects.toThrow(
        `no data folder at ${path}: start the server first, or set WAYMARK_DATA`,
      );
    expect(await readdir(folder)).toEqual([]);
    await openDataFolder(folder);
    await needDataFolder(folder);
  });

  it('can be opened by many at once', async () => {
    await Promise.all(Array.from({ length: 20 }, () => openDataFolder(folder)));
    expect((await readdir(folder)).sort()).toEqual(['keys', 'waymark.json']);
  });
});

describe('a claim on the data folder', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'waymark-claim-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('is held by one, and free after its release', async () => {
    const first = await claim(folder, 'server');
    await expect(claim(folder, 'server')).rejects.toThrow(`is in use by process ${process.pid}`);
    await (await claim(folder, 'event-store')).release();
    await first.release();
    await (await claim(folder, 'server')).release();
  });

  it('is won by exactly one of many, also when the owner before was killed', async () => {
    await (await claim(folder, 'server')).release();
    for (let round = 0; round < 20; round++) {
      await abandonedBy(await endedProcess());
      const outcomes = await Promise.allSettled(Array.from({ length: 8 }, () => claim(folder, 'server')));
      const won = outcomes.filter((outcome) => outcome.status === 'fulfilled');
      expect(won).toHaveLength(1);
      await won[0]?.value.release();
    }
  });

  it('does not take a new process with an old id for the owner', async () => {
    await (await claim(folder, 'server')).release();
    await abandonedBy({ pid: process.pid, began: 'another boot/1' });
    await (await claim(folder, 'server')).release();
  });

  async function abandonedBy(owner: object): Promise<void> {
    const [name = ''] = await readdir(join(folder, 'locks'));
    await writeFile(join(folder, 'locks', name), JSON.stringify(owner));
  }
});

let ended: Promise<{ pid: number; began: string }> | undefined;
function endedProcess() {
  ended ??= (async () => {
    const child = spawn(process.execPath, ['-e', '']);
    await once(child, 'exit');
    return { pid: child.pid ?? 0, began: 'before/1' };
  })();
  return ended;
}
