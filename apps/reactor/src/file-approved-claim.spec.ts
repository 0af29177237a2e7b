import { randomUUID } from 'node:crypto';
import { claimIdOf } from '#libs/domain/losses';
import { digest, people, registerDana, seconds, standings, tenant } from '#libs/domain/examples';
import { type Run, runStream } from '#libs/domain/runs';
import { StoreUnavailable, type StoredEvent, UnreadableEvent, verifyChain } from '#libs/event-store';
import { ReactionRunner } from '#libs/reacting';
import { TestStores, grantedRun, register, send } from '#test/projecting';
import { type FilingStores, fileApprovedClaim } from './file-approved-claim.js';

const PATIENCE = 5_000;
let stores: TestStores;
let time = seconds(700);

beforeAll(async () => {
  stores = await TestStores.start();
});
beforeEach(() => {
  time = seconds(700);
});
afterAll(() => stores.close());

const now = () => Date.parse(time);
/** These runs rest on no facts. */
const rechecks: FilingStores['rechecks'] = { with: (_run, _on, command) => command([]) };
const healthy = (): FilingStores => ({
  events: stores.log,
  vault: stores.vault,
  rechecks,
  now,
  notice: stores.notice,
});

async function reacted(events: FilingStores, until: bigint): Promise<ReactionRunner> {
  const runner = new ReactionRunner(fileApprovedClaim(events), stores);
  runner.start();
  expect(await runner.waitFor(until, PATIENCE)).toBe(true);
  await runner.stop();
  return runner;
}

async function history(stream: string): Promise<StoredEvent[]> {
  const events = [];
  for await (const event of stores.log.read(stream)) events.push(event);
  return events;
}
const types = (events: StoredEvent[]) => events.map(({ type }) => type);
const claimOf = (runId: string) => `claim-${tenant}.${claimIdOf(tenant, runId, 'collision')}`;

describe('filing an approved claim', () => {
  it('files what was approved, once, and notes its receipt', async () => {
    const runId = randomUUID();
    const { approvalId, position } = await grantedRun(stores, runId);
    await reacted(healthy(), position);
    await reacted(healthy(), position);
    const claim = await history(claimOf(runId));
    const run = await history(`run-${tenant}.${runId}`);
    expect(types(claim)).toEqual(['ClaimFiled']);
    expect(claim[0]?.data).toMatchObject({
      customer: people.carol,
      origin: { runId, approvalId, digest, decidedBy: [people.dana.sub], runRevision: '5' },
      filedAt: time,
    });
    expect(types(run).slice(-3)).toEqual(['ApprovalGranted', 'FilingStarted', 'ReceiptNoted']);
    expect(run.at(-1)?.data).toMatchObject({ approvalId, receiptNumber: claim[0]?.data['receiptNumber'] });
    expect(run.at(-1)?.metadata.actor).toEqual({ sub: 'file-approved-claim', roles: ['system'], actFor: [] });
  });

  it.each([
    ['before', 1],
    ['after', 1],
    ['before', 2],
    ['after', 2],
    ['before', 3],
    ['after', 3],
  ] as const)('leads to the same claim when killed %s step %i', async (moment, step) => {
    const runId = randomUUID();
    const { position } = await grantedRun(stores, runId);
    const killed = killedAt(moment, step, runId);
    const first = new ReactionRunner(fileApprovedClaim({ ...healthy(), events: killed.events }), stores);
    first.start();
    await killed.reached;
    time = seconds(720);
    await reacted(healthy(), position);
    const stopped = first.stop();
    killed.end();
    await stopped;
    expect(types(await history(claimOf(runId)))).toEqual(['ClaimFiled']);
    expect(types(await history(`run-${tenant}.${runId}`)).slice(-3)).toEqual([
      'ApprovalGranted',
      'FilingStarted',
      'ReceiptNoted',
    ]);
  });

  it('is the same claim when the repetition comes after its commands are forgotten', async () => {
    const runId = randomUUID();
    const { position } = await grantedRun(stores, runId);
    const killed = killedAt('after', 1, runId);
    const first = new ReactionRunner(fileApprovedClaim({ ...healthy(), events: killed.events }), stores);
    first.start();
    await killed.reached;
    time = seconds(3 * 86_400);
    await reacted(healthy(), position);
    const stopped = first.stop();
    killed.end();
    await stopped;
    const claim = await history(claimOf(runId));
    expect(claim.map(({ data }) => data['origin'])).toMatchObject([{ runRevision: '5' }]);
    expect(types(await history(`run-${tenant}.${runId}`)).at(-1)).toBe('ReceiptNoted');
  });

  it.each(['before', 'after'] as const)(
    'is refused as filed already when the claim was retired %s it was filed',
    async (moment) => {
      const runId = randomUUID();
      const { approvalId, position } = await grantedRun(stores, runId);
      const killed = killedAt(moment, 2, runId);
      const first = new ReactionRunner(fileApprovedClaim({ ...healthy(), events: killed.events }), stores);
      first.start();
      await killed.reached;
      await stores.tombstone(claimOf(runId));
      const runner = await reacted(healthy(), position);
      const stopped = first.stop();
      killed.end();
      await stopped;
      const run = await history(`run-${tenant}.${runId}`);
      expect(types(run).slice(-3)).toEqual(['ApprovalGranted', 'FilingStarted', 'FilingRefused']);
      expect(run.at(-1)?.data).toMatchObject({ approvalId, code: 'already-filed' });
      expect(runner.status()).toMatchObject({ deadLetters: 0, unfinished: 0 });
      const cancel = { type: 'CancelRun', endedBy: people.dana, at: seconds(800) } as const;
      expect(await send(stores, runId, cancel)).toMatchObject({ appended: 1 });
    },
  );

  it.each(['erased', 'damaged'] as const)('ends as refused when the key of the draft is %s', async (how) => {
    const owner = randomUUID();
    const runId = randomUUID();
    const { approvalId, position } = await grantedRun(stores, runId, owner);
    await stores.spoilKey(owner, 'run', how);
    const later = await stores.another();
    const runner = await reacted({ ...healthy(), events: later.log, vault: later.vault }, position);
    expect(runner.status()).toMatchObject({ deadLetters: 0, unfinished: 0 });
    const run = await history(`run-${tenant}.${runId}`);
    expect(types(run).slice(-3)).toEqual(['ApprovalGranted', 'FilingStarted', 'FilingRefused']);
    expect(run.at(-1)?.data).toMatchObject({ approvalId, code: 'draft-unopenable' });
    expect(await verifyChain(run)).toMatchObject({ verdict: 'intact' });
    expect(await history(claimOf(runId))).toEqual([]);
    await reacted({ ...healthy(), events: later.log, vault: later.vault }, position);
    expect(await history(`run-${tenant}.${runId}`)).toHaveLength(run.length);
    await later.close();
  });

  it.each([
    ['granted', []],
    ['being filed', ['FilingStarted']],
  ])('ends as refused in a fork whose key is erased once it is %s', async (_moment, started) => {
    const [owner, runId, fork] = [randomUUID(), randomUUID(), randomUUID()];
    await grantedRun(stores, runId, owner);
    const source = (await stores.log.fold(runStream, tenant, runId, { upTo: 3n }))?.state as Run;
    const by = { heldLease: undefined, endedNow: undefined, lease: undefined, bySupervisor: true };
    const forkedFrom = { runId, revision: '3' };
    const whole = { source, openAt: seconds(30), runId: fork, forkedFrom, ...by };
    await send(stores, fork, { type: 'ForkRun', ...whole, at: seconds(500) });
    const approvalId = `${fork}.1`;
    const signed = { decidedBy: people.dana, standing: standings.dana };
    const decided = { approvalId, decision: 'grant' as const, digest, ...signed };
    const granted = await send(stores, fork, { type: 'DecideApproval', ...decided, at: seconds(600) });
    const filing = { type: 'StartFiling', tenant, approvalId, standings, at: seconds(650) } as const;
    const last = started.length > 0 ? await send(stores, fork, filing) : granted;
    await stores.spoilKey(owner, 'run', 'erased');
    const later = await stores.another();
    const reacting = { ...healthy(), events: later.log, vault: later.vault };
    const runner = await reacted(reacting, last?.position ?? 0n);
    expect(runner.status()).toMatchObject({ deadLetters: 0, unfinished: 0 });
    const run = await history(`run-${tenant}.${fork}`);
    expect(types(run)).toEqual(['RunForked', 'ApprovalGranted', 'FilingStarted', 'FilingRefused']);
    expect(run.at(-1)?.data).toMatchObject({ approvalId, code: 'draft-unopenable' });
    await later.close();
  });

  it('ends as refused when the stored draft is not what was sealed', async () => {
    const [runId, altered] = [randomUUID(), randomUUID()];
    const { position } = await grantedRun(stores, runId);
    await reacted(healthy(), position);
    const before = (await history(`run-${tenant}.${runId}`)).slice(0, 5);
    const until = await stores.append(`run-${tenant}.${altered}`, ...before.map(elsewhere(altered)));
    const runner = await reacted(healthy(), until);
    expect(runner.status()).toMatchObject({ deadLetters: 0, unfinished: 0 });
    const run = await history(`run-${tenant}.${altered}`);
    expect(types(run).slice(-2)).toEqual(['FilingStarted', 'FilingRefused']);
    expect(run.at(-1)?.data).toMatchObject({ approvalId: `${altered}.1`, code: 'draft-unopenable' });
    const cancel = { type: 'CancelRun', endedBy: people.dana, at: seconds(800) } as const;
    await expect(send(stores, altered, cancel)).rejects.toThrow(UnreadableEvent);
  });

  it('P22: files nothing on a right that was taken away since, and the run says so', async () => {
    const runId = randomUUID();
    const { approvalId, position } = await grantedRun(stores, runId);
    await register(stores, { ...registerDana, active: false, at: seconds(650) });
    await reacted(healthy(), position);
    await reacted(healthy(), position);
    const run = await history(`run-${tenant}.${runId}`);
    expect(types(run).slice(-2)).toEqual(['ApprovalGranted', 'ApprovalInvalidated']);
    expect(run.at(-1)?.data).toMatchObject({ approvalId, cause: { kind: 'rights-changed', sub: 'dana' } });
    expect(await history(claimOf(runId))).toEqual([]);
    await register(stores, { ...registerDana, at: seconds(660) });
  });

  it('leaves a grant that no longer holds as it is', async () => {
    const lapsed = await grantedRun(stores, randomUUID());
    const cancelledRun = randomUUID();
    await grantedRun(stores, cancelledRun);
    const cancel = { type: 'CancelRun', endedBy: people.dana, at: seconds(650) } as const;
    const { position } = (await send(stores, cancelledRun, cancel))!;
    time = seconds(600 + 86_400);
    const told = stores.told.length;
    const runner = await reacted(healthy(), position);
    expect(stores.told.slice(told).map(({ fields }) => [fields['approvalId'], fields['code']])).toEqual(
      expect.arrayContaining([
        [lapsed.approvalId, 'approval-lapsed'],
        [`${cancelledRun}.1`, 'approval-withdrawn'],
      ]),
    );
    expect(runner.status()).toMatchObject({ deadLetters: 0, unfinished: 0 });
    expect(await history(claimOf(cancelledRun))).toEqual([]);
  });
});

/** What a stored event of one run would be in another: sealed for another place, nothing in it opens. */
function elsewhere(runId: string) {
  return ({ type, data }: StoredEvent) => ({
    type,
    data: {
      ...data,
      ...('runId' in data && { runId, originRunId: runId }),
      ...('approvalId' in data && { approvalId: `${runId}.1` }),
    },
  });
}

/** The stores of a process that is killed before or after its n-th command for a run: that one never returns. */
function killedAt(moment: 'before' | 'after', step: number, runId: string) {
  let commands = 0;
  let reach: () => void = () => undefined;
  let end: () => void = () => undefined;
  const reached = new Promise<void>((resolve) => (reach = resolve));
  const dead = new Promise<never>((_, reject) => (end = () => reject(new StoreUnavailable('killed'))));
  dead.catch(() => 'the process is gone');
  const handle: FilingStores['events']['handle'] = async (kind, call) => {
    const concerned = call.id === runId || call.id === claimIdOf(tenant, runId, 'collision');
    const here = concerned && (commands += 1) === step;
    if (here && moment === 'before') return (reach(), dead);
    const handled = await stores.log.handle(kind, call);
    return here ? (reach(), dead) : handled;
  };
  const { log } = stores;
  return { events: { handle, read: log.read.bind(log), fold: log.fold.bind(log) }, reached, end };
}
