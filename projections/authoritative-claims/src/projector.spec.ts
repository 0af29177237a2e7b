import { type ClaimEvent, claimEvents } from '#libs/domain/claims';
import { unmarkedFields } from '#libs/decider';
import { projectionSpecification } from '#libs/projecting';
import { claimRecord } from './document.js';
import { present, presentProvenance } from './present.js';
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
