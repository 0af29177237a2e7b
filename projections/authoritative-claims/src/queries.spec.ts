import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { fileClaim, notice, tenant } from '#libs/domain/examples';
import { claimStream } from '#libs/domain/claims';
import { digestOf } from '#libs/canonical';
import { claimIdOf } from '#libs/domain/losses';
import { ProjectionRunner, compareWithFold } from '#libs/projecting';
import { TestStores } from '#test/projecting';
import type { ClaimRecord } from './document.js';
import { present } from './present.js';
import { authoritativeClaims } from './projector.js';
import { ClaimQueries } from './queries.js';

const PATIENCE = 5_000;
const viewer = { tenant };
const [ann, ben] = [randomUUID(), randomUUID()];
const actor = { sub: 'file-approved-claim', roles: ['system'], actFor: [] };

let stores: TestStores;
let queries: ClaimQueries;
let runner: ProjectionRunner<ClaimRecord>;

beforeAll(async () => {
  stores = await TestStores.start();
  queries = new ClaimQueries(stores);
  runner = new ProjectionRunner(authoritativeClaims, stores);
  runner.start();
});
afterAll(async () => {
  await runner.stop();
  await stores.close();
});

async function file(customerId: string, policyNumber: string, runId = randomUUID()) {
  const claimId = claimIdOf(tenant, runId, 'collision');
  const content = { salt: '5a'.repeat(16), notice: { ...notice, policyNumber } };
  const digest = digestOf(content);
  const origin = { ...fileClaim.origin, runId, originRunId: runId, digest };
  const command = { ...fileClaim, claimId, customerId, origin, content, approvedDigest: digest };
  const context = { actor, commandId: randomUUID(), bodyDigest: 'test', at: fileClaim.at };
  const call = { tenant, id: claimId, context, command, creates: true, answer: () => undefined };
  const { position } = await stores.log.handle(claimStream, call);
  return { claimId, position };
}

describe('authoritative claims', () => {
  it('equal the plain fold through stops, and are found by customer and policy number', async () => {
    const row = fc.record({ customer: fc.nat(1), policy: fc.nat(3), stop: fc.nat(5) });
    const filed: { claimId: string; customer: number; policy: number }[] = [];
    await fc.assert(
      fc.asyncProperty(fc.array(row, { minLength: 3, maxLength: 8 }), async (rows) => {
        let position = 0n;
        for (const { customer, policy, stop } of rows) {
          const claim = await file([ann, ben][customer]!, `PA-${policy}`);
          filed.push({ claimId: claim.claimId, customer, policy });
          position = claim.position;
          if (stop > 0) continue;
          await runner.stop();
          runner = new ProjectionRunner(authoritativeClaims, stores);
          runner.start();
        }
        expect(await runner.waitFor(position, PATIENCE)).toBe(true);
      }),
      { numRuns: 3 },
    );
    const ids = async (
      filters: Parameters<ClaimQueries['list']>[1],
      who: Parameters<ClaimQueries['list']>[0] = viewer,
    ) => (await queries.list(who, filters, { limit: 200 })).items.map(({ claimId }) => claimId);
    const expected = (test: (claim: (typeof filed)[number]) => boolean) =>
      filed
        .filter(test)
        .map(({ claimId }) => claimId)
        .reverse();
    expect(await ids({ status: 'filed' })).toEqual(expected(() => true));
    for (const policy of [0, 1, 2, 3]) {
      const policyNumber = `PA-${policy}`;
      expect(await ids({ policyNumber })).toEqual(expected((claim) => claim.policy === policy));
      expect(await ids({ policyNumber }, { tenant, customerId: ben })).toEqual(
        expected((claim) => claim.policy === policy && claim.customer === 1),
      );
    }
    expect(await ids({ customerId: ann })).toEqual(expected(({ customer }) => customer === 0));
    expect(await ids({ customerId: ann }, { tenant, customerId: ben })).toEqual([]);
    expect(await ids({}, { tenant: 'other' })).toEqual([]);
    const comparison = await compareWithFold(authoritativeClaims, stores);
    expect(comparison).toEqual({ compared: filed.length, missing: [], extra: [], differing: [] });
  });

  it('show in a list what the single read shows, and rest with nothing personal in the clear', async () => {
    const { claimId, position } = await file(ann, 'MARKER-POLICY');
    expect(await runner.waitFor(position, PATIENCE)).toBe(true);
    const { items } = await queries.list(viewer, {}, { limit: 1 });
    const single = (await queries.claim({ tenant, customerId: ann }, claimId))!;
    expect(items).toEqual([present(single)]);
    expect(items[0]).toMatchObject({ claimId, status: 'filed', receipt: { policyNumber: 'MARKER-POLICY' } });
    expect(await queries.claim({ tenant, customerId: ben }, claimId)).toBeUndefined();
    const [stored] = await stores.models
      .openReadModel('authoritative-claims')
      .collection('documents-v1')
      .find({ id: claimId })
      .project({ _id: 0, revision: 0, position: 0, created: 0 })
      .toArray();
    expect(JSON.stringify(stored)).toContain(claimId);
    expect(JSON.stringify(stored)).not.toContain('MARKER');
  });

  it('compare as missing, extra or differing when the read model was changed by hand', async () => {
    const documents = stores.models
      .openReadModel('authoritative-claims')
      .collection<{ _id: string; id: string; status: string }>('documents-v1');
    const [changed, gone, kept] = await documents.find().toArray();
    await documents.updateOne({ _id: changed!._id }, { $set: { status: 'settled' } });
    await documents.deleteOne({ _id: gone!._id });
    await documents.insertOne({ ...kept!, _id: 'acme.none', id: 'none' });
    expect(await compareWithFold(authoritativeClaims, stores)).toMatchObject({
      missing: [gone!._id],
      extra: ['acme.none'],
      differing: [changed!._id],
    });
  });
});
