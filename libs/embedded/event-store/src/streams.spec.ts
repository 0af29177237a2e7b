import fc from 'fast-check';
import {
  type Expected,
  type KnownIds,
  SOFT_DELETED_DOCUMENT,
  type StreamFacts,
  decide,
  firstVisible,
  parseMetadata,
  reviveDocument,
} from './streams.js';

const stream = (facts: Partial<StreamFacts>): StreamFacts => ({
  last: -1,
  tombstoned: false,
  softDeleted: false,
  hasMetadata: false,
  ...facts,
});

/** A stream holding `ids`, of which the first `remembered` are still known to the re-send memory. */
const holding = (ids: readonly string[], remembered = ids.length): KnownIds => ({
  idAt: (revision) => ids[revision],
  revisionOf: (id) => {
    const revision = ids.indexOf(id);
    return revision < 0 || revision >= remembered ? undefined : revision;
  },
});

const repeat = (revision: number) => ({ kind: 'repeat', revision });
const wrong = (last: number) => ({ kind: 'wrong-revision', last });
const write = { kind: 'write' };
const deleted = { kind: 'stream-deleted' };

describe('a re-send', () => {
  const kept = ['a', 'b', 'c', 'd'];
  const facts = stream({ last: 3 });
  it.each<[string, Expected, string[], object]>([
    ['whole', 'no_stream', ['a', 'b'], repeat(1)],
    ['a prefix', 'no_stream', ['a'], repeat(0)],
    ['from the middle', 1n, ['c', 'd'], repeat(3)],
    ['extended within the stream', 'no_stream', ['a', 'b', 'c'], repeat(2)],
    ['extended beyond the stream', 1n, ['c', 'd', 'e'], wrong(3)],
    ['reordered', 'no_stream', ['b', 'a'], wrong(3)],
    ['of other ids', 'no_stream', ['x'], wrong(3)],
    ['mismatching after a prefix', 'no_stream', ['a', 'x'], wrong(3)],
    ['of nothing', 1n, [], wrong(3)],
    ['of nothing at the last revision', 3n, [], write],
    ['at the last revision', 3n, ['a', 'b'], write],
    ['under any', 'any', ['b', 'c'], repeat(2)],
    ['under any, first id unknown', 'any', ['x', 'a'], write],
    ['under any, later id unknown', 'any', ['a', 'x'], wrong(3)],
    ['under stream_exists, answering the last id sent', 'stream_exists', ['c', 'a'], repeat(0)],
    ['beyond the last revision', 4n, ['a'], wrong(3)],
  ])('%s', (_name, expected, ids, verdict) => {
    expect(decide(facts, expected, ids, holding(kept))).toEqual(verdict);
  });

  it('is written again under any once it is forgotten, and still known at a number', () => {
    expect(decide(facts, 'any', ['c'], holding(kept, 2))).toEqual(write);
    expect(decide(facts, 1n, ['c'], holding(kept, 0))).toEqual(repeat(2));
  });

  it('never writes twice, whatever part of the stream it repeats at a number', () => {
    fc.assert(
      fc.property(fc.nat(9), fc.nat(9), fc.nat(9), (length, from, count) => {
        const ids = Array.from({ length: length + 1 }, (_, i) => `id-${i}`);
        const at = Math.min(from, length);
        const sent = ids.slice(at, at + count + 1);
        const verdict = decide(stream({ last: length }), BigInt(at - 1), sent, holding(ids, 0));
        expect(verdict).toEqual(repeat(at + sent.length - 1));
      }),
    );
  });
});

describe('a soft-deleted stream', () => {
  const facts = stream({ last: 1, softDeleted: true });
  it.each<[Expected, string[], object]>([
    ['any', ['x'], write],
    ['no_stream', ['x'], write],
    ['no_stream', ['a', 'b'], repeat(1)],
    ['no_stream', ['a', 'x'], wrong(1)],
    ['stream_exists', ['x'], deleted],
    [1n, ['x'], write],
    [2n, ['x'], wrong(1)],
    [0n, ['b'], repeat(1)],
    [0n, ['x'], wrong(1)],
  ])('at %s with %j', (expected, ids, verdict) => {
    expect(decide(facts, expected, ids, holding(['a', 'b']))).toEqual(verdict);
  });
});

describe('metadata', () => {
  it.each<[string, object]>([
    ['{"$tb":3,"$maxCount":2,"$maxAge":60,"mine":true}', { truncateBefore: 3, maxCount: 2, maxAge: 60 }],
    ['{"$tb":0,"$maxCount":0,"$maxAge":-1}', { truncateBefore: 0 }],
    ['{"$tb":"3","$maxCount":1.5,"$maxAge":null}', {}],
    ['[1]', {}],
    ['not json', {}],
    ['', {}],
  ])('%s', (document, limits) => {
    expect(parseMetadata(Buffer.from(document))).toEqual({ ...limits, softDeleted: false });
  });

  it('is revived with its other keys', () => {
    expect(parseMetadata(Buffer.from(SOFT_DELETED_DOCUMENT)).softDeleted).toBe(true);
    const revived = reviveDocument(Buffer.from('{"$tb":9223372036854775807,"$acl":{"$r":"x"}}'), 5);
    expect(JSON.parse(revived)).toEqual({ $tb: 5, $acl: { $r: 'x' } });
  });

  it.each([
    [{}, 9, false, 0],
    [{ truncateBefore: 4 }, 9, false, 4],
    [{ maxCount: 3 }, 9, false, 7],
    [{ truncateBefore: 8, maxCount: 3 }, 9, false, 8],
    [{ maxCount: 30 }, 9, false, 0],
    [{}, 9, true, 9],
  ])('%j of a stream whose last revision is %i', (limits, last, isMetadata, first) => {
    expect(firstVisible({ ...limits, softDeleted: false }, last, isMetadata)).toBe(first);
  });
});
