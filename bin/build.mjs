import { createHash, randomUUID } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const sources = ['apps', 'libs', 'projections', 'bench', 'tsconfig.base.json', 'tsconfig.build.json'];

/**
 * Brings `dist` up to the sources; says so on standard error. Two at once are safe: each compiles into a folder
 * of its own and puts it in place by renaming, so `dist` is never half written, and whoever comes second to an
 * equal build throws its own away. The name of a build is a digest over the sources' paths, sizes and times, so a
 * file that was removed or checked out again makes it stale as well.
 */
export function build() {
  const wanted = fingerprint();
  if (builtFrom() === wanted) return;
  process.stderr.write('waymark: building\n');
  const fresh = join(root, `dist.${randomUUID()}`);
  try {
    compile(fresh);
    writeFileSync(join(fresh, 'built-from'), wanted);
    if (builtFrom() !== wanted) replaceDist(fresh);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

function compile(folder) {
  // By path: which compiler `.bin/tsc` is depends on the order of installation.
  const compiler = join(root, 'node_modules/typescript7/bin/tsc');
  const args = [compiler, '-p', 'tsconfig.build.json', '--outDir', folder, '--incremental', 'false'];
  const { status, error } = spawnSync(process.execPath, [...args, '--tsBuildInfoFile', 'null'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
  });
  if (error) throw error;
  if (status !== 0) throw new Error(`the build failed (the compiler ended with ${status})`);
}

function replaceDist(fresh) {
  const dist = join(root, 'dist');
  const old = join(root, `dist.${randomUUID()}`);
  try {
    if (existsSync(dist)) renameSync(dist, old);
    renameSync(fresh, dist);
  } catch (error) {
    // Another start put its build in place between the two renames; it is judged like any other.
    if (builtFrom() === undefined) throw error;
  } finally {
    rmSync(old, { recursive: true, force: true });
  }
}

function builtFrom() {
  const stamp = join(root, 'dist', 'built-from');
  return existsSync(stamp) ? readFileSync(stamp, 'utf8') : undefined;
}

function fingerprint() {
  const hash = createHash('sha256');
  for (const path of sources.flatMap((name) => filesUnder(name))) {
    const { mtimeMs, size } = statSync(join(root, path));
    hash.update(`${path} ${size} ${mtimeMs}\n`);
  }
  return hash.digest('hex');
}

function filesUnder(path) {
  const full = join(root, path);
  if (!existsSync(full)) return [];
  if (!statSync(full).isDirectory()) return [path];
  return readdirSync(full, { recursive: true })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.spec.ts'))
    .map((name) => join(path, name))
    .sort();
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) build();
