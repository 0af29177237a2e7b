import { digestOf } from '#libs/canonical';
import { specification } from '#libs/decider';
import {
  approvalId,
  changed,
  claimId,
  deniedByDana,
  digest,
  draftId,
  filedRun,
  filingRun,
  grantedByDana,
  lease,
  pendingApproval,
  people,
  receiptNumber,
  runId,
  seconds,
  standings,
  tenant,
} from '#libs/domain/examples';
import type { NoteReceipt, RefuseFiling, RunCommand, StartFiling } from './commands.js';
import type { RunEvent } from './events.js';
import { run } from './run.js';

const { given } = specification(run, (actual, expected) => expect(actual).toStrictEqual(expected));

const file: StartFiling = { type: 'StartFiling', tenant, approvalId, standings, at: seconds(601) };
const note: NoteReceipt = {
  type: 'NoteReceipt',
  approvalId,
  receiptNumber,
  filedAt: seconds(602),
  at: seconds(603),
};
const refuse: RefuseFiling = {
  type: 'RefuseFiling',
  approvalId,
  code: 'digest-mismatch',
  at: seconds(603),
};
const refused: RunEvent = {
  type: 'FilingRefused',
  data: { approvalId, draftId, code: refuse.code, refusedAt: seconds(603) },
};
const unknown = `${runId}.9`;

describe('StartFiling', () => {
  it('starts from a live grant, under the id that the draft gives the claim', () => {
    const started = given(...grantedByDana).when(file);
    started.then(...filingRun.slice(-1));
    expect(started.state().approvals.get(approvalId)).toMatchObject({ stage: 'filing', filing: { claimId } });
  });

  it.each([
    ['filing', filingRun],
    ['filed', filedRun],
    ['refused', [...filingRun, refused]],
  ])('appends nothing once the approval is %s, however late', (_stage, history) => {
    given(...history)
      .when({ ...file, at: seconds(999_999) })
      .then();
  });

  it('is refused from the millisecond at which the grant lapses', () => {
    const executeBy = seconds(87_000);
    given(...grantedByDana)
      .when({ ...file, at: executeBy })
      .thenRefused('approval-lapsed', { executeBy });
    const { outcome } = given(...grantedByDana).when({ ...file, at: seconds(86_999.999) });
    expect(outcome).toMatchObject([{ type: 'FilingStarted' }]);
  });

  it.each([
    ['pending', pendingApproval, 601],
    ['expired', pendingApproval, 3630],
    ['denied', deniedByDana, 601],
  ])('is refused for an approval that is %s', (status, history, after) => {
    given(...history)
      .when({ ...file, at: seconds(after) })
      .thenRefused('approval-not-granted', { status });
  });

  it('is refused for an approval that is unknown, withdrawn or invalidated', () => {
    given(...grantedByDana)
      .when({ ...file, approvalId: unknown })
      .thenRefused('approval-unknown', { approvalId: unknown });
    const withdraw = { type: 'WithdrawApproval' as const, approvalId, withdrawnBy: people.assistant };
    given(...after(grantedByDana, { ...withdraw, at: seconds(601) }))
      .when(file)
      .thenRefused('approval-withdrawn', {
        because: 'requested',
        by: people.assistant.sub,
        at: seconds(601),
      });
    const change: RunCommand = { type: 'SaveDraft', draftId, content: changed, lease, at: seconds(601) };
    const cause = { kind: 'draft-changed', draftVersion: 2, digest: digestOf(changed) };
    given(...after(grantedByDana, change))
      .when(file)
      .thenRefused('approval-invalidated', { cause, at: seconds(601) });
  });

  it('is refused for an older approval of a draft that is being filed', () => {
    const again: RunCommand = {
      type: 'RequestApproval',
      draftId,
      draftVersion: 1,
      summary: 'Once more.',
      basedOn: [],
      requestedBy: people.assistant,
      expiresInSeconds: 3600,
      lease,
      at: seconds(90_000),
    };
    const second = `${runId}.2`;
    const grant = { type: 'DecideApproval' as const, approvalId: second, decision: 'grant' as const, digest };
    const history = after(
      grantedByDana,
      again,
      { ...grant, decidedBy: people.dana, standing: standings.dana, at: seconds(90_001) },
      { ...file, approvalId: second, at: seconds(90_002) },
    );
    expect(history.at(-1)).toMatchObject({ type: 'FilingStarted', data: { approvalId: second, claimId } });
    given(...history)
      .when(file)
      .thenRefused('already-filed', { approvalId: second });
  });
});

describe('NoteReceipt', () => {
  it('notes the receipt once', () => {
    const noted = given(...filingRun).when(note);
    noted.then(...filedRun.slice(-1));
    expect(noted.state().approvals.get(approvalId)).toMatchObject({
      stage: 'filed',
      receipt: { receiptNumber },
    });
    given(...filedRun)
      .when({ ...note, at: seconds(700) })
      .then();
  });

  it('is refused for another receipt, after a refusal, before filing and for an unknown approval', () => {
    given(...filedRun)
      .when({ ...note, receiptNumber: 'R-0000-0000-0000-0000' })
      .thenRefused('already-filed', { receiptNumber });
    given(...filingRun, refused)
      .when(note)
      .thenRefused('filing-refused');
    given(...grantedByDana)
      .when(note)
      .thenRefused('filing-not-started');
    given(...filingRun)
      .when({ ...note, approvalId: unknown })
      .thenRefused('approval-unknown', { approvalId: unknown });
  });
});

describe('RefuseFiling', () => {
  it('notes the refusal once', () => {
    const done = given(...filingRun).when(refuse);
    done.then(refused);
    expect(done.state().approvals.get(approvalId)).toMatchObject({
      stage: 'refused',
      refusal: { code: 'digest-mismatch' },
    });
    given(...filingRun, refused)
      .when({ ...refuse, at: seconds(700) })
      .then();
  });

  it('is refused once the receipt is noted, before filing and for an unknown approval', () => {
    given(...filedRun)
      .when(refuse)
      .thenRefused('already-filed', { receiptNumber });
    given(...grantedByDana)
      .when(refuse)
      .thenRefused('filing-not-started');
    given(...filingRun)
      .when({ ...refuse, approvalId: unknown })
      .thenRefused('approval-unknown', { approvalId: unknown });
  });
});

/** The history that follows when the commands are carried out one after the other. */
function after(history: readonly RunEvent[], ...commands: RunCommand[]): RunEvent[] {
  return commands.reduce<RunEvent[]>(
    (events, command) => [...events, ...(given(...events).when(command).outcome as RunEvent[])],
    [...history],
  );
}
