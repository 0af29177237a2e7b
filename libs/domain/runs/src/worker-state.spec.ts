import { canonicalJson, type Json } from '#libs/canonical';
import fc from 'fast-check';
import { applyDifference, differenceOf } from './worker-state.js';

/** Few names and values, so that two states have much in common; also names that a patch cannot reach. */
const { state } = fc.letrec<{ state: Json }>((tie) => ({
  state: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<Json>(0, 1, true, null, 'a', ''),
    fc.array(tie('state'), { maxLength: 5 }),
    fc.dictionary(fc.constantFrom('a', 'b', 'a/b', '~', '', 'constructor', 'prototype', '0'), tie('state'), {
      noNullPrototype: true,
    }),
  ),
}));

describe('the difference between two states', () => {
  it('leads from one to the other, or there is none', () => {
    let found = 0;
    fc.assert(
      fc.property(fc.array(state, { maxLength: 4 }), fc.array(state, { maxLength: 4 }), (before, after) => {
        const operations = differenceOf(before, after);
        if (operations === undefined) return;
        found += 1;
        expect(canonicalJson(applyDifference(before, operations))).toBe(canonicalJson(after));
      }),
      { numRuns: 500 },
    );
    expect(found).toBeGreaterThan(200);
  });

  it('leaves the state before as it is', () => {
    const before = { a: [1, { b: 2 }] };
    applyDifference(before, differenceOf(before, { a: [1, { b: 3 }, 4] }) ?? null);
    expect(before).toEqual({ a: [1, { b: 2 }] });
  });

  it('is none where a name is one that a patch cannot reach', () => {
    expect(differenceOf({ constructor: { a: 1 } }, { constructor: { a: 2 } })).toBeUndefined();
    const before = [{ prototype: { a: { constructor: [] } } }];
    expect(differenceOf(before, [{ a: [], prototype: { a: { constructor: 0 } } }])).toBeUndefined();
  });

  it('of long lists is what follows after what they have in common', () => {
    const before = Array.from({ length: 2000 }, (_, index) => index);
    expect(differenceOf({ before }, { before: [...before, 'new'] })).toEqual([
      { op: 'add', path: '/before/-', value: 'new' },
    ]);
    const other = before.map((each) => each + 1);
    expect(differenceOf({ before }, { before: other })).toEqual([
      { op: 'replace', path: '/before', value: other },
    ]);
  });

  it('is found in time that does not grow with the product of all lists', () => {
    const rows = (offset: number) =>
      Array.from({ length: 600 }, (_, row) => [
        `row${row}`,
        Array.from({ length: 100 }, (_, n) => n + offset),
      ]);
    const from = process.cpuUsage().user;
    differenceOf(Object.fromEntries(rows(0)) as Json, Object.fromEntries(rows(1)) as Json);
    expect((process.cpuUsage().user - from) / 1000).toBeLessThan(1500);
  });
});
