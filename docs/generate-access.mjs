import { writeFileSync } from 'node:fs';
import { ApiModule, accessPage, declaredRoutes } from '../dist/apps/api/src/index.js';

writeFileSync(new URL('access.md', import.meta.url), accessPage(declaredRoutes(ApiModule)));
