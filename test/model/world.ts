import { digestOf } from '#libs/canonical';
import { isRefusal } from '#libs/decider';
import { claim, type ClaimCommand, type ClaimState } from '#libs/domain/claims';
import { notice, people, tenant } from '#libs/domain/examples';
import { claimIdOf, type SaltedNotice } from '#libs/domain/losses';
import {
  type FactReading,
  factsDue,
  type LeaseShown,
  run,
  type Run,
  type RunCommand,
  type RunEvent,
  type RunState,
} from '#libs/domain/runs';
import type { Standing } from '#libs/domain/staff';
import { checkClaim, checkEvent, type Recorded } from './oracle.js';

export interface RunLog {
  readonly runId: string;
  readonly originRunId: string;
  readonly history: Recorded[];
  state: RunState;
}

/** One carrying out of one grant, as far as it is; what it knows is lost when its process dies. */
export interface Job {
  readonly log: RunLog;
  readonly approvalId: string;
  next: 'look' | 'start' | 'file' | 'conclude' | 'done';
  readings: FactReading[];
  filing?: ReturnType<World['filingOf']>;
  outcome?: { receiptNumber: string; filedAt: string } | { refused: string };
}

const usd = (amount: string) => ({ amount, currency: 'USD' });
export const TWO_PERSON_LIMIT = usd('50000.00');
/** Dana may decide the first two, a supervisor the third, two of them together the last. */
const AMOUNTS = ['800.00', '1250.00', '1800.00', '60000.00'];
export const staff = { dana: people.dana, sam: people.sam, alex: { sub: 'alex', actFor: [] } };
const hired: Record<string, Standing> = {
  dana: { roles: ['adjuster'], authorityLimit: usd('1500.00') },
  sam: { roles: ['supervisor'] },
  alex: { roles: ['supervisor'], authorityLimit: usd('70000.00') },
};

/** Runs, their forks, their claims, and all that is around them: people, workers, sources, a clock. */
export class World {
  now = Date.parse('2026-03-02T09:00:00.000Z');
  readonly runs: RunLog[] = [];
  readonly claims = new Map<string, ClaimState>();
  readonly jobs: Job[] = [];
  /** What the sources would say, and which of them do not answer. */
  readonly truth = new Map<string, number>();
  readonly down = new Set<string>();
  readonly register = new Map(Object.entries(hired));
  /** By worker and run: the lease that each took last, whether or not it is still the newest. */
  readonly taken = new Map<string, LeaseShown>();
  readonly heartbeats = new Map<string, { number: number; expiresAt: string; closed: boolean }>();
  /** What became of the commands: events by type, refusals by code. */
  readonly seen = new Map<string, number>();
  private made = 0;

  get at(): string {
    return new Date(this.now).toISOString();
  }

  /** A name that nothing else in this world has. */
  fresh(kind: string): string {
    this.made += 1;
    return digestOf({ kind, made: this.made });
  }

  newId(): string {
    const hex = this.fresh('id');
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
  }

  newRun(originRunId?: string): RunLog {
    const runId = this.newId();
    const log = { runId, originRunId: originRunId ?? runId, history: [], state: run.initialState() };
    this.runs.push(log);
    return log;
  }

  content(pick: number): SaltedNotice {
    const estimatedAmount = usd(AMOUNTS[pick % AMOUNTS.length] ?? '0');
    return { salt: this.fresh('salt'), notice: { ...notice, estimatedAmount } };
  }

  /** Carries a command out on a run, every event of it checked against what is stored; its refusal, if it is one. */
  send(log: RunLog, command: RunCommand): string | undefined {
    const outcome = run.decide(command, log.state);
    if (isRefusal(outcome)) {
      this.count(outcome.refused);
      return outcome.refused;
    }
    for (const event of outcome) {
      checkEvent(event, command, log, this);
      log.history.push({ event, at: this.at });
      log.state = run.evolve(log.state, event);
      this.count(event.type);
      if (event.type === 'ApprovalGranted') this.hear(log, event.data.approvalId);
    }
    return undefined;
  }

  /** What the run was up to a revision, made of its events alone. */
  upTo(log: RunLog, revision: number): Run {
    const events = log.history.slice(0, revision + 1).map(({ event }) => structuredClone(event));
    return events.reduce((state, event) => run.evolve(state, event), run.initialState()) as Run;
  }

  /** What the sources say now of the facts that are due. */
  look(log: RunLog, on: Parameters<typeof factsDue>[1]): FactReading[] {
    return factsDue(log.state, on).map(({ name, version }) => {
      const found = this.down.has(name) ? undefined : { value: this.truth.get(name) ?? 0 };
      return { name, version, found };
    });
  }

  /** Delivered twice, as it may be. */
  private hear(log: RunLog, approvalId: string): void {
    for (let copy = 0; copy < 2; copy += 1) this.jobs.push({ log, approvalId, next: 'look', readings: [] });
  }

  /** The next thing that a process does for a grant; it may be killed after any of them. */
  advance(job: Job): void {
    const { log, approvalId } = job;
    if (job.next === 'look') {
      job.readings = this.look(log, { kind: 'execution', approvalId });
      job.next = 'start';
    } else if (job.next === 'start') this.start(job);
    else if (job.next === 'file') this.file(job);
    else if (job.next === 'conclude') this.conclude(job);
  }

  private start(job: Job): void {
    const { log, approvalId, readings } = job;
    const standings = Object.fromEntries(this.register);
    const refused = this.send(log, {
      type: 'StartFiling',
      tenant,
      approvalId,
      standings,
      readings,
      at: this.at,
    });
    job.next = refused === 'facts-moved' || refused === 'facts-unavailable' ? 'look' : 'done';
    if (refused !== undefined || log.state.approvals.get(approvalId)?.stage !== 'filing') return;
    job.filing = this.filingOf(job);
    job.next = 'file';
  }

  filingOf({ log, approvalId }: Job) {
    const approval = log.state.approvals.get(approvalId);
    const draft = log.state.drafts.get(approval?.draftId ?? '');
    if (!approval?.filing || !draft) throw new Error('a filing that started is not there');
    const { draftId, draftVersion, digest, basedOn: facts, filing } = approval;
    const origin = { runId: log.runId, originRunId: log.originRunId, draftId, draftVersion, approvalId };
    const content = structuredClone(draft.content);
    return {
      claimId: filing.claimId,
      content,
      origin: { ...origin, digest, facts: [...facts], decidedBy: [], runRevision: '0' },
    };
  }

  private file(job: Job): void {
    const { claimId, content, origin } = job.filing ?? this.filingOf(job);
    const state = this.claims.get(claimId) ?? claim.initialState();
    const command: ClaimCommand = {
      ...{ type: 'FileClaim', tenant, claimId, customerId: job.log.runId, origin, content },
      ...{ approvedDigest: origin.digest, receiptSeed: claimId, at: this.at },
    };
    const outcome = claim.decide(command, state);
    job.next = 'conclude';
    if (isRefusal(outcome)) {
      this.count(`claim: ${outcome.refused}`);
      job.outcome = outcome;
      return;
    }
    for (const event of outcome) {
      if (event.type === 'ClaimFiled') checkClaim(event.data, job.log, this);
      this.claims.set(claimId, claim.evolve(state, event));
      this.count(event.type);
    }
    const { filed } = this.claims.get(claimId) ?? {};
    if (filed) job.outcome = { receiptNumber: filed.receiptNumber, filedAt: filed.filedAt };
  }

  private conclude(job: Job): void {
    const { log, approvalId, outcome } = job;
    if (!outcome) throw new Error('nothing to conclude');
    const { at } = this;
    const command: RunCommand =
      'refused' in outcome
        ? { type: 'RefuseFiling', approvalId, code: outcome.refused, at }
        : { type: 'NoteReceipt', approvalId, ...outcome, at };
    job.next = 'done';
    this.send(log, command);
  }

  claimIdOf(log: RunLog, draftId: string): string {
    return claimIdOf(tenant, log.originRunId, draftId);
  }

  private count(what: string): void {
    this.seen.set(what, (this.seen.get(what) ?? 0) + 1);
  }
}

export type EventOf<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>;
