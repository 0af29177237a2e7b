import { type ClaimEvent, claimEvents } from '#libs/domain/claims';
import { unmarkedFields } from '#libs/decider';
import { projectionSpecification } from '#libs/projecting';
import { claimRecord } from './document.js';
import { present, presentProvenance, presentToCustomer } from './present.js';
import { authoritativeClaims } from './projector.js';

const { given } = projectionSpecification<ReturnType<typeof claimRecord.parse>, ClaimEvent>(
  authoritativeClaims,
);

const filed = (claimId: string, receiptNumber: string, policyNumber: string): ClaimEvent => ({
  type: 'ClaimFiled',
  data: {
    claimId,
    receiptNumber,
    customerId: `customer-of-${claimId}`,
    origin: {
      runId: 'run-1',
      originRunId: 'run-1',
      draftId: 'main',
      draftVersion: 2,
      approvalId: 'run-1.1',
      digest: 'ab'.repeat(32),
      facts: [],
      decidedBy: ['dana'],
      runRevision: '9',
    },
    content: {
      salt: '5a'.repeat(16),
      notice: {
        policyNumber,
        lossDate: '2026-02-20',
        lossType: 'glass',
        description: 'A stone hit the windscreen.',
        estimatedAmount: { amount: '420.00', currency: 'USD' },
      },
    },
    filedAt: '2026-03-01T09:00:00.000Z',
  },
});

const annas = { id: 'anna', events: [filed('anna', 'R-1', 'P-100')] };
const bens = { id: 'ben', events: [filed('ben', 'R-2', 'P-200')], at: '2026-03-02T10:00:00.000Z' };

describe('authoritative claims', () => {
  it('declares what becomes of every stored claim event, and no other', () => {
    expect(Object.keys(authoritativeClaims.fold).sort()).toEqual(Object.keys(claimEvents).sort());
  });

  it('marks every text of its document as personal or plain', () => {
    expect(unmarkedFields(claimRecord)).toEqual([]);
  });

  it('keeps the record of each filed claim apart, without the salt', () => {
    const { then } = given(annas, bens);
    const expected = (id: string, receiptNumber: string, policyNumber: string, updatedAt: string) => ({
      claimId: id,
      customerId: `customer-of-${id}`,
      status: 'filed',
      receipt: { receiptNumber, filedAt: '2026-03-01T09:00:00.000Z' },
      notice: {
        policyNumber,
        lossDate: '2026-02-20',
        lossType: 'glass',
        description: 'A stone hit the windscreen.',
        estimatedAmount: { amount: '420.00', currency: 'USD' },
      },
      provenance: {
        runId: 'run-1',
        originRunId: 'run-1',
        draftId: 'main',
        draftVersion: 2,
        approvalId: 'run-1.1',
        digest: 'ab'.repeat(32),
        facts: [],
        decidedBy: ['dana'],
        runRevision: '9',
        claimRevision: '0',
      },
      updatedAt,
    });
    expect(then('anna')).toEqual(expected('anna', 'R-1', 'P-100', '2026-03-01T09:00:00.000Z'));
    expect(then('ben')).toEqual(expected('ben', 'R-2', 'P-200', '2026-03-02T10:00:00.000Z'));
    expect(claimRecord.safeParse(then('anna')).success).toBe(true);
  });

  it('follows a claim to its settlement and back, and shows the customer no notes of the staff', () => {
    const by = { sub: 'dana', actFor: [] };
    const at = '2026-03-04T09:00:00.000Z';
    const amount = { amount: '9000.00', currency: 'USD' };
    const steps: ClaimEvent[] = [
      { type: 'ClaimAcknowledged', data: { note: 'Taken up.', acknowledgedBy: by, acknowledgedAt: at } },
      { type: 'ClaimAssessed', data: { amount, findings: 'Total loss.', assessedBy: by, assessedAt: at } },
      { type: 'SettlementProposed', data: { amount, payee: 'Anna', proposedBy: by, proposedAt: at } },
      { type: 'ClaimSettled', data: { amount, payee: 'Anna', settledBy: [by], settledAt: at } },
      { type: 'ClaimReopened', data: { reason: 'An invoice came.', reopenedBy: by, reopenedAt: at } },
      { type: 'ClaimWithdrawn', data: { reason: 'Repaired.', withdrawnBy: by, withdrawnAt: at } },
    ];
    const until = (count: number) =>
      given({ ...annas, events: [...annas.events, ...steps.slice(0, count)] }, bens).view('anna')!;
    const statuses = [0, 1, 2, 3, 4, 5, 6].map((count) => until(count).doc.status);
    expect(statuses).toEqual([
      'filed',
      'acknowledged',
      'assessed',
      'assessed',
      'settled',
      'reopened',
      'withdrawn',
    ]);
    const paid = { amount, payee: 'Anna', by, at };
    expect(until(3).doc.proposal).toEqual(paid);
    expect(until(6).doc).toMatchObject({
      acknowledgement: { note: 'Taken up.', by, at },
      assessment: { amount, findings: 'Total loss.', by, at },
      settlements: [{ ...paid, by: [by] }],
      reopening: { reason: 'An invoice came.', by, at },
      withdrawal: { reason: 'Repaired.', by, at },
    });
    expect(until(6).doc).not.toHaveProperty('proposal');
    expect(claimRecord.safeParse(until(6).doc).success).toBe(true);
    for (const count of [3, 6]) {
      const shown = presentToCustomer(until(count));
      expect(shown).toMatchObject({ claimId: 'anna', status: statuses[count] });
      expect(JSON.stringify(shown)).not.toMatch(/Taken up|Total loss|proposal/);
    }
  });

  it('shows a receipt for its own claim, and where the claim came from', () => {
    const view = given(annas, bens).view('ben')!;
    expect(present(view)).toMatchObject({
      claimId: 'ben',
      receipt: { receiptNumber: 'R-2', claimId: 'ben', policyNumber: 'P-200' },
      tenant: 'acme',
      revision: '0',
    });
    expect(presentProvenance(view.doc)).toMatchObject({
      claimId: 'ben',
      runId: 'run-1',
      approvalId: 'run-1.1',
      decidedBy: ['dana'],
      revisions: { run: '9', claim: '0' },
    });
  });
});
