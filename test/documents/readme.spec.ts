import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

const root = resolve(__dirname, '../..');
const read = (file: string) => readFileSync(join(root, file), 'utf8');

describe('the documents', () => {
  const documents = ['README.md', 'CHANGELOG.md', ...markdownUnder('docs')];

  it.each(documents)('%s: every relative link leads somewhere', (file) => {
    const links = [...read(file).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
    const broken = links
      .filter((target) => !/^(https?:|#)/.test(target))
      .filter((target) => !existsSync(join(root, dirname(file), target.replace(/#.*$/, ''))));
    expect(broken).toEqual([]);
  });
});

function markdownUnder(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.md'))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .sort();
}
