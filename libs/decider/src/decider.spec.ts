import { type DomainEvent, happened, isRefusal, refuse, specification } from './index.js';

type Counted = DomainEvent<'Counted', { by: number }>;
const counter = {
  initialState: () => ({ total: 0 }),
  evolve: (state: { total: number }, { data }: Counted) => ({ total: state.total + data.by }),
  decide: ({ by }: { by: number }, { total }: { total: number }) =>
    total + by > 3 ? refuse('too-much', 'The limit is 3.', { limit: 3 }) : [happened('Counted', { by })],
};
const { given } = specification(counter, (actual, expected) => expect(actual).toStrictEqual(expected));
const one = happened('Counted', { by: 1 });

describe('happened', () => {
  it('leaves out what is undefined, and nothing else', () => {
    const data = { reason: undefined, output: null, count: 0, text: '' };
    expect(happened('Ended', data)).toStrictEqual({
      type: 'Ended',
      data: { output: null, count: 0, text: '' },
    });
  });
});

describe('specification', () => {
  it('compares the exact events and folds them', () => {
    const counted = given(one).when({ by: 2 });
    counted.then({ type: 'Counted', data: { by: 2 } });
    expect(counted.state()).toEqual({ total: 3 });
    expect(() => counted.then(one)).toThrow('toStrictEqual');
    expect(() => counted.then()).toThrow('toStrictEqual');
    expect(() => counted.thenRefused('too-much')).toThrow('toStrictEqual');
  });

  it('compares the exact refusal, and folds nothing', () => {
    const refused = given(one, one).when({ by: 2 });
    refused.thenRefused('too-much', { limit: 3 });
    expect(refused.state()).toEqual({ total: 2 });
    expect(isRefusal(refused.outcome)).toBe(true);
    expect(() => refused.thenRefused('too-much')).toThrow('toStrictEqual');
    expect(() => refused.then()).toThrow('toStrictEqual');
  });
});
