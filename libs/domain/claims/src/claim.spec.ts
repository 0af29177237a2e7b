import { digestOf } from '#libs/canonical';
import { specification } from '#libs/decider';
import {
  approvalId,
  changed,
  claimId,
  customerId,
  digest,
  fileClaim,
  filedClaim,
  receiptNumber,
} from '#libs/domain/examples';
import { claim, claimStream, receiptNumberOf } from './claim.js';

const { given } = specification(claim, (actual, expected) => expect(actual).toStrictEqual(expected));
const otherId = '6a0d7c1e-0000-5000-8000-000000000000';

describe('FileClaim', () => {
  it('files the approved content, with a receipt', () => {
    const filed = given().when(fileClaim);
    filed.then(...filedClaim);
    expect(filed.state().filed).toStrictEqual(filedClaim[0]?.data);
  });

  it('appends nothing for the same approval again, however late', () => {
    given(...filedClaim)
      .when({ ...fileClaim, at: '2026-04-01T00:00:00.000Z' })
      .then();
  });

  it('is refused for another approval of the same draft, with the receipt that stands', () => {
    const origin = { ...fileClaim.origin, approvalId: `${fileClaim.origin.runId}.2` };
    given(...filedClaim)
      .when({ ...fileClaim, origin })
      .thenRefused('already-filed', { claimId, receiptNumber, approvalId });
  });

  it('is refused for content, origin or approval of another digest', () => {
    const other = digestOf(changed);
    given()
      .when({ ...fileClaim, content: changed })
      .thenRefused('digest-mismatch', { digest });
    given()
      .when({ ...fileClaim, origin: { ...fileClaim.origin, digest: other } })
      .thenRefused('digest-mismatch', { digest });
    given()
      .when({ ...fileClaim, approvedDigest: other })
      .thenRefused('digest-mismatch', { digest: other });
  });

  it('is refused under an id that does not follow from tenant, origin run and draft', () => {
    given()
      .when({ ...fileClaim, claimId: otherId })
      .thenRefused('claim-id-mismatch', { claimId: otherId });
    given()
      .when({ ...fileClaim, tenant: 'globex' })
      .thenRefused('claim-id-mismatch', { claimId });
  });
});

describe('the receipt number', () => {
  it('follows from the seed and not from the claim, and can be read out', () => {
    const other = given().when({ ...fileClaim, receiptSeed: 'another seed' });
    expect(other.outcome).toMatchObject([{ data: { receiptNumber: receiptNumberOf('another seed') } }]);
    expect(receiptNumber).toBe(receiptNumberOf(fileClaim.receiptSeed));
    expect(receiptNumber).toMatch(/^R(-[0-9A-HJKMNP-TV-Z]{4}){4}$/);
    expect(receiptNumberOf('another seed')).not.toBe(receiptNumber);
  });
});

describe('the claim stream', () => {
  it('belongs to the customer of the claim, before and after it is filed', () => {
    expect(claimStream.customerOf({}, filedClaim)).toBe(customerId);
    expect(claimStream.customerOf(given(...filedClaim).state(), [])).toBe(customerId);
    expect(() => claimStream.customerOf({}, [])).toThrow('has no customer');
  });

  it('saves and loads its state unchanged', () => {
    const state = given(...filedClaim).state();
    expect(claimStream.load(claimStream.save(state))).toStrictEqual(state);
    expect(claimStream.load(claimStream.save({}))).toStrictEqual({});
  });

  it('refuses an event that it does not know', () => {
    const unknown = { type: 'ClaimRetired', data: {} } as unknown as (typeof filedClaim)[number];
    expect(() => claim.evolve({}, unknown)).toThrow('a claim has no event ClaimRetired');
  });
});
