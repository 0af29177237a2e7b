import type { Json } from '#libs/canonical';
import { mergePatch } from './worker-state.js';

describe('mergePatch', () => {
  it.each<[Json, Json, Json]>([
    [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
    [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
    [{ a: 'b' }, { a: null }, {}],
    [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
    [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
    [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
    [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
    [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
    [
      ['a', 'b'],
      ['c', 'd'],
      ['c', 'd'],
    ],
    [{ a: 'b' }, ['c'], ['c']],
    [{ a: 'foo' }, null, null],
    [{ a: 'foo' }, 'bar', 'bar'],
    [{ e: null }, { a: 1 }, { e: null, a: 1 }],
    [[1, 2], { a: 'b', c: null }, { a: 'b' }],
    [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
  ])('RFC 7396, appendix A: %j with %j is %j', (target, patch, result) => {
    expect(mergePatch(target, patch)).toStrictEqual(result);
  });

  it('leaves what it is given unchanged, and takes `__proto__` for a name like any other', () => {
    const target = { a: { b: 1 } };
    const patch = JSON.parse('{"__proto__": {"x": 1}, "a": {"c": 2}}') as Json;
    expect(JSON.stringify(mergePatch(target, patch))).toBe('{"a":{"b":1,"c":2},"__proto__":{"x":1}}');
    expect(target).toStrictEqual({ a: { b: 1 } });
  });
});
