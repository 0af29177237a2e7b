import { specification } from '#libs/decider';
import {
  approvalId,
  changed,
  deniedByDana,
  digest,
  draftId,
  draftedRun,
  filedRun,
  filingRun,
  grantedByDana,
  lease,
  leasedRun,
  notice,
  pendingApproval,
  people,
  runId,
  salted,
  seconds,
  standings,
} from '#libs/domain/examples';
import { digestOf } from '#libs/canonical';
import { approvalStatus } from './approvals.js';
import type { DecideApproval, RequestApproval, RunCommand, SaveDraft, WithdrawApproval } from './commands.js';
import type { RunEvent } from './events.js';
import { run } from './run.js';

const { given } = specification(run, (actual, expected) => expect(actual).toStrictEqual(expected));

const save: SaveDraft = { type: 'SaveDraft', draftId, content: salted, lease, at: seconds(20) };
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
  comment: 'Photos match the description.',
  at: seconds(600),
};
const deny: DecideApproval = { ...grant, decision: 'deny', comment: 'Reported twice.' };
const withdraw: WithdrawApproval = {
  type: 'WithdrawApproval',
  approvalId,
  withdrawnBy: people.assistant,
  reason: 'The customer sent new photos.',
  at: seconds(700),
};
const withdrawn: RunEvent = {
  type: 'ApprovalWithdrawn',
  data: {
    approvalId,
    because: 'requested',
    withdrawnBy: people.assistant,
    reason: 'The customer sent new photos.',
    withdrawnAt: seconds(700),
  },
};
const secondVersion: RunEvent = {
  type: 'DraftSaved',
  data: {
    draftId,
    draftVersion: 2,
    kind: 'claim',
    content: changed,
    digest: digestOf(changed),
    savedAt: seconds(700),
  },
};
const invalidated: RunEvent = {
  type: 'ApprovalInvalidated',
  data: {
    approvalId,
    cause: { kind: 'draft-changed', draftVersion: 2, digest: digestOf(changed) },
    invalidatedAt: seconds(700),
  },
};
const change: SaveDraft = { ...save, content: changed, at: seconds(700) };

function last(history: readonly RunEvent[]): RunEvent {
  const event = history.at(-1);
  if (!event) throw new Error('an empty history');
  return event;
}

function statusAfter(history: readonly RunEvent[], at: string) {
  const approval = given(...history)
    .state()
    .approvals.get(approvalId);
  return approval && approvalStatus(approval, at);
}

describe('SaveDraft', () => {
  it('saves the first version under the digest of salt and notice', () => {
    const saved = given(...leasedRun).when(save);
    saved.then(last(draftedRun));
    expect(saved.state().drafts.get(draftId)).toMatchObject({ draftVersion: 1, digest, content: salted });
  });

  it('appends nothing for an equal notice, whatever its salt', () => {
    given(...draftedRun)
      .when({ ...save, content: { salt: changed.salt, notice } })
      .then();
    given(...filingRun)
      .when(save)
      .then();
  });

  it('invalidates the pending approval of the version before in the same append', () => {
    const saved = given(...pendingApproval).when(change);
    saved.then(secondVersion, invalidated);
    expect(saved.state().approvals.get(approvalId)?.stage).toBe('invalidated');
  });

  it('invalidates a granted approval that is not yet executed', () => {
    given(...grantedByDana)
      .when(change)
      .then(secondVersion, invalidated);
  });

  it('leaves alone an approval that expired, lapsed or was denied', () => {
    const later = { ...change, at: seconds(100_000) };
    const saved = { ...secondVersion, data: { ...secondVersion.data, savedAt: later.at } } as RunEvent;
    given(...pendingApproval)
      .when(later)
      .then(saved);
    given(...grantedByDana)
      .when(later)
      .then(saved);
    given(...deniedByDana)
      .when(later)
      .then(saved);
  });

  it('is refused while the claim is being filed, and after', () => {
    given(...filingRun)
      .when(change)
      .thenRefused('filing-in-progress', { approvalId });
    const { claimId } =
      given(...filedRun)
        .state()
        .approvals.get(approvalId)?.filing ?? {};
    given(...filedRun)
      .when(change)
      .thenRefused('already-filed', { approvalId, claimId });
  });
});

describe('RequestApproval', () => {
  it('opens an approval bound to the digest of the newest version', () => {
    const requested = given(...draftedRun).when(request);
    requested.then(last(pendingApproval));
    expect(requested.state().drafts.get(draftId)?.approvalId).toBe(approvalId);
  });

  it('is refused for a draft that is unknown or has a newer version', () => {
    given(...leasedRun)
      .when(request)
      .thenRefused('draft-unknown');
    given(...draftedRun, secondVersion)
      .when(request)
      .thenRefused('draft-outdated', { draftVersion: 2 });
  });

  it('is refused while one is pending or granted for the draft', () => {
    given(...pendingApproval)
      .when(request)
      .thenRefused('approval-open', { approvalId });
    given(...grantedByDana)
      .when(request)
      .thenRefused('approval-open', { approvalId });
  });

  it.each([
    ['expired', pendingApproval, seconds(3630)],
    ['lapsed', grantedByDana, seconds(87_000)],
    ['was denied', deniedByDana, seconds(700)],
    ['was withdrawn', [...pendingApproval, withdrawn], seconds(701)],
  ])('opens the next when the one before %s', (_case, history, at) => {
    const again = given(...history).when({ ...request, at });
    expect(again.outcome).toMatchObject([{ type: 'ApprovalRequested', data: { approvalId: `${runId}.2` } }]);
  });

  it('is refused while the draft is being filed, and after', () => {
    given(...filingRun)
      .when(request)
      .thenRefused('filing-in-progress', { approvalId });
    expect(given(...filedRun).when(request).outcome).toMatchObject({ refused: 'already-filed' });
  });

  it('names the facts that the run does not have', () => {
    given(...draftedRun)
      .when({ ...request, basedOn: ['policy-in-force'] })
      .thenRefused('fact-unknown', { facts: ['policy-in-force'] });
  });

  it('never lets an older approval be decided by an earlier clock once a newer one stands', () => {
    const later = given(...pendingApproval).when({ ...request, at: seconds(3630) });
    const history = [...pendingApproval, ...(later.outcome as RunEvent[])];
    given(...history)
      .when(grant)
      .thenRefused('approval-expired', { expiresAt: seconds(3630) });
  });
});

describe('DecideApproval', () => {
  it('grants, to be executed within a day', () => {
    const granted = given(...pendingApproval).when(grant);
    granted.then(last(grantedByDana));
    expect(granted.state().approvals.get(approvalId)).toMatchObject({
      stage: 'granted',
      executeBy: seconds(87_000),
      decision: { decision: 'grant', decidedBy: people.dana, decidedAt: seconds(600) },
    });
  });

  it('denies', () => {
    const denied = given(...pendingApproval).when(deny);
    denied.then(last(deniedByDana));
    expect(denied.state().approvals.get(approvalId)?.stage).toBe('denied');
  });

  it('appends nothing when the same person decides the same again', () => {
    given(...grantedByDana)
      .when(grant)
      .then();
    given(...deniedByDana)
      .when(deny)
      .then();
    given(...filingRun)
      .when(grant)
      .then();
    given(...filedRun)
      .when(grant)
      .then();
  });

  it('P19 refuses the opposite decision with the first one, its actor and time', () => {
    const first = { decision: 'grant', by: 'dana', at: seconds(600) };
    given(...grantedByDana)
      .when(deny)
      .thenRefused('already-decided', first);
    given(...grantedByDana)
      .when({ ...grant, decidedBy: people.sam })
      .thenRefused('already-decided', first);
    given(...filingRun)
      .when(deny)
      .thenRefused('already-decided', first);
    given(...filedRun)
      .when(deny)
      .thenRefused('already-decided', first);
  });

  it('P20 makes one decision event of five equal decisions', () => {
    let history = pendingApproval;
    for (let sent = 0; sent < 5; sent++) {
      const { outcome } = given(...history).when({ ...grant, at: seconds(600 + sent) });
      history = [...history, ...(outcome as RunEvent[])];
    }
    expect(history).toStrictEqual(grantedByDana);
  });

  it('P21 grants a millisecond before the deadline and refuses at it, appending nothing', () => {
    const deadline = Date.parse(seconds(3630));
    const before = { ...grant, at: new Date(deadline - 1).toISOString() };
    expect(given(...pendingApproval).when(before).outcome).toMatchObject([{ type: 'ApprovalGranted' }]);
    const at = new Date(deadline).toISOString();
    given(...pendingApproval)
      .when({ ...grant, at })
      .thenRefused('approval-expired', { expiresAt: at });
    given(...pendingApproval)
      .when({ ...deny, at })
      .thenRefused('approval-expired', { expiresAt: at });
  });

  it('is refused for another digest than the one that was shown', () => {
    given(...pendingApproval)
      .when({ ...grant, digest: digestOf(changed) })
      .thenRefused('digest-mismatch', { digest });
    given(...grantedByDana)
      .when({ ...grant, digest: digestOf(changed) })
      .thenRefused('digest-mismatch', { digest });
  });

  it('is refused for an approval that is unknown, withdrawn or invalidated', () => {
    const unknown = `${runId}.7`;
    given(...pendingApproval)
      .when({ ...grant, approvalId: unknown })
      .thenRefused('approval-unknown', { approvalId: unknown });
    given(...pendingApproval, withdrawn)
      .when(grant)
      .thenRefused('approval-withdrawn', { because: 'requested', by: 'intake-assistant', at: seconds(700) });
    const cause = { kind: 'draft-changed', draftVersion: 2, digest: digestOf(changed) };
    given(...grantedByDana, secondVersion, invalidated)
      .when(grant)
      .thenRefused('approval-invalidated', { cause, at: seconds(700) });
  });

  it.each([
    ['the requester', people.assistant],
    ['who acts for the requester', { sub: 'erin', actFor: ['intake-assistant'] }],
    ['the customer', people.carol],
    [
      'the customer by the customer id of the token',
      { ...people.sam, customerId: customerOf(pendingApproval) },
    ],
    ['who acts for the customer', { sub: 'erin', actFor: ['carol'] }],
    ['who acts for the customer by id', { sub: 'erin', actFor: [customerOf(pendingApproval)] }],
  ])('P30 four eyes: %s cannot decide', (_who, decidedBy) => {
    given(...pendingApproval)
      .when({ ...grant, decidedBy })
      .thenRefused('four-eyes');
    given(...pendingApproval)
      .when({ ...deny, decidedBy })
      .thenRefused('four-eyes');
  });

  it('four eyes: whom the requester or the customer acts for cannot decide', () => {
    const forDana = { ...request, requestedBy: { ...people.assistant, actFor: ['dana'] } };
    const asked = given(...draftedRun).when(forDana).outcome as RunEvent[];
    given(...draftedRun, ...asked)
      .when(grant)
      .thenRefused('four-eyes');
    const customer = { sub: 'carol', actFor: ['dana'] };
    const history = pendingApproval.map((event) =>
      event.type === 'RunStarted' ? { ...event, data: { ...event.data, customer } } : event,
    );
    given(...history)
      .when(grant)
      .thenRefused('four-eyes');
  });
});

function customerOf(history: readonly RunEvent[]): string {
  return history[0]?.type === 'RunStarted' ? history[0].data.customerId : '';
}

describe('WithdrawApproval', () => {
  it('P30 withdraws, with the reason, by an event that is no denial', () => {
    const done = given(...pendingApproval).when(withdraw);
    done.then(withdrawn);
    expect(done.state().approvals.get(approvalId)?.stage).toBe('withdrawn');
    given(...pendingApproval, withdrawn)
      .when(withdraw)
      .then();
  });

  it('withdraws a grant that is not yet executed', () => {
    given(...grantedByDana)
      .when(withdraw)
      .then(withdrawn);
  });

  it('is refused for anyone but the requester', () => {
    given(...pendingApproval)
      .when({ ...withdraw, withdrawnBy: people.dana })
      .thenRefused('not-permitted');
  });

  const claimId = given(...filingRun)
    .state()
    .approvals.get(approvalId)?.filing?.claimId;
  it.each<[string, RunEvent[], string, RunCommand['at'], Record<string, unknown>]>([
    [
      'denied',
      deniedByDana,
      'already-decided',
      seconds(700),
      { decision: 'deny', by: 'dana', at: seconds(600) },
    ],
    ['expired', pendingApproval, 'approval-expired', seconds(3630), { expiresAt: seconds(3630) }],
    ['lapsed', grantedByDana, 'approval-lapsed', seconds(87_000), { executeBy: seconds(87_000) }],
    ['filing', filingRun, 'filing-in-progress', seconds(700), { approvalId }],
    ['filed', filedRun, 'already-filed', seconds(700), { approvalId, claimId }],
  ])('is refused when %s', (_stage, history, refused, at, extra) => {
    expect(given(...history).when({ ...withdraw, at }).outcome).toMatchObject({ refused, extra });
  });
});

describe('approvalStatus', () => {
  it.each([
    ['pending', pendingApproval, seconds(3629)],
    ['expired', pendingApproval, seconds(3630)],
    ['granted', grantedByDana, seconds(86_999)],
    ['lapsed', grantedByDana, seconds(87_000)],
    ['denied', deniedByDana, seconds(99_999)],
    ['withdrawn', [...pendingApproval, withdrawn], seconds(99_999)],
    ['invalidated', [...pendingApproval, secondVersion, invalidated], seconds(99_999)],
    ['filing', filingRun, seconds(999_999)],
    ['filed', filedRun, seconds(999_999)],
  ])('is %s', (status, history, at) => {
    expect(statusAfter(history, at)).toBe(status);
  });
});
