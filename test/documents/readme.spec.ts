import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { settings } from '#apps/settings';

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

  it('the README lists every setting with its default, in the order of the schema', () => {
    const rows = [...read('README.md').matchAll(/^\| `([A-Z_]+)` +\| (.*?) +\| (.*?) +\|$/gm)];
    const described = Object.entries(settings.shape).map(([name, schema]) => [
      name,
      defaultOf(schema.safeParse(undefined).data),
      schema.description,
    ]);
    expect(rows.map(([, name, standard, text]) => [name, standard, text])).toEqual(described);
  });
});

function defaultOf(value: unknown): string {
  if (value === undefined) return '';
  if (typeof value === 'object' && value !== null) return `\`${Object.values(value).join(' ')}\``;
  return `\`${JSON.stringify(value).replaceAll(`"`, ``)}\``;
}

function markdownUnder(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.md'))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .sort();
}
