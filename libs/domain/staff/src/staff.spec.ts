import { covers, isRefusal, specification, unmarkedFields } from '#libs/decider';
import { danaRegistered, registerDana, seconds } from '#libs/domain/examples';
import { staffEvents } from './events.js';
import { hasAuthority, staff, staffStream, standingOf } from './staff.js';

const { given } = specification(staff, (actual, expected) => expect(actual).toStrictEqual(expected));
const usd = (amount: string) => ({ amount, currency: 'USD' });

describe('the register', () => {
  it('says who somebody is, once', () => {
    given().when(registerDana).then(danaRegistered);
    const again = { ...registerDana, registeredBy: 'alex', at: '2026-03-03T09:00:00.000Z' };
    given(danaRegistered).when(again).then();
    given(danaRegistered)
      .when({ ...again, roles: ['adjuster', 'adjuster'] })
      .then();
  });

  it.each([
    ['roles', { roles: ['supervisor' as const] }],
    ['limit', { authorityLimit: usd('9.00') }],
    ['no limit', { authorityLimit: undefined }],
    ['no longer active', { active: false }],
  ])('says it anew where it is another: %s', (_name, change) => {
    const at = seconds(60);
    const { registeredBy: _, registeredAt: __, ...entry } = danaRegistered.data;
    const { authorityLimit, ...rest } = { ...entry, ...change };
    const now = { ...rest, ...(authorityLimit && { authorityLimit }) };
    const changed = given(danaRegistered).when({ ...registerDana, ...change, at });
    changed.then({ type: 'StaffChanged', data: { ...now, changedBy: 'sam', changedAt: at } });
    expect(changed.state()).toStrictEqual({ entry: now });
  });

  it.each([
    ['another role', { roles: ['adjuster' as const, 'supervisor' as const] }, 'not-permitted'],
    ['a higher limit', { authorityLimit: usd('10000.01') }, 'not-permitted'],
    ['a limit in another currency', { authorityLimit: { amount: '1.00', currency: 'EUR' } }, 'not-permitted'],
    ['no limit', { authorityLimit: undefined }, 'not-permitted'],
    ['a lower limit', { authorityLimit: usd('9.00') }, 'StaffChanged'],
    ['fewer roles', { roles: [] }, 'StaffChanged'],
    ['the end of it', { active: false }, 'StaffChanged'],
    ['the same', {}, undefined],
  ])('lets nobody raise their own rights: %s', (_name, change, outcome) => {
    const own = { ...registerDana, registeredBy: 'dana', ...change, at: seconds(60) };
    const decided = staff.decide(own, { entry: danaRegistered.data });
    expect(isRefusal(decided) ? decided.refused : decided[0]?.type).toBe(outcome);
    const byAnother = staff.decide({ ...own, registeredBy: 'sam' }, { entry: danaRegistered.data });
    expect(isRefusal(byAnother)).toBe(false);
    expect(isRefusal(staff.decide({ ...own, founding: true }, { entry: danaRegistered.data }))).toBe(false);
  });

  it('lets nobody who is inactive or unknown enter themselves, but to found it', () => {
    const own = { ...registerDana, registeredBy: 'dana' };
    const inactive = { entry: { ...danaRegistered.data, active: false } };
    for (const state of [{}, inactive]) {
      expect(staff.decide(own, state)).toMatchObject({ refused: 'not-permitted' });
      expect(isRefusal(staff.decide({ ...own, founding: true }, state))).toBe(false);
    }
  });

  it('saves and loads its state unchanged, is about no customer, and knows its events', () => {
    const state = given(danaRegistered).state();
    expect(staffStream.load(staffStream.save(state))).toStrictEqual(state);
    expect(() => staffStream.customerOf()).toThrow('no customer');
    expect(() => staff.evolve({}, { ...danaRegistered, type: 'StaffGone' as 'StaffRegistered' })).toThrow(
      'no event StaffGone',
    );
    expect(Object.values(staffEvents).flatMap(unmarkedFields)).toEqual([]);
  });
});

describe('standing', () => {
  const entry = { ...danaRegistered.data, roles: ['adjuster', 'operator', 'supervisor'] as const };
  const state = (change: object = {}) => ({ entry: { ...entry, roles: [...entry.roles], ...change } });

  it('is what token and register both say', () => {
    const { authorityLimit } = entry;
    expect(standingOf(state(), ['supervisor', 'operator'])).toEqual({
      roles: ['supervisor'],
      authorityLimit,
    });
    expect(standingOf(state())).toEqual({ roles: ['adjuster', 'supervisor'], authorityLimit });
    expect(standingOf(state({ roles: ['adjuster'] }), ['supervisor'])).toBeUndefined();
    expect(standingOf(state({ active: false }))).toBeUndefined();
    expect(standingOf({})).toBeUndefined();
    expect(standingOf(state(), ['assistant', 'operator'])).toBeUndefined();
  });

  it('reaches up to the limit, in its currency', () => {
    const adjuster = { roles: ['adjuster' as const], authorityLimit: usd('1000.5') };
    expect(hasAuthority(adjuster, usd('1000.50'))).toBe(true);
    expect(hasAuthority(adjuster, usd('1000.51'))).toBe(false);
    expect(hasAuthority(adjuster, { amount: '1.00', currency: 'EUR' })).toBe(false);
    expect(hasAuthority({ roles: ['adjuster'] }, usd('0'))).toBe(false);
    expect(hasAuthority({ roles: ['adjuster', 'supervisor'] }, usd('999999999999.99'))).toBe(true);
    expect(hasAuthority({ ...adjuster, roles: ['supervisor'] }, usd('1000.51'))).toBe(false);
  });

  it('compares amounts by value', () => {
    expect(covers(usd('10'), usd('9.99'))).toBe(true);
    expect(covers(usd('9.9'), usd('9.90'))).toBe(true);
    expect(covers(usd('9.09'), usd('9.1'))).toBe(false);
  });
});
