import { readFileSync } from 'node:fs';
import { configurationPage, settings } from './index.js';

describe('docs/configuration.md', () => {
  const page = configurationPage();

  it('is what the schema says; `npm run docs:configuration` writes it', () => {
    expect(readFileSync('docs/configuration.md', 'utf8')).toBe(page);
  });

  it.each(Object.keys(settings.shape))('says what %s may be, and what it is for', (name) => {
    const row = page.split('\n').find((line) => line.startsWith(`| \`${name}\``));
    expect(row).toMatch(/^\| `[A-Z_]+` +\| (`.+`)? +\| \S.*\S +\| [A-Z].+\. +\|$/);
  });

  it('takes what is allowed from the schema', () => {
    expect(page).toMatch(/\| `3000` +\| a whole number from 0 to 65535 +\| The port/);
    expect(page).toMatch(/\| `50000.00 USD` +\| an amount with its currency/);
  });
});
