import { Turns } from './turns.js';

/** Promises that are settled have told so by then; a turn that is due has been taken. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

it('lets so many begin in a turn, the others in order after it, and one alone at once', async () => {
  const turns = new Turns(3);
  const begun: number[] = [];
  const begin = async (task: number) => {
    await turns.next();
    begun.push(task);
  };
  const all = Promise.all([0, 1, 2, 3, 4, 5, 6].map(begin));
  await Promise.resolve();
  expect(begun).toEqual([0, 1, 2]);
  await turn();
  expect(begun).toEqual([0, 1, 2, 3, 4, 5]);
  const late = begin(7);
  await turn();
  expect(begun).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  await Promise.all([all, late]);
  await turn();
  await turn();
  void begin(8);
  await Promise.resolve();
  await Promise.resolve();
  expect(begun.at(-1)).toBe(8);
});
