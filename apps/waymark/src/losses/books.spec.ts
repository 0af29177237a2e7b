import { claim } from '#libs/domain/claims';
import { approvalId, deniedByDana, digest, draftId, filedClaim, receiptNumber } from '#libs/domain/examples';
import { run } from '#libs/domain/runs';
import { sameClaim, sameRun } from './books.js';

const at = '2026-03-02T10:00:00.000Z';

describe('the books', () => {
  const state = deniedByDana.reduce((folded, event) => run.evolve(folded, event), run.initialState());
  const drafts = [{ draftId, draftVersion: 1, digest }];
  const shown = { status: 'open', drafts, approvals: [{ approvalId, status: 'denied' }] };

  it.each([
    ['is shown as it is', {}, true],
    ['has another status', { status: 'waiting' }, false],
    ['has another version of its draft', { drafts: [{ draftId, draftVersion: 2, digest }] }, false],
    ['has another digest', { drafts: [{ draftId, draftVersion: 1, digest: 'x' }] }, false],
    ['lacks its draft', { drafts: [] }, false],
    ['has an approval that went another way', { approvals: [{ approvalId, status: 'granted' }] }, false],
    ['lacks its approval', { approvals: [] }, false],
  ])('notice of a run that it %s', (_how, change, same) => {
    expect(sameRun({ ...shown, ...change }, state, at)).toBe(same);
  });

  it('notice another receipt or digest of a claim', () => {
    const filed = filedClaim.reduce((folded, event) => claim.evolve(folded, event), claim.initialState());
    const record = { receipt: { receiptNumber }, provenance: { digest } };
    expect(sameClaim(record, filed)).toBe(true);
    expect(sameClaim({ ...record, receipt: { receiptNumber: 'R-1' } }, filed)).toBe(false);
    expect(sameClaim({ ...record, provenance: { digest: 'x' } }, filed)).toBe(false);
  });
});
