import { admitExpression, compileExpression } from './expressions.js';
import { InvalidRequest } from './proposed.js';

it.each([
  '^order-',
  '^[^$].*',
  '(?i)^APR',
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

const NESTED = /must not repeat a group with a quantifier or alternatives in it/;
const BACKREFERENCE = /must not have backreferences/;
const OPEN = /leaves too much open/;

it.each<[string, RegExp]>([
  ['^(a+)+$', NESTED],
  ['(?i)^(A+)+$', NESTED],
  ['^((a+))*$', NESTED],
  ['^(?:a*){2,}$', NESTED],
  ['^(?:a?){30}$', NESTED],
  ['^(a{1,5}b)+$', NESTED],
  ['^(?=(a+)+$)', NESTED],
  ['^(a|a)*$', NESTED],
  ['^(?:(?:a|a))+?$', NESTED],
  ['^(a)\\1$', BACKREFERENCE],
  ['^(?<x>a)\\k<x>$', BACKREFERENCE],
  ['.*.*.*.*.*.*.*', OPEN],
  ['a?'.repeat(13), OPEN],
  ['(a|a)'.repeat(13), OPEN],
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
