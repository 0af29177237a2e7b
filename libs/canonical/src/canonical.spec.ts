import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { canonicalJson, derivedId, digestOf, sha256 } from './index.js';

describe('canonical JSON', () => {
  it('sorts members and writes numbers as RFC 8785 does', () => {
    expect(canonicalJson({ b: 1e21, a: [1.0, -0, 'é\u0000'], c: undefined })).toBe(
      '{"a":[1,0,"é\\u0000"],"b":1e+21}',
    );
  });

  it('is what the reference package writes, or both refuse', () => {
    const written = (write: (value: unknown) => string | undefined, value: unknown): string | undefined => {
      try {
        return write(value);
      } catch {
        return 'refused';
      }
    };
    const key = fc.string({
      unit: fc.constantFrom('1', '10', 'a', 'é', '"', '😀', '\u20ac', '\ud800', '', 'toJSON'),
    });
    const values = fc.oneof(
      fc.jsonValue({ noUnicodeString: false }),
      fc.dictionary(key, fc.oneof(fc.double(), fc.string({ unit: 'binary' }), fc.date(), fc.jsonValue())),
    );
    fc.assert(
      fc.property(values, (value) =>
        expect(written(canonicalJson, value)).toBe(written(canonicalize, value)),
      ),
      { numRuns: 500 },
    );
  });

  it.each([
    ['a lone surrogate', '\ud800'],
    ['a lone surrogate in a name', { '\ud800': 1 }],
    ['a non-finite number', Infinity],
    ['a bigint', 1n],
    ['nothing', undefined],
  ])('refuses %s', (_name, value) => expect(() => canonicalJson(value)).toThrow());

  it('digests the same for another order of members', () => {
    expect(digestOf({ a: 1, b: 2 })).toBe(digestOf({ b: 2, a: 1 }));
    expect(sha256('')).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855');
  });

  it('derives ids from parts, not from their concatenation', () => {
    expect(derivedId('a', 'bc')).toBe(derivedId('a', 'bc'));
    expect(derivedId('a', 'bc')).not.toBe(derivedId('ab', 'c'));
    expect(derivedId('x')).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });
});
