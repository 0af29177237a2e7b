import { fileURLToPath } from 'node:url';
import { program } from './program.js';

await program(fileURLToPath(import.meta.url)).parseAsync();
