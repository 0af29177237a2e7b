import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { program } from './program.js';

/** Seen from where the build puts this file. */
const about = new URL('../../../../package.json', import.meta.url);
const { version } = JSON.parse(readFileSync(about, 'utf8')) as { version: string };
await program(fileURLToPath(import.meta.url), version).parseAsync();
