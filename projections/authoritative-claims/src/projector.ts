import type { ClaimEvent } from '#libs/domain/claims';
import type { DomainEvent } from '#libs/decider';
import { defineProjection, type Fold } from '#libs/projecting';
import { type ClaimRecord, claimRecord } from './document.js';

export const authoritativeClaims = defineProjection<ClaimRecord, ClaimEvent>({
  name: 'authoritative-claims',
  version: 1,
  category: 'claim',
  document: claimRecord,
  indexes: [
    { key: { tenant: 1, created: -1 } },
    { key: { tenant: 1, customerId: 1, created: -1 } },
    { key: { tenant: 1, 'search.policyNumber': 1, created: -1 } },
  ],
  customerOf: (doc) => doc.customerId,
  search: { policyNumber: (doc) => doc.notice.policyNumber },
  fold: {
    ClaimFiled: {
      begins: ({ data, revision, metadata }) => ({
        claimId: data.claimId,
        customerId: data.customerId,
        status: 'filed',
        receipt: { receiptNumber: data.receiptNumber, filedAt: data.filedAt },
        notice: data.content.notice,
        provenance: { ...data.origin, claimRevision: revision.toString() },
        updatedAt: metadata.recordedAt,
      }),
    },
    ClaimAcknowledged: becoming('acknowledged', (_, { note, acknowledgedBy, acknowledgedAt }) => ({
      acknowledgement: { ...(note !== undefined && { note }), by: acknowledgedBy, at: acknowledgedAt },
    })),
    ClaimAssessed: becoming('assessed', (_, { assessedBy, assessedAt, ...assessment }) => ({
      assessment: { ...assessment, by: assessedBy, at: assessedAt },
    })),
    SettlementProposed: updating((doc, { amount, payee, proposedBy, proposedAt }) => ({
      ...doc,
      proposal: { amount, payee, by: proposedBy, at: proposedAt },
    })),
    ClaimSettled: becoming('settled', ({ settlements = [] }, { amount, payee, settledBy, settledAt }) => ({
      settlements: [...settlements, { amount, payee, by: settledBy, at: settledAt }],
    })),
    ClaimRejected: becoming('rejected', (_, { reason, rejectedBy, rejectedAt }) => ({
      rejection: { reason, by: rejectedBy, at: rejectedAt },
    })),
    ClaimWithdrawn: becoming('withdrawn', (_, { reason, withdrawnBy, withdrawnAt }) => ({
      withdrawal: { reason, by: withdrawnBy, at: withdrawnAt },
    })),
    ClaimReopened: becoming('reopened', (_, { reason, reopenedBy, reopenedAt }) => ({
      reopening: { reason, by: reopenedBy, at: reopenedAt },
    })),
  },
});

type Of<Data> = DomainEvent<ClaimEvent['type'], Data>;

function updating<Data>(change: (doc: ClaimRecord, data: Data) => ClaimRecord): Fold<ClaimRecord, Of<Data>> {
  return (doc, { data, metadata }) => ({ ...change(doc, data), updatedAt: metadata.recordedAt });
}

/** What was proposed rested on the state before. */
function becoming<Data>(
  status: ClaimRecord['status'],
  change: (doc: ClaimRecord, data: Data) => Partial<ClaimRecord>,
): Fold<ClaimRecord, Of<Data>> {
  return updating((doc, data) => {
    const { proposal: _, ...rest } = doc;
    return { ...rest, ...change(doc, data), status };
  });
}
