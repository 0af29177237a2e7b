import type { ClaimEvent } from '#libs/domain/claims';
import { defineProjection } from '#libs/projecting';
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
  },
});
