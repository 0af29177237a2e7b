import { writeFileSync } from 'node:fs';
import { configurationPage } from '../dist/apps/settings/src/index.js';

writeFileSync(new URL('configuration.md', import.meta.url), configurationPage());
