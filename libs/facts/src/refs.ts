const WITH_DATE = /^(.+)@(\d{4}-\d{2}-\d{2})$/;

/** Where a fact about a policy is looked up: `<policyNumber>`, or `<policyNumber>@<date>` for one day. */
export function policyRef(ref: string): { policyNumber: string; date?: string } {
  const [, policyNumber, date] = WITH_DATE.exec(ref) ?? [];
  return policyNumber === undefined || date === undefined ? { policyNumber: ref } : { policyNumber, date };
}
