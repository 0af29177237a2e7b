import fc from 'fast-check';
import { customerId, people } from '#libs/domain/examples';
import type { LeaseShown, Run } from '#libs/domain/runs';
import type { Standing } from '#libs/domain/staff';
import { type Job, type RunLog, staff, TWO_PERSON_LIMIT, type World } from './world.js';

/** One move of somebody; what the numbers stand for depends on how the world is when it is made. */
export interface Move {
  readonly kind: keyof typeof weights;
  readonly run: number;
  readonly who: number;
  readonly pick: number;
  /** Now and then what is shown is not what it should be. */
  readonly wrong: boolean;
  readonly waitSeconds: number;
}

const weights = {
  start: 3,
  resume: 14,
  beat: 3,
  work: 4,
  record: 14,
  draft: 10,
  ask: 22,
  decide: 26,
  delegate: 4,
  withdraw: 2,
  react: 60,
  die: 4,
  fork: 3,
  end: 1,
  truth: 4,
  source: 3,
  register: 2,
} as const;
const kinds = Object.entries(weights) as [keyof typeof weights, number][];

export const move: fc.Arbitrary<Move> = fc.record({
  kind: fc.oneof(...kinds.map(([kind, weight]) => ({ weight, arbitrary: fc.constant(kind) }))),
  run: fc.nat(5),
  who: fc.nat(11),
  pick: fc.nat(59),
  wrong: fc.nat(11).map((n) => n === 0),
  waitSeconds: fc.oneof(
    { weight: 40, arbitrary: fc.integer({ min: 0, max: 12 }) },
    { weight: 3, arbitrary: fc.integer({ min: 60, max: 400 }) },
    { weight: 1, arbitrary: fc.integer({ min: -90, max: -1 }) },
  ),
});

const WORKERS = 3;
const DRAFTS = ['collision', 'glass'];
const FACTS = ['in-force', 'duplicate', 'wish', 'stated'];
const SOURCES = ['policy', 'claims', 'profile', 'statement'] as const;
const RECHECKS = ['both', 'on-execution', 'both', 'both', 'on-resume', 'never'] as const;

const deciders = [staff.dana, staff.dana, staff.sam, staff.sam, staff.alex, staff.alex, staff.alex];
const others = [people.carol, { sub: 'mia', actFor: ['carol'] }, { sub: 'worker-0', actFor: [] }];
const parties = [...deciders, ...deciders.slice(2), ...others];

const workerOf = ({ who }: Move) => `worker-${who % WORKERS}`;
const pickOf = <T>(list: readonly T[], pick: number): T | undefined => list[pick % list.length];

/** Of the worker that holds the lease; now and then of another, or none. */
function shownBy(move: Move, world: World, { runId, state }: RunLog): LeaseShown | undefined {
  if (move.wrong && move.pick % 4 === 0) return undefined;
  const worker = move.wrong ? workerOf(move) : (state.lease?.holder ?? workerOf(move));
  return world.taken.get(`${worker} ${runId}`);
}

/** What makes a move; runs that have ended are seldom chosen. */
export function play(move: Move, world: World): void {
  world.now += move.waitSeconds * 1000;
  const live = world.runs.filter(({ state }) => !state.ended);
  if (live.length < 2 || (move.kind === 'start' && live.length < 5)) return begin(move, world);
  if (around[move.kind]) return around[move.kind]?.(move, world);
  const suited = live.filter((log) => isSuited(move.kind, log));
  const log = pickOf(move.wrong ? world.runs : (suited.length > 0 ? suited : live).slice(-4), move.run);
  if (log) inRun[move.kind]?.(move, world, log);
}

/** Whether a move can come to anything in a run. */
function isSuited(kind: Move['kind'], { state }: RunLog): boolean {
  const waits = [...state.approvals.values()].some(
    ({ stage, superseded }) => stage === 'pending' && !superseded,
  );
  if (kind === 'decide' || kind === 'delegate' || kind === 'withdraw') return waits;
  if (kind === 'ask') return state.drafts.size > 0 && !waits;
  return kind !== 'end' || !waits;
}

function begin(move: Move, world: World): void {
  const log = world.newRun();
  const { runId } = log;
  const workflow = { name: 'w', version: '1' };
  world.send(log, { type: 'StartRun', runId, workflow, customerId, customer: people.carol, at: world.at });
  resume({ ...move, wrong: false }, world, log);
}

const around: Partial<Record<Move['kind'], (move: Move, world: World) => void>> = {
  react({ run, pick, who }, world) {
    const waiting = world.jobs.filter(({ next }) => next !== 'done');
    const job = pickOf(pick % 7 === 0 ? world.jobs.slice(-8) : waiting.slice(-6), run);
    for (let steps = 0; job && steps < 1 + (who % 4); steps += 1) world.advance(job);
  },
  /** A process ends and another one takes the event up from its beginning, also long after it was done. */
  die({ run }, world) {
    const job = pickOf(world.jobs.slice(-6), run);
    if (job) Object.assign(job, { next: 'look', readings: [], filing: undefined, outcome: undefined });
  },
  truth({ pick }, world) {
    const name = pickOf(FACTS, pick) ?? '';
    world.truth.set(name, (world.truth.get(name) ?? 0) + 1);
  },
  source({ pick }, world) {
    const name = pickOf(FACTS, pick) ?? '';
    if (!world.down.delete(name)) world.down.add(name);
  },
  register({ pick }, world) {
    const sub = pickOf(Object.keys(staff), pick) ?? '';
    if (world.register.delete(sub)) return;
    const limit = { amount: sub === 'dana' ? '1500.00' : '70000.00', currency: 'USD' };
    world.register.set(sub, { roles: [sub === 'dana' ? 'adjuster' : 'supervisor'], authorityLimit: limit });
  },
};

const inRun: Partial<Record<Move['kind'], (move: Move, world: World, log: RunLog) => void>> = {
  resume,
  beat(move, world, { runId, state }) {
    const { number = 0 } = state.lease ?? {};
    const expiresAt = new Date(world.now + 30_000).toISOString();
    world.heartbeats.set(runId, { number, expiresAt, closed: move.pick % 3 === 0 });
  },
  work(move, world, log) {
    const worker = { lease: shownBy(move, world, log), at: world.at };
    const status = pickOf(['started', 'completed', 'failed'] as const, move.pick) ?? 'started';
    const step = { stepId: `step-${move.who}`, name: 'A step', kind: 'tool', status } as const;
    world.send(log, { type: 'RecordStep', ...step, ...worker });
  },
  record(move, world, log) {
    const { pick, wrong } = move;
    const index = pick % FACTS.length;
    const [name = '', kind = 'policy'] = [FACTS[index], SOURCES[index]];
    const value = (world.truth.get(name) ?? 0) + (wrong ? 1 : 0);
    const recheck = pickOf(RECHECKS, (pick >> 2) % 7) ?? 'both';
    const age = kind === 'statement' || pick % 9 === 0 ? { maxAgeSeconds: 200 } : {};
    const fact = { name, value, source: { kind }, recheck, required: pick % 3 > 0, ...age };
    world.send(log, { type: 'RecordFacts', facts: [fact], lease: shownBy(move, world, log), at: world.at });
  },
  draft(move, world, log) {
    const draftId = pickOf(DRAFTS, move.pick) ?? '';
    const content = world.content(move.pick >> 1);
    world.send(log, { type: 'SaveDraft', draftId, content, lease: shownBy(move, world, log), at: world.at });
  },
  ask(move, world, log) {
    const { pick, wrong } = move;
    const draftId = pickOf(DRAFTS, pick) ?? '';
    const draftVersion = (log.state.drafts.get(draftId)?.draftVersion ?? 1) - (wrong ? 1 : 0);
    const basedOn = [...log.state.facts.keys()].filter((_, index) => ((pick >> 1) >> index) % 2 === 0);
    const requestedBy = { sub: workerOf(move), actFor: [] };
    const asked = { draftId, draftVersion, summary: 's', basedOn, requestedBy, expiresInSeconds: 300 };
    const limits = { twoPersonLimit: TWO_PERSON_LIMIT, executeWithinSeconds: 240 };
    const lease = shownBy(move, world, log);
    world.send(log, { type: 'RequestApproval', ...asked, ...limits, lease, at: world.at });
  },
  decide(move, world, log) {
    const approval = openIn(log, move);
    const decidedBy = pickOf(parties, move.who) ?? people.carol;
    const decision = move.pick % 12 === 0 ? 'deny' : 'grant';
    const shown = { approvalId: approval?.approvalId ?? `${log.runId}.1`, digest: approval?.digest ?? '' };
    const digest = move.wrong ? world.fresh('digest') : shown.digest;
    const standing = standingOf(world, decidedBy.sub);
    world.send(log, {
      type: 'DecideApproval',
      ...shown,
      digest,
      decision,
      decidedBy,
      standing,
      at: world.at,
    });
  },
  delegate(move, world, log) {
    const { approvalId = `${log.runId}.1` } = openIn(log, move) ?? {};
    const delegatedBy = pickOf(parties, move.who) ?? people.carol;
    const standing = standingOf(world, delegatedBy.sub);
    const lent = { approvalId, to: 'dana', delegatedBy, standing, expiresInSeconds: move.pick * 5 };
    world.send(log, { type: 'DelegateApproval', ...lent, at: world.at });
  },
  withdraw(move, world, log) {
    const { approvalId = '', requestedBy } = openIn(log, move) ?? {};
    const withdrawnBy = (move.wrong ? undefined : requestedBy) ?? people.sam;
    world.send(log, { type: 'WithdrawApproval', approvalId, withdrawnBy, at: world.at });
  },
  fork,
  end(move, world, log) {
    const worker = { lease: shownBy(move, world, log), at: world.at };
    const type = pickOf(['CompleteRun', 'FailRun', 'CancelRun'] as const, move.pick) ?? 'CancelRun';
    world.send(log, { type, endedBy: people.sam, ...worker });
  },
};

function resume(move: Move, world: World, log: RunLog): void {
  const holder = workerOf(move);
  const secretDigest = world.fresh('secret');
  const readings = world.look(log, { kind: 'resume', lease: (log.state.lease?.number ?? 0) + 1 });
  const seen = world.heartbeats.get(log.runId);
  const taken = { workerId: holder, holder, secretDigest, leaseSeconds: 30, takeOver: move.wrong };
  const late = move.wrong && move.pick % 2 ? readings.map((each) => ({ ...each, version: 0 })) : readings;
  const command = {
    type: 'TakeLease',
    ...taken,
    readings: late,
    ...(seen && { seen }),
    at: world.at,
  } as const;
  if (world.send(log, command) === undefined)
    world.taken.set(`${holder} ${log.runId}`, { number: log.state.lease?.number ?? 0, secretDigest, holder });
}

function fork(move: Move, world: World, log: RunLog): void {
  const revision = Math.max(0, log.history.length - 1 - (move.pick % 8));
  const source = world.upTo(log, revision);
  const { state } = log;
  const forked = world.newRun(log.originRunId);
  const refused = world.send(forked, {
    type: 'ForkRun',
    runId: forked.runId,
    forkedFrom: { runId: log.runId, revision: String(revision) },
    source,
    openAt: log.history[revision]?.at ?? world.at,
    heldLease: state.lease,
    endedNow: state.ended,
    bySupervisor: move.pick % 3 === 0,
    lease: shownBy(move, world, log),
    at: world.at,
  });
  if (refused === undefined) resume({ ...move, wrong: false }, world, forked);
  else world.runs.splice(world.runs.indexOf(forked), 1);
}

/** Mostly the newest approval that waits. */
function openIn({ state }: RunLog, { pick, wrong }: Move) {
  const approvals = [...state.approvals.values()];
  const open = approvals.filter(({ stage, superseded }) => stage === 'pending' && !superseded);
  return pickOf(wrong || open.length === 0 ? approvals.slice(-3) : open, pick);
}

function standingOf(world: World, sub: string): Standing {
  const interested = { roles: ['supervisor' as const] };
  return world.register.get(sub) ?? (sub in staff ? { roles: [] } : interested);
}

/** Whatever was begun ends, however late: no filing stays open. */
export function drain(world: World): void {
  world.down.clear();
  world.now += 3 * 86_400_000;
  const ends = (job: Job) => {
    for (let steps = 0; job.next !== 'done'; steps += 1) {
      if (steps > 9) throw new Error('a filing does not end');
      world.advance(job);
    }
  };
  for (const job of world.jobs) {
    if (job.next === 'look' || job.next === 'start') job.readings = [];
    ends(job);
  }
}

export type { Run };
