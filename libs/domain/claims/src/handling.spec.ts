import { specification } from '#libs/decider';
import { customerId, filedClaim, people, seconds } from '#libs/domain/examples';
import { claim, type ClaimCommand, claimStatuses } from './claim.js';
import { claimEvents, type ClaimEvent, type Party } from './events.js';
import { steps, type HandleClaim, type SettleClaim } from './handling.js';

const { given } = specification(claim, (actual, expected) => expect(actual).toStrictEqual(expected));
const usd = (amount: string) => ({ amount, currency: 'USD' });
const by = people.dana;
const at = seconds(1000);
const limit = usd('5000.00');

const settle: SettleClaim = {
  type: 'SettleClaim',
  amount: usd('1180.00'),
  payee: 'Garage Miller',
  standing: { roles: ['adjuster'], authorityLimit: usd('2000.00') },
  twoPersonLimit: limit,
  by,
  at,
};
const bySam = { ...settle, by: people.sam, standing: { roles: ['supervisor' as const] } };
const commands: Record<HandleClaim['type'], HandleClaim> = {
  AcknowledgeClaim: { type: 'AcknowledgeClaim', note: 'Taken up.', by, at },
  AssessClaim: { type: 'AssessClaim', amount: usd('1180.00'), by, at },
  SettleClaim: settle,
  RejectClaim: { type: 'RejectClaim', reason: 'Not insured.', by, at },
  WithdrawClaim: { type: 'WithdrawClaim', reason: 'Repaired.', by, at },
  ReopenClaim: { type: 'ReopenClaim', reason: 'An invoice came.', by, at },
};

function after(...sent: ClaimCommand[]): ClaimEvent[] {
  return sent.reduce<ClaimEvent[]>(
    (events, command) => [...events, ...(given(...events).when(command).outcome as ClaimEvent[])],
    [...filedClaim],
  );
}
const { AcknowledgeClaim, AssessClaim, RejectClaim, WithdrawClaim, ReopenClaim } = commands;
const assessed = after(AcknowledgeClaim, AssessClaim);
const histories: Record<(typeof claimStatuses)[number], ClaimEvent[]> = {
  filed: filedClaim,
  acknowledged: after(AcknowledgeClaim),
  assessed,
  settled: after(AcknowledgeClaim, AssessClaim, settle),
  rejected: after(AcknowledgeClaim, RejectClaim),
  withdrawn: after(WithdrawClaim),
  reopened: after(WithdrawClaim, ReopenClaim),
};

describe('the states of a claim', () => {
  const pairs = claimStatuses.flatMap((status) =>
    Object.values(commands).map((command) => [status, command.type, command] as const),
  );

  it.each(pairs)('%s: %s', (status, type, command) => {
    const tried = given(...histories[status]).when(command);
    if (steps[type].includes(status)) expect(tried.outcome).toHaveLength(1);
    else tried.thenRefused('claim-state', { status, allowed: [...steps[type]] });
  });

  it('are entered by the events that say so, with who and why', () => {
    given(...filedClaim)
      .when(AcknowledgeClaim)
      .then({
        type: 'ClaimAcknowledged',
        data: { note: 'Taken up.', acknowledgedBy: by, acknowledgedAt: at },
      });
    given(...histories.acknowledged)
      .when(AssessClaim)
      .then({ type: 'ClaimAssessed', data: { amount: usd('1180.00'), assessedBy: by, assessedAt: at } });
    given(...assessed)
      .when(RejectClaim)
      .then({ type: 'ClaimRejected', data: { reason: 'Not insured.', rejectedBy: by, rejectedAt: at } });
    given(...assessed)
      .when(WithdrawClaim)
      .then({ type: 'ClaimWithdrawn', data: { reason: 'Repaired.', withdrawnBy: by, withdrawnAt: at } });
    given(...histories.settled)
      .when(ReopenClaim)
      .then({ type: 'ClaimReopened', data: { reason: 'An invoice came.', reopenedBy: by, reopenedAt: at } });
    const told = [
      ...Object.values(histories).flat(),
      ...after(AcknowledgeClaim, AssessClaim, { ...bySam, amount: usd('9000') }),
    ];
    expect(new Set(told.map(({ type }) => type))).toEqual(new Set(Object.keys(claimEvents)));
  });

  it('are of a claim that was filed, and moved by nobody who is its customer or acts for them', () => {
    given().when(AcknowledgeClaim).thenRefused('not-found');
    for (const who of [
      { ...by, customerId },
      { sub: customerId, actFor: [] },
      { sub: 'dana', actFor: [customerId] },
    ])
      given(...filedClaim)
        .when({ ...AcknowledgeClaim, by: who })
        .thenRefused('four-eyes');
  });
});

describe('a claim whose customer is known by subject', () => {
  const known = (customer: Party): ClaimEvent[] =>
    filedClaim.map((event) =>
      event.type === 'ClaimFiled' ? { ...event, data: { ...event.data, customer } } : event,
    );

  it.each<[string, Party, Party]>([
    ['the customer', people.carol, people.carol],
    ['who acts for the customer', people.carol, { sub: 'dana', actFor: ['carol'] }],
    ['whom the customer acts for', { sub: 'carol', actFor: ['dana'] }, by],
  ])('is neither moved nor settled by %s', (_who, customer, who) => {
    const filed = known(customer);
    const other = { by: people.sam };
    const history = [
      { ...AcknowledgeClaim, ...other },
      { ...AssessClaim, ...other },
    ].reduce<ClaimEvent[]>(
      (events, command) => [...events, ...(given(...events).when(command).outcome as ClaimEvent[])],
      filed,
    );
    given(...filed)
      .when({ ...AcknowledgeClaim, by: who })
      .thenRefused('four-eyes');
    given(...history)
      .when({ ...settle, by: who })
      .thenRefused('four-eyes');
    expect(given(...history).when({ ...bySam, ...other }).outcome).toMatchObject([{ type: 'ClaimSettled' }]);
  });
});

describe('settling', () => {
  const settled = (amount: string, ...settledBy: (typeof by)[]): ClaimEvent => ({
    type: 'ClaimSettled',
    data: { amount: usd(amount), payee: 'Garage Miller', settledBy, settledAt: at },
  });
  const proposed = (amount: string): ClaimEvent => ({
    type: 'SettlementProposed',
    data: { amount: usd(amount), payee: 'Garage Miller', proposedBy: by, proposedAt: at },
  });
  const big = { ...settle, amount: usd('2000.01') };

  it('is done alone up to one’s authority', () => {
    given(...assessed)
      .when({ ...settle, amount: usd('2000.00') })
      .then(settled('2000.00', by));
  });

  it('above it is proposed, and done by a second person who has the authority', () => {
    given(...assessed)
      .when(big)
      .then(proposed('2000.01'));
    const waiting = [...assessed, proposed('2000.01')];
    given(...waiting)
      .when(big)
      .then();
    given(...waiting)
      .when({ ...big, by: { sub: 'alex', actFor: [] } })
      .thenRefused('over-authority', { limit: usd('2000.00'), amount: usd('2000.01') });
    given(...waiting)
      .when({ ...bySam, amount: usd('2000.01') })
      .then(settled('2000.01', people.sam));
  });

  it('above the two-person limit takes two, whatever their authority', () => {
    const large = { ...bySam, amount: usd('5000.01') };
    const waiting = after(AcknowledgeClaim, AssessClaim, { ...large, by });
    expect(waiting.at(-1)).toStrictEqual(proposed('5000.01'));
    given(...waiting)
      .when({ ...large, by })
      .then();
    given(...waiting)
      .when(large)
      .then(settled('5000.01', by, people.sam));
    for (const who of [{ sub: 'sam', actFor: ['dana'] }])
      given(...waiting)
        .when({ ...large, by: who })
        .thenRefused('four-eyes');
    given(...after(AcknowledgeClaim, AssessClaim, { ...large, by: { sub: 'dana', actFor: ['sam'] } }))
      .when(large)
      .thenRefused('four-eyes');
  });

  it('of something else than was proposed is a proposal of its own', () => {
    const waiting = after(AcknowledgeClaim, AssessClaim, { ...bySam, by, amount: usd('5000.01') });
    for (const change of [{ amount: usd('6000') }, { payee: 'Carol' }]) {
      const outcome = given(...waiting).when({ ...bySam, amount: usd('5000.01'), ...change }).outcome;
      expect(outcome).toMatchObject([
        { type: 'SettlementProposed', data: { proposedBy: people.sam, ...change } },
      ]);
    }
  });

  it('rests on the assessment: a new one drops what was proposed', () => {
    const again = after(AcknowledgeClaim, AssessClaim, { ...bySam, by, amount: usd('5000.01') }, AssessClaim);
    expect(given(...again).state().proposal).toBeUndefined();
    given(...again)
      .when({ ...bySam, amount: usd('5000.01') })
      .then({ type: 'SettlementProposed', data: { ...proposedBySam() } });
  });

  const proposedBySam = () => ({
    amount: usd('5000.01'),
    payee: 'Garage Miller',
    proposedBy: people.sam,
    proposedAt: at,
  });
});
