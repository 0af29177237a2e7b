import fc from 'fast-check';
import { BadJson, DEEPEST, parseStrictly } from './strict-json.js';

const parse = (text: string) => parseStrictly(Buffer.from(text));
const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);

describe('strict JSON', () => {
  it('gives what JSON.parse gives for any value, however it is spaced', () => {
    const sendable = fc
      .json({ maxDepth: 8, depthSize: 'large', stringUnit: 'grapheme' })
      .filter((text) => !text.includes('__proto__'));
    fc.assert(
      fc.property(sendable, fc.constantFrom(0, 2, '\t'), (text, indent) => {
        const value: unknown = JSON.parse(text);
        expect(parse(JSON.stringify(value, null, indent))).toEqual(value);
      }),
      { numRuns: 300 },
    );
  });

  it.each([
    ['nothing', '', 'not JSON'],
    ['half a value', '{"a":', 'not JSON'],
    ['a member twice', '{"a":1,"b":{},"a":2}', 'the member "a" stands twice'],
    ['a member twice, once escaped', '{"a":1,"\\u0061":2}', 'the member "a" stands twice'],
    ['a member twice, deep inside', '[{"x":[{"a":1,"a":1}]}]', 'the member "a" stands twice'],
    ['__proto__', '{"__proto__":{"admin":true}}', 'named __proto__'],
    ['__proto__, escaped', '{"a":[{"__\\u0070roto__":1}]}', 'named __proto__'],
    ['half a surrogate pair', '{"a":"\\ud83d"}', 'half a surrogate pair'],
    ['the other half', '["\\\\ \\" \\ude00x"]', 'half a surrogate pair'],
    ['an infinite number', '[1e400]', 'the number 1e400'],
    ['a whole number that is rounded', '{"n":9007199254740993}', 'the number 9007199254740993'],
    ['too many levels', nested(DEEPEST + 1), 'deeper than 64 levels'],
  ])('refuses %s', (_name, text, why) => {
    expect(() => parse(text)).toThrow(BadJson);
    expect(() => parse(text)).toThrow(why);
  });

  it('refuses bytes that are not UTF-8', () => {
    expect(() => parseStrictly(Buffer.from([0x22, 0xff, 0x22]))).toThrow('not UTF-8');
  });

  it.each([
    nested(DEEPEST),
    '0.30000000000000004',
    '9007199254740992',
    '"\\ud83d\\ude00"',
    '{"a":{"a":1}}',
    ' [ ] ',
  ])('accepts %s', (text) => expect(parse(text)).toEqual(JSON.parse(text)));
});
