import { writeFileSync } from 'node:fs';
import { eventsPage } from '../dist/libs/domain/reference/src/index.js';

writeFileSync(new URL('events.md', import.meta.url), eventsPage());
