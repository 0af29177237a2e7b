import { readFileSync } from 'node:fs';
import { RunningApi } from '#test/api';
import { ApiModule } from './api.module.js';
import { declaredRoutes } from './declared-routes.js';
import { accessPage } from './operations/access-page.js';
import { Routes } from './routes.js';

let api: RunningApi;
beforeAll(async () => {
  api = await RunningApi.start();
});
afterAll(() => api.close());

it('the page of access has a row for every route that is served, and is not stale', () => {
  const known = api.app.get(Routes).known;
  const page = readFileSync('docs/access.md', 'utf8');
  const missing = known
    .filter(({ method }) => method !== 'HEAD')
    .map(({ method, path }) => `\`${method} ${path}\``)
    .filter((route) => !page.includes(`| ${route} `));
  expect(missing).toEqual([]);
  expect(accessPage(known)).toBe(page);
  expect(accessPage(declaredRoutes(ApiModule))).toBe(page);
});
