import type { View } from '#libs/projecting';
import type { ClaimRecord } from './document.js';

/** The authoritative record as a reader is shown it: a single read and a list item are both made here. */
export function present({ doc, tenant, revision }: View<ClaimRecord>) {
  const { provenance: _, ...rest } = doc;
  return { ...rest, tenant, receipt: presentReceipt(doc), revision: revision.toString() };
}

/** For the customer: without what staff note for each other. */
export function presentToCustomer(view: View<ClaimRecord>) {
  const { acknowledgement: _, assessment: __, proposal: ___, ...shown } = present(view);
  return shown;
}

export function presentReceipt({ claimId, receipt, notice }: ClaimRecord) {
  return { ...receipt, claimId, policyNumber: notice.policyNumber };
}

/** The way back from a claim: revisions name the run's event from which it was filed and the claim's own. */
export function presentProvenance({ claimId, provenance }: ClaimRecord) {
  const { runRevision, claimRevision, ...origin } = provenance;
  return { claimId, ...origin, revisions: { run: runRevision, claim: claimRevision } };
}
export type PresentedClaim = ReturnType<typeof present>;
