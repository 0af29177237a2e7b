import { specification } from '#libs/decider';
import {
  approvalId,
  claimId,
  digest,
  draftedRun,
  draftId,
  lease,
  notice,
  pendingApproval,
  people,
  seconds,
  standings,
  tenant,
} from '#libs/domain/examples';
import type { Standing } from '#libs/domain/staff';
import { approvalStatus } from './approvals.js';
import type {
  DecideApproval,
  DelegateApproval,
  RequestApproval,
  RunCommand,
  StartFiling,
} from './commands.js';
import { signersOf } from './decisions.js';
import type { Party, RunEvent } from './events.js';
import { run, runStatus } from './run.js';

const { given } = specification(run, (actual, expected) => expect(actual).toStrictEqual(expected));
const usd = (amount: string) => ({ amount, currency: 'USD' });
const alex: Party = { sub: 'alex', actFor: [] };
const supervisor: Standing = { roles: ['supervisor'] };

const request: RequestApproval = {
  type: 'RequestApproval',
  draftId,
  draftVersion: 1,
  summary: 'Rear-end collision, 1250.00 USD estimated.',
  basedOn: [],
  requestedBy: people.assistant,
  expiresInSeconds: 3600,
  lease,
  at: seconds(30),
};
const grant: DecideApproval = {
  type: 'DecideApproval',
  approvalId,
  decision: 'grant',
  digest,
  decidedBy: people.dana,
  standing: standings.dana,
  at: seconds(600),
};
const bySam = { ...grant, decidedBy: people.sam, standing: standings.sam, at: seconds(700) };
const delegate: DelegateApproval = {
  type: 'DelegateApproval',
  approvalId,
  to: 'alex',
  delegatedBy: people.sam,
  standing: standings.sam,
  at: seconds(500),
};
const byAlex = { ...grant, decidedBy: alex, standing: { roles: ['adjuster' as const] } };
const file: StartFiling = { type: 'StartFiling', tenant, approvalId, standings, at: seconds(800) };

function after(history: readonly RunEvent[], ...commands: RunCommand[]): RunEvent[] {
  return commands.reduce<RunEvent[]>(
    (events, command) => [...events, ...(given(...events).when(command).outcome as RunEvent[])],
    [...history],
  );
}
const needsTwo = after(draftedRun, { ...request, twoPersonLimit: usd('1249.99') });
const endorsed = after(needsTwo, grant);
const state = (history: RunEvent[]) => {
  const approval = given(...history)
    .state()
    .approvals.get(approvalId);
  if (!approval) throw new Error('no approval');
  return approval;
};

describe('the two-person limit', () => {
  it.each([
    ['1250.00', 1],
    ['1250', 1],
    ['1249.99', 2],
    ['0', 2],
  ])('of %s USD asks for %i signatures of 1250.00 USD', (amount, signatures) => {
    const asked = given(...draftedRun).when({ ...request, twoPersonLimit: usd(amount) });
    expect(asked.outcome).toMatchObject([{ data: { requires: { signatures, authority: usd('1250.00') } } }]);
  });

  it('in another currency cannot be compared, so that two must sign', () => {
    const twoPersonLimit = { amount: '999999.00', currency: 'EUR' };
    const asked = given(...draftedRun).when({ ...request, twoPersonLimit });
    expect(asked.outcome).toMatchObject([{ data: { requires: { signatures: 2 } } }]);
  });
});

describe('two signatures', () => {
  it('are endorsed by the first, and granted by the second, of two people', () => {
    const [endorsement] = endorsed.slice(-1);
    expect(endorsement).toStrictEqual({
      type: 'ApprovalEndorsed',
      data: { approvalId, digest, decidedBy: people.dana, endorsedAt: seconds(600) },
    });
    expect(approvalStatus(state(endorsed), seconds(601))).toBe('endorsed');
    expect(runStatus(given(...endorsed).state(), seconds(601))).toBe('waiting');
    given(...endorsed)
      .when(bySam)
      .then({
        type: 'ApprovalGranted',
        data: {
          approvalId,
          digest,
          decidedBy: people.sam,
          grantedAt: seconds(700),
          executeBy: seconds(700 + 86_400),
        },
      });
    expect(signersOf(state(after(endorsed, bySam)))).toEqual(['dana', 'sam']);
  });

  it.each([
    ['the same person', people.dana],
    ['who acts for the first', { sub: 'erin', actFor: ['dana'] }],
  ])('are not given by %s', (_who, decidedBy) => {
    const second = { ...grant, decidedBy, standing: supervisor };
    given(...endorsed)
      .when(second)
      .thenRefused('four-eyes');
    given(...endorsed)
      .when({ ...second, decision: 'deny' })
      .thenRefused('four-eyes');
  });

  it('are not given by whom the first acts for', () => {
    const first = after(needsTwo, { ...grant, decidedBy: { sub: 'dana', actFor: ['sam'] } });
    given(...first)
      .when(bySam)
      .thenRefused('four-eyes');
  });

  it('once complete, each signer may send theirs again and nothing is appended', () => {
    const granted = after(endorsed, bySam);
    given(...granted)
      .when(grant)
      .then();
    given(...granted)
      .when(bySam)
      .then();
    given(...granted)
      .when({ ...grant, decision: 'deny' })
      .thenRefused('already-decided', { decision: 'grant', by: 'sam', at: seconds(700) });
  });

  it('end with one denial, and with the deadline', () => {
    expect(given(...endorsed).when({ ...bySam, decision: 'deny' }).outcome).toMatchObject([
      { type: 'ApprovalDenied', data: { decidedBy: people.sam } },
    ]);
    const expiresAt = seconds(3630);
    expect(approvalStatus(state(endorsed), expiresAt)).toBe('expired');
    given(...endorsed)
      .when({ ...bySam, at: expiresAt })
      .thenRefused('approval-expired', { expiresAt });
  });

  it('fall with a new version of the draft, and with the run', () => {
    const content = { salt: '00'.repeat(16), notice: { ...notice, injuries: 1 } };
    const saved = given(...endorsed).when({ type: 'SaveDraft', draftId, content, lease, at: seconds(650) });
    expect(saved.outcome).toMatchObject([{ type: 'DraftSaved' }, { type: 'ApprovalInvalidated' }]);
    const cancelled = given(...endorsed).when({ type: 'CancelRun', endedBy: people.sam, at: seconds(650) });
    expect(cancelled.outcome).toMatchObject([{ type: 'ApprovalWithdrawn' }, { type: 'RunCancelled' }]);
  });
});

describe('authority', () => {
  const amount = usd('1250.00');

  it.each([
    ['1249.99', usd('1249.99')],
    ['1250.00 in another currency', { amount: '1250.00', currency: 'EUR' }],
    ['none', undefined],
  ])('of an adjuster up to %s reaches neither grant nor denial', (_name, authorityLimit) => {
    const standing: Standing = { roles: ['adjuster'], ...(authorityLimit && { authorityLimit }) };
    const refused = { limit: authorityLimit ?? null, amount };
    given(...pendingApproval)
      .when({ ...grant, standing })
      .thenRefused('over-authority', refused);
    given(...pendingApproval)
      .when({ ...grant, standing, decision: 'deny' })
      .thenRefused('over-authority', refused);
  });

  it('of a supervisor without a limit reaches any amount, in any currency', () => {
    expect(given(...pendingApproval).when(bySam).outcome).toMatchObject([{ type: 'ApprovalGranted' }]);
  });

  it('must be each signer’s own', () => {
    const standing: Standing = { roles: ['supervisor'], authorityLimit: usd('1000.00') };
    given(...endorsed)
      .when({ ...bySam, standing })
      .thenRefused('over-authority', { limit: usd('1000.00'), amount });
  });
});

describe('delegation', () => {
  const delegated = (change: Partial<DelegateApproval> = {}) =>
    after(pendingApproval, { ...delegate, ...change });

  it('lets somebody decide on another’s authority, which the decision names', () => {
    const data = { approvalId, to: 'alex', delegatedBy: people.sam, delegatedAt: seconds(500) };
    given(...pendingApproval)
      .when({ ...delegate, expiresInSeconds: 200 })
      .then({ type: 'ApprovalDelegated', data: { ...data, endsAt: seconds(700) } });
    expect(given(...delegated()).when(byAlex).outcome).toMatchObject([
      { type: 'ApprovalGranted', data: { decidedBy: alex, delegatedBy: 'sam' } },
    ]);
  });

  it('has an end of its own, and no later one than the approval', () => {
    const short = delegated({ expiresInSeconds: 100 });
    expect(given(...short).when({ ...byAlex, at: seconds(599) }).outcome).toHaveLength(1);
    given(...short)
      .when({ ...byAlex, at: seconds(600) })
      .thenRefused('over-authority', { limit: null, amount: usd('1250.00') });
    expect(delegated({ expiresInSeconds: 999_999 }).at(-1)).toMatchObject({
      data: { endsAt: seconds(3630) },
    });
  });

  it('is for that one person, said again holds already, and another end replaces it', () => {
    given(...delegated())
      .when({ ...byAlex, decidedBy: { sub: 'robin', actFor: [] } })
      .thenRefused('over-authority', { limit: null, amount: usd('1250.00') });
    given(...delegated())
      .when({ ...delegate, at: seconds(501) })
      .then();
    const renewed = after(delegated(), { ...delegate, expiresInSeconds: 60 });
    expect(state(renewed).delegations).toMatchObject([{ to: 'alex', endsAt: seconds(560) }]);
  });

  it('leaves a decision on one’s own authority one’s own', () => {
    const own = { ...byAlex, standing: standings.dana };
    expect(given(...delegated()).when(own).outcome).toMatchObject([
      { data: { approvalId, digest, decidedBy: alex, grantedAt: seconds(600) } },
    ]);
    expect(after(delegated(), own).at(-1)?.data).not.toHaveProperty('delegatedBy');
  });

  it('does not make two signatures of one authority', () => {
    const lent = after(needsTwo, delegate);
    given(...after(lent, byAlex))
      .when(bySam)
      .thenRefused('four-eyes');
    given(...after(lent, bySam))
      .when({ ...byAlex, at: seconds(710) })
      .thenRefused('four-eyes');
    expect(given(...after(lent, byAlex)).when({ ...grant, at: seconds(710) }).outcome).toMatchObject([
      { type: 'ApprovalGranted', data: { decidedBy: people.dana } },
    ]);
  });

  it.each<[string, Party, Party]>([
    ['the first signer acts for', { sub: 'dana', actFor: ['sam'] }, people.sam],
    ['acts for the first signer', people.dana, { sub: 'sam', actFor: ['dana'] }],
  ])('does not hide in a second signature a delegator who or whom %s', (_name, first, delegator) => {
    const lent = after(needsTwo, { ...delegate, delegatedBy: delegator });
    const own = { ...grant, decidedBy: first };
    given(...after(lent, own))
      .when({ ...byAlex, at: seconds(710) })
      .thenRefused('four-eyes');
    given(...after(lent, byAlex))
      .when({ ...own, at: seconds(710) })
      .thenRefused('four-eyes');
  });

  it.each<[string, Party, Party]>([
    ['first', { sub: 'sam', actFor: ['kim'] }, { sub: 'kim', actFor: [] }],
    ['second', { sub: 'sam', actFor: [] }, { sub: 'kim', actFor: ['sam'] }],
  ])(
    'does not make two signatures of two delegators of whom the %s acts for the other',
    (_name, sam, kim) => {
      const toRobin = { ...delegate, to: 'robin', delegatedBy: kim };
      const history = after(needsTwo, { ...delegate, delegatedBy: sam }, toRobin, byAlex);
      given(...history)
        .when({ ...byAlex, decidedBy: { sub: 'robin', actFor: [] }, at: seconds(710) })
        .thenRefused('four-eyes');
    },
  );

  it('is not made to who has signed, so that what their signature rests on stays', () => {
    const signed = after(needsTwo, delegate, byAlex);
    const another = { ...delegate, delegatedBy: { sub: 'kim', actFor: [] }, at: seconds(650) };
    given(...signed)
      .when(another)
      .thenRefused('four-eyes');
    given(...signed)
      .when({ ...delegate, at: seconds(650) })
      .then();
  });

  it.each<[string, Partial<DelegateApproval>, string]>([
    ['by an adjuster', { delegatedBy: people.dana, standing: standings.dana }, 'not-permitted'],
    ['to oneself', { to: 'sam' }, 'four-eyes'],
    ['to the requester', { to: people.assistant.sub }, 'four-eyes'],
    ['to the customer', { to: people.carol.sub }, 'four-eyes'],
    ['by who acts for the customer', { delegatedBy: { sub: 'sam', actFor: ['carol'] } }, 'four-eyes'],
  ])('is refused %s', (_name, change, code) => {
    expect(given(...pendingApproval).when({ ...delegate, ...change }).outcome).toMatchObject({
      refused: code,
    });
  });

  it('is refused above the delegator’s authority, and once the approval is decided', () => {
    const standing: Standing = { roles: ['supervisor'], authorityLimit: usd('1.00') };
    given(...pendingApproval)
      .when({ ...delegate, standing })
      .thenRefused('over-authority', { limit: usd('1.00'), amount: usd('1250.00') });
    given(...after(pendingApproval, grant))
      .when({ ...delegate, at: seconds(700) })
      .thenRefused('already-decided', { decision: 'grant', by: 'dana', at: seconds(600) });
  });
});

describe('P22 rights at execution', () => {
  const granted = after(endorsed, bySam);
  const lent = after(pendingApproval, delegate, byAlex);
  const known = { ...standings, alex: byAlex.standing };

  it('let filing start while everybody has theirs', () => {
    for (const history of [granted, lent])
      expect(given(...history).when({ ...file, standings: known }).outcome).toMatchObject([
        { type: 'FilingStarted', data: { claimId } },
      ]);
  });

  it.each<[string, RunEvent[], StartFiling['standings'], string]>([
    ['the first signer is gone', granted, { sam: standings.sam }, 'dana'],
    ['the second signer is gone', granted, { dana: standings.dana }, 'sam'],
    [
      'a limit is lower now',
      granted,
      { ...known, dana: { roles: ['adjuster'], authorityLimit: usd('9') } },
      'dana',
    ],
    ['the delegate is gone', lent, standings, 'alex'],
    ['the delegator is gone', lent, { alex: byAlex.standing }, 'sam'],
    ['the delegator is no supervisor', lent, { ...known, sam: standings.dana }, 'sam'],
  ])('make the approval invalid where %s', (_name, history, now, sub) => {
    const invalidated = given(...history).when({ ...file, standings: now });
    const cause = { kind: 'rights-changed' as const, sub };
    invalidated.then({
      type: 'ApprovalInvalidated',
      data: { approvalId, cause, invalidatedAt: seconds(800) },
    });
    expect(runStatus(invalidated.state(), seconds(801))).toBe('needs-attention');
    const again = given(...after(history, { ...file, standings: now }));
    again.when(file).thenRefused('approval-invalidated', { cause, at: seconds(800) });
    const asked = again.when({ ...request, at: seconds(900) });
    expect(runStatus(asked.state(), seconds(901))).toBe('waiting');
  });
});
