import { readFileSync } from 'node:fs';
import { claimEvents } from '#libs/domain/claims';
import { profileEvents } from '#libs/domain/profiles';
import { runEvents } from '#libs/domain/runs';
import { staffEvents } from '#libs/domain/staff';
import { eventsPage } from './events-page.js';

describe('docs/events.md', () => {
  const page = eventsPage();

  it('is what the schemas say; `npm run docs:events` writes it', () => {
    expect(readFileSync('docs/events.md', 'utf8')).toBe(page);
  });

  const types = Object.keys({ ...runEvents, ...claimEvents, ...staffEvents, ...profileEvents });

  it.each(types)('says what %s means', (type) => {
    expect(page).toMatch(new RegExp(`^### ${type}\n\n[A-Z].+\\.\n\n\\| field`, 'm'));
  });

  it('names what is sealed, what may be absent and what a value may be', () => {
    const line = (field: string) => page.split('\n').find((text) => text.startsWith(`| \`${field}\``)) ?? '';
    const cells = (field: string) =>
      line(field)
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim())
        .slice(1, -1);
    expect(cells('summary')).toEqual(['`summary`', 'text, 0 to 4000 characters', 'sealed (run)']);
    expect(cells('input?')).toEqual(['`input?`', 'any JSON', 'sealed (run)']);
    expect(cells('requires.signatures')).toEqual(['`requires.signatures`', '`1`, `2`', 'plain']);
    expect(cells('customer?.actFor')[1]).toBe('list of: text, 1 to 200 characters');
    expect(cells('requires.authority')[2]).toBe('sealed (run)');
  });
});
