import {
  type Identity,
  judge,
  policies,
  policyFaults,
  type PolicyName,
  type Role,
  roles,
  scopeOf,
  type Subject,
} from './index.js';

const CUSTOMER = 'c1';
const who = (...given: Role[]): Identity => ({
  sub: 's',
  tenant: 'acme',
  roles: given,
  customerId: CUSTOMER,
  actFor: [],
  expiresAt: 0,
});

/**
 * Who may do it, and who may read the record without doing it; to all others it is hidden, or forbidden. The
 * register says the same as the token.
 */
const matrix: Record<PolicyName, { may: Role[]; reads?: Role[]; of?: Subject }> = {
  'runs.start': { may: ['assistant', 'customer'] },
  'runs.list': { may: ['customer', 'assistant', 'adjuster', 'supervisor'] },
  'runs.read': { may: ['customer', 'assistant', 'adjuster', 'supervisor'], reads: [] },
  'runs.read-checkpoint': { may: ['assistant', 'adjuster', 'supervisor'], reads: ['customer'] },
  'runs.resume': { may: ['assistant', 'supervisor'], reads: ['customer', 'adjuster'] },
  'runs.work': { may: ['assistant', 'supervisor'], reads: ['customer', 'adjuster'] },
  'runs.fork': { may: ['assistant', 'supervisor'], reads: ['customer', 'adjuster'] },
  'runs.cancel': { may: ['customer', 'adjuster', 'supervisor'], reads: ['assistant'] },
  'approvals.list': { may: ['adjuster', 'supervisor'] },
  'approvals.read': { may: ['assistant', 'adjuster', 'supervisor'], reads: ['customer'] },
  'approvals.decide': { may: ['adjuster', 'supervisor'], reads: ['customer', 'assistant'] },
  'approvals.delegate': { may: ['supervisor'], reads: ['customer', 'assistant', 'adjuster'] },
  'approvals.withdraw': { may: ['assistant', 'supervisor'], reads: ['customer', 'adjuster'] },
  'conversations.begin': { may: ['customer', 'assistant', 'adjuster', 'supervisor'] },
  'conversations.read': {
    may: ['customer', 'assistant', 'adjuster', 'supervisor'],
    reads: [],
    of: { assigned: true },
  },
  'conversations.speak': {
    may: ['customer'],
    reads: ['assistant', 'adjuster', 'supervisor'],
    of: { assigned: true, speaker: 'customer' },
  },
  'conversations.delete': {
    may: ['customer'],
    reads: ['assistant', 'adjuster', 'supervisor'],
    of: { assigned: true },
  },
  'retention.read': { may: ['privacy-officer'] },
  'retention.set': { may: ['privacy-officer'] },
  'claims.list': { may: ['customer', 'adjuster', 'supervisor'] },
  'claims.read': { may: ['customer', 'adjuster', 'supervisor'], reads: [] },
  'claims.work': { may: ['adjuster', 'supervisor'], reads: ['customer'] },
  'claims.read-provenance': { may: ['adjuster', 'supervisor'], reads: ['customer'] },
  'staff.list': { may: ['supervisor'] },
  'staff.register': { may: ['supervisor'] },
  'profiles.read': { may: ['customer'], reads: [] },
  'profiles.propose': { may: [], reads: ['customer'] },
  'profiles.own': { may: ['customer'], reads: [] },
  'projections.read': { may: ['operator'] },
  'projections.rebuild': { may: ['operator'] },
};

describe('policies', () => {
  it.each(Object.entries(matrix))('%s, for every role', (name, { may, reads, of }) => {
    const verdicts = Object.fromEntries(
      roles.map((role) => [role, judge(name, who(role), { customerId: CUSTOMER, standing: [role], ...of })]),
    );
    const expected = (role: Role) => {
      if (may.includes(role)) return 'yes';
      return reads === undefined || reads.includes(role) ? 'forbidden' : 'hidden';
    };
    expect(verdicts).toEqual(Object.fromEntries(roles.map((role) => [role, expected(role)])));
  });

  it.each(Object.keys(policies))('%s: being logged in grants nothing', (name) => {
    expect(judge(name, who(), { customerId: CUSTOMER })).not.toBe('yes');
  });

  it.each([
    ['runs.start', 'forbidden'],
    ['runs.read', 'hidden'],
    ['runs.cancel', 'hidden'],
    ['claims.read', 'hidden'],
  ])('%s of another customer is %s', (name, verdict) => {
    expect(judge(name, who('customer'), { customerId: 'c2' })).toBe(verdict);
    expect(judge(name, { ...who('customer'), customerId: undefined }, {})).toBe(verdict);
  });

  it('let only a supervisor take over a live lease', () => {
    const run: Subject = { customerId: CUSTOMER, takeOver: true };
    expect(judge('runs.resume', who('assistant'), run)).toBe('forbidden');
    expect(judge('runs.resume', who('supervisor'), run)).toBe('yes');
  });

  it('let an assistant hear only the customers it works for, and speak for nobody else', () => {
    const of: Subject = { customerId: CUSTOMER };
    expect(judge('conversations.read', who('assistant'), of)).toBe('hidden');
    const speakers = (['customer', 'assistant', 'staff'] as const).map((speaker) =>
      roles
        .map((role) => [role, judge('conversations.speak', who(role), { ...of, assigned: true, speaker })])
        .filter(([, verdict]) => verdict === 'yes')
        .map(([role]) => role),
    );
    expect(speakers).toEqual([['customer'], ['assistant'], ['adjuster', 'supervisor']]);
  });

  it('let a supervisor register staff by the register, and by the token alone where it has none', () => {
    const asked = (subject: Subject, role: Role = 'supervisor') =>
      judge('staff.register', who(role), subject);
    expect(asked({})).toBe('forbidden');
    expect(asked({ standing: ['adjuster'] })).toBe('forbidden');
    expect(asked({ standing: ['supervisor'] })).toBe('yes');
    expect(asked({ founding: true })).toBe('yes');
    expect(asked({ founding: true }, 'adjuster')).toBe('forbidden');
  });

  it('show a profile to the assistant that serves its customer, and to no other', () => {
    const profile: Subject = { customerId: CUSTOMER, assigned: true };
    const verdicts = (subject: Subject) =>
      ['profiles.read', 'profiles.propose', 'profiles.own'].map((name) =>
        judge(name, who('assistant'), subject),
      );
    expect(verdicts(profile)).toEqual(['yes', 'yes', 'forbidden']);
    expect(verdicts({ ...profile, assigned: false })).toEqual(['hidden', 'hidden', 'hidden']);
    expect(judge('profiles.read', who('adjuster'), profile)).toBe('hidden');
  });

  it('P30: never let an assistant decide, whatever else it is', () => {
    const standing: Role[] = ['supervisor'];
    expect(judge('approvals.decide', who('assistant', 'supervisor'), { standing })).toBe('forbidden');
    expect(judge('approvals.delegate', who('assistant', 'supervisor'), { standing })).toBe('forbidden');
  });

  it('let nobody decide whom the register does not know', () => {
    expect(judge('approvals.decide', who('supervisor'), {})).toBe('forbidden');
    expect(judge('approvals.decide', who('supervisor'), { standing: [] })).toBe('forbidden');
    expect(judge('approvals.delegate', who('supervisor'), { standing: ['adjuster'] })).toBe('forbidden');
  });

  it.each(['missing', 'toString', '__proto__'])('%s is no policy, and a no', (name) => {
    expect(judge(name, who(...roles), {})).toBe('hidden');
  });

  it.each<[string, () => unknown]>([
    ['returns nothing', () => undefined],
    ['answers something else', () => 'yes'],
    ['hangs', () => new Promise(() => undefined)],
    [
      'throws',
      () => {
        throw new Error('broken');
      },
    ],
  ])('one that %s is a no, and counted', async (_what, can) => {
    policyFaults.reset();
    const broken = { can: can as () => boolean };
    expect(judge('runs.list', who('supervisor'), {}, () => broken)).toBe('hidden');
    const { values } = await policyFaults.get();
    expect(values).toEqual([{ labels: { policy: 'runs.list' }, value: 1 }]);
  });

  it('scope a list to what its reader may see', () => {
    expect(scopeOf('runs.list', who('customer'))).toEqual({ customerId: CUSTOMER });
    expect(scopeOf('runs.list', who('customer', 'assistant'))).toEqual({});
    expect(scopeOf('claims.list', who('customer', 'assistant'))).toEqual({ customerId: CUSTOMER });
    expect(scopeOf('claims.list', who('adjuster'))).toEqual({});
    expect(scopeOf('claims.list', { ...who('customer'), customerId: undefined })).toEqual({ customerId: '' });
    expect(scopeOf('claims.list', who('operator'))).toEqual({ customerId: '' });
  });
});
