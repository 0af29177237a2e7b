import { unmarkedFields } from '#libs/decider';
import { type RunEvent, runEvents } from '#libs/domain/runs';
import { projectionSpecification } from '#libs/projecting';
import { type Checkpoint, checkpoint } from './document.js';
import { present } from './present.js';
import { currentCheckpoints } from './projector.js';

const { given } = projectionSpecification<Checkpoint, RunEvent>(currentCheckpoints);

const at = (minute: number) => `2026-03-01T09:${String(minute).padStart(2, '0')}:00.000Z`;
const digest = (version: number) => String(version).repeat(64);
const worker = { sub: 'assistant-1', actFor: [] };
const dana = { sub: 'dana', actFor: [] };
const amount = { amount: '420.00', currency: 'USD' };

const event = <Type extends RunEvent['type']>(
  type: Type,
  data: Extract<RunEvent, { type: Type }>['data'],
): RunEvent => ({ type, data }) as RunEvent;

const started = (runId: string) =>
  event('RunStarted', {
    runId,
    originRunId: runId,
    workflow: { name: 'auto-loss', version: '1' },
    customerId: `customer-of-${runId}`,
    input: { channel: 'web' },
    startedAt: at(0),
  });
const step = (stepId: string) => ({ stepId, name: stepId, kind: 'tool' as const });
const draft = (draftVersion: number, description: string) =>
  event('DraftSaved', {
    draftId: 'main',
    draftVersion,
    kind: 'claim',
    content: {
      salt: '5a'.repeat(16),
      notice: {
        policyNumber: 'P-100',
        lossDate: '2026-02-20',
        lossType: 'glass',
        description,
        estimatedAmount: amount,
      },
    },
    digest: digest(draftVersion),
    savedAt: at(draftVersion),
  });
const asked = (n: number, draftVersion: number) =>
  event('ApprovalRequested', {
    approvalId: `anna.${n}`,
    draftId: 'main',
    draftVersion,
    digest: digest(draftVersion),
    summary: 'A stone hit the windscreen.',
    basedOn: [],
    requestedBy: worker,
    requires: { signatures: 1, authority: amount },
    executeWithinSeconds: 86_400,
    requestedAt: at(5),
    expiresAt: at(30),
  });
const granted = (n: number, draftVersion: number) =>
  event('ApprovalGranted', {
    approvalId: `anna.${n}`,
    digest: digest(draftVersion),
    decidedBy: dana,
    grantedAt: at(10),
    executeBy: at(40),
  });
const filing = (n: number) =>
  event('FilingStarted', {
    approvalId: `anna.${n}`,
    draftId: 'main',
    draftVersion: 1,
    digest: digest(1),
    claimId: 'claim-1',
    startedAt: at(11),
  });

const anna = (...events: RunEvent[]) => ({ id: 'anna', events: [started('anna'), ...events] });
const ben = {
  id: 'ben',
  events: [started('ben'), event('PhaseEntered', { phase: 'intake', enteredAt: at(1) })],
};
const annaShown = (minute: number, ...events: RunEvent[]) =>
  present(given(anna(...events), ben).view('anna')!, at(minute));

describe('current checkpoints', () => {
  it('declares what becomes of every stored run event, and no other', () => {
    expect(Object.keys(currentCheckpoints.fold).sort()).toEqual(Object.keys(runEvents).sort());
  });

  it('marks every text of its document as personal or plain', () => {
    expect(unmarkedFields(checkpoint)).toEqual([]);
  });

  it('keeps two runs apart', () => {
    const { then } = given(anna(event('PhaseEntered', { phase: 'drafting', enteredAt: at(1) })), ben);
    const expected = (id: string, phase: string) => ({
      runId: id,
      originRunId: id,
      customerId: `customer-of-${id}`,
      workflow: { name: 'auto-loss', version: '1' },
      input: { channel: 'web' },
      phase,
      steps: { completed: 0, open: [], failed: [], recent: [] },
      drafts: [],
      facts: [],
      approvals: [],
      startedAt: at(0),
      updatedAt: at(0),
    });
    expect(then('anna')).toEqual(expected('anna', 'drafting'));
    expect(then('ben')).toEqual(expected('ben', 'intake'));
  });

  it('keeps who the customer is without showing it', () => {
    const customer = { sub: 'carol', actFor: ['erin'] };
    const begun = started('anna') as Extract<RunEvent, { type: 'RunStarted' }>;
    const view = given({ id: 'anna', events: [event('RunStarted', { ...begun.data, customer })] }).view(
      'anna',
    )!;
    expect(view.doc.customer).toEqual(customer);
    expect(present(view, at(1))).not.toHaveProperty('customer');
  });

  it('counts each step once, whatever was retried', () => {
    const { steps } = annaShown(
      1,
      event('StepStarted', { ...step('fetch-policy'), startedAt: at(1) }),
      event('StepFailed', { ...step('fetch-policy'), error: 'timeout', failedAt: at(2) }),
      event('StepStarted', { ...step('estimate-damage'), startedAt: at(3) }),
      event('StepStarted', { ...step('fetch-policy'), startedAt: at(4) }),
      event('StepCompleted', { ...step('fetch-policy'), output: 'in force', completedAt: at(5) }),
      event('StepFailed', { ...step('call-garage'), failedAt: at(6) }),
    );
    expect(steps).toMatchObject({ total: 3, started: 1, completed: 1, failed: 1 });
    expect(steps.open.map(({ stepId, revision }) => [stepId, revision])).toEqual([['estimate-damage', '3']]);
    expect(steps.recent.map(({ stepId, status }) => [stepId, status])).toEqual([
      ['estimate-damage', 'started'],
      ['fetch-policy', 'completed'],
      ['call-garage', 'failed'],
    ]);
  });

  it('P09: orders a thousand steps of one millisecond by revision alone', () => {
    const keys = Array.from({ length: 1000 }, (_, n) => `step-${(n * 7919) % 1000}`);
    const { steps } = annaShown(
      1,
      ...keys.map((key) => event('StepCompleted', { ...step(key), completedAt: at(1) })),
    );
    expect(steps).toMatchObject({ total: 1000, completed: 1000, started: 0, failed: 0, open: [] });
    expect(steps.recent.map(({ stepId }) => stepId)).toEqual(keys.slice(-10));
  });

  it('shows a draft in its newest version, without its salt', () => {
    const { drafts } = annaShown(1, draft(1, 'A stone.'), draft(2, 'A stone hit the windscreen.'));
    expect(drafts).toEqual([
      {
        draftId: 'main',
        draftVersion: 2,
        kind: 'claim',
        digest: digest(2),
        notice: expect.objectContaining({ description: 'A stone hit the windscreen.' }) as unknown,
        savedAt: at(2),
      },
    ]);
  });

  it.each<[string, number, string, string, RunEvent[]]>([
    ['pending', 29, 'pending', 'waiting', []],
    ['expired', 30, 'expired', 'open', []],
    ['granted', 39, 'granted', 'approved', [granted(1, 1)]],
    ['lapsed', 40, 'lapsed', 'needs-attention', [granted(1, 1)]],
    ['being filed, however late', 59, 'filing', 'filing', [granted(1, 1), filing(1)]],
    [
      'filed',
      59,
      'filed',
      'open',
      [
        granted(1, 1),
        filing(1),
        event('ReceiptNoted', {
          approvalId: 'anna.1',
          draftId: 'main',
          claimId: 'claim-1',
          receiptNumber: 'R-1',
          filedAt: at(12),
          notedAt: at(12),
        }),
      ],
    ],
    [
      'refused by the claims side',
      59,
      'refused',
      'needs-attention',
      [
        granted(1, 1),
        filing(1),
        event('FilingRefused', {
          approvalId: 'anna.1',
          draftId: 'main',
          code: 'already-filed',
          refusedAt: at(12),
        }),
      ],
    ],
    [
      'denied',
      12,
      'denied',
      'open',
      [
        event('ApprovalDenied', {
          approvalId: 'anna.1',
          digest: digest(1),
          decidedBy: dana,
          comment: 'Fraud.',
          deniedAt: at(12),
        }),
      ],
    ],
  ])('shows an approval that is %s', (_name, minute, approval, run, events) => {
    const shown = annaShown(minute, draft(1, 'A stone.'), asked(1, 1), ...events);
    expect([shown.approvals.map(({ status }) => status), shown.status]).toEqual([[approval], run]);
  });

  it('asks of each draft only its newest approval', () => {
    const lapsed = [draft(1, 'A stone.'), asked(1, 1), granted(1, 1)];
    expect(annaShown(41, ...lapsed).status).toBe('needs-attention');
    const again = annaShown(29, ...lapsed, draft(2, 'Two stones.'), asked(2, 2));
    expect([again.status, again.approvals.map(({ status }) => status)]).toEqual([
      'waiting',
      ['lapsed', 'pending'],
    ]);
  });

  it('says how a run ended before anything else', () => {
    const shown = annaShown(
      20,
      draft(1, 'A stone.'),
      asked(1, 1),
      event('ApprovalWithdrawn', {
        approvalId: 'anna.1',
        because: 'run-ended',
        withdrawnBy: worker,
        withdrawnAt: at(20),
      }),
      event('RunCancelled', { reason: 'Reported twice.', cancelledAt: at(20) }),
    );
    expect(shown.status).toBe('cancelled');
    expect(shown.ended).toEqual({ status: 'cancelled', reason: 'Reported twice.', at: at(20) });
    expect(shown.approvals[0]).toMatchObject({ status: 'withdrawn', withdrawal: { because: 'run-ended' } });
  });

  it('keeps the whole worker state and the lease without its secret', () => {
    const shown = annaShown(
      3,
      event('LeaseTaken', {
        number: 1,
        workerId: 'w1',
        holder: 'assistant-1',
        secretDigest: digest(9),
        leaseSeconds: 60,
        takenOver: false,
        takenAt: at(1),
        expiresAt: at(2),
      }),
      event('WorkerStateSaved', {
        content: { kind: 'whole', state: { cursor: 3, at: ['a'] } },
        label: 'after intake',
        savedAt: at(3),
      }),
    );
    expect(shown.lease).toEqual({ number: 1, workerId: 'w1', holder: 'assistant-1', expiresAt: at(2) });
    expect(shown.workerState).toEqual({
      state: { cursor: 3, at: ['a'] },
      label: 'after intake',
      savedAt: at(3),
    });
    expect(JSON.stringify(shown)).not.toContain(digest(9));
  });

  it('refuses an event about an approval that was never asked for', () => {
    expect(() => annaShown(1, granted(1, 1))).toThrow('ApprovalGranted for approval anna.1');
  });
});
