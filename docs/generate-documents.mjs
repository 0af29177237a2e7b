import { writeFileSync } from 'node:fs';
import { format, resolveConfig } from 'prettier';
import { promisedPage } from '../dist/libs/embedded/document-store/src/index.js';

const page = new URL('embedded-document-store.md', import.meta.url);
const options = await resolveConfig(page.pathname);
writeFileSync(page, await format(promisedPage(), { ...options, parser: 'markdown' }));
