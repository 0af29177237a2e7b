import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { promisedPage } from '#libs/embedded/document-store';

/** Without what formatting adds. */
const plain = (page: string): string => page.replace(/[ -]+/g, '').replace(/\n/g, ' ').trim();

it('the page of what the document store promises is what its registries say', () => {
  const page = readFileSync(resolve(__dirname, '../../docs/embedded-document-store.md'), 'utf8');
  expect(plain(page)).toBe(plain(promisedPage()));
});
