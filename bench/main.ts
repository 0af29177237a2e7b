import { commands } from './commands.js';
import { documentStore } from './document-store.js';
import { eventStore } from './event-store.js';

const benches: Record<string, () => Promise<boolean>> = {
  commands,
  'document-store': documentStore,
  'event-store': eventStore,
};

const name = process.argv[2] ?? '';
const bench = benches[name];
if (!bench) {
  console.error(`npm run bench -- NAME, where NAME is one of: ${Object.keys(benches).join(', ')}`);
  process.exitCode = 2;
} else {
  process.exitCode = (await bench()) ? 0 : 1;
}
