import { admitExpression, compileExpression } from './expressions.js';
import { InvalidRequest } from './proposed.js';

it.each([
  '^order-',
  '^[^$].*',
  '(?i)^APR',
  '^(?!\\$).*',
  '^(order|claim)-(opened|closed)$',
  '^run(-[a-z]+)?$',
  '^run-[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$',
  '^a.*?b.*c.*d.*e.*f.*$',
  '^(?:x|y)?(?<year>\\d{4})$',
  '[(a+)+]{2}\\(+',
  'a'.repeat(1000),
])('%s is used', (regex) => {
  expect(() => admitExpression(regex)).not.toThrow();
});

it.each([
  '^(a+)+$',
  '^((a+))*$',
  '^(?:a*){2,}$',
  '^(a{1,5}b?)+c$',
  '^(a|a)*$',
  '^(?:(?:a|a))+?$',
  'a*a*x',
  '.*.*.*.*.*.*.*x',
  `${'a?'.repeat(64)}x`,
  `${'(a|a)'.repeat(64)}x`,
])('%s is matched in time, also on a name made for it', (regex) => {
  admitExpression(regex);
  const began = performance.now();
  expect(compileExpression(regex).test(`${'a'.repeat(4096)}b`)).toBe(false);
  // Going back all the way takes from ten seconds to longer than anybody has.
  expect(performance.now() - began).toBeLessThan(5_000);
});

const NESTED = /must not repeat a group with a quantifier or alternatives in it/;
const BACKREFERENCE = /must not have backreferences/;
const OPEN = /leaves too much open/;

it.each<[string, RegExp]>([
  ['(?i)^(A+)+$', NESTED],
  ['^(?:a?){30}$', NESTED],
  ['^(?=(a+)+$)', NESTED],
  ['^(?<!b)(a|a)*$', NESTED],
  ['^(a)\\1$', BACKREFERENCE],
  ['^(?<x>a)\\k<x>$', BACKREFERENCE],
  ['(?i)a*a*x', OPEN],
  ['(?!b).*a.*', OPEN],
  ['a{17}.*.*', OPEN],
  ['a?'.repeat(65), OPEN],
  ['(a|a)'.repeat(65), OPEN],
  ['a'.repeat(1001), /must not be longer than 1000 characters \(it has 1001\)/],
  ['(', /cannot be used: SyntaxError/],
])('%s is refused', (regex, reason) => {
  expect(() => admitExpression(regex)).toThrow(InvalidRequest);
  expect(() => admitExpression(regex)).toThrow(reason);
});

it('options at the beginning are those of the whole', () => {
  const pattern = compileExpression('(?i)^apr');
  expect([pattern.source, pattern.flags]).toEqual(['^apr', 'i']);
});
