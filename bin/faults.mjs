import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { build } from './build.mjs';

/** `npm run faults -- ROOM …`: the long form of the fault tests, of all rooms when none is named. */
const engines = ['document-store', 'event-store'];
const roomOf = (file) => engines.find((engine) => file.startsWith(`${engine}.`)) ?? 'waymark';

const wanted = process.argv.slice(2);
const files = readdirSync('test/faults').filter((file) => file.endsWith('.spec.ts'));
const rooms = [...new Set(files.map(roomOf))];
const unknown = wanted.find((room) => !rooms.includes(room));
if (unknown) {
  console.error(`npm run faults -- [ROOM …], where ROOM is one of: ${rooms.join(', ')}`);
  process.exit(2);
}
build();
const chosen = files.filter((file) => wanted.length === 0 || wanted.includes(roomOf(file)));
const paths = chosen.map((file) => join('test/faults', file));
const { status } = spawnSync(
  process.execPath,
  ['--max-old-space-size=4096', 'node_modules/jest/bin/jest.js', '--runTestsByPath', ...paths],
  { env: { ...process.env, WAYMARK_FAULTS: 'full' }, stdio: 'inherit' },
);
process.exitCode = status ?? 1;
