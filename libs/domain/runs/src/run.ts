import { happened, refuse, type Decider } from '#libs/decider';
import {
  approvalOf,
  approvalStatus,
  requestApproval,
  saveDraft,
  withdrawApproval,
  withdrawOpen,
} from './approvals.js';
import type {
  CancelRun,
  CompleteRun,
  FailRun,
  Outcome,
  RunCommand,
  RunRefusal,
  StartRun,
  WorkerCommand,
} from './commands.js';
import { decideApproval, delegateApproval } from './decisions.js';
import { runEvents, type RunEvent } from './events.js';
import { recordFacts } from './facts.js';
import { forkRun } from './fork.js';
import { noteReceipt, refuseFiling, refuseWhileFiling, startFiling } from './filing.js';
import { evolve, initialState, load, save, type Run, type RunState } from './state.js';
import { enterPhase, recordStep, refuseLease, saveWorkerState, takeLease } from './work.js';

type Rule<Command> = (command: Command, run: Run) => Outcome;
type CommandOf<Type extends RunCommand['type']> = Extract<RunCommand, { type: Type }>;

const rules: { [Type in Exclude<RunCommand['type'], 'StartRun' | 'ForkRun'>]: Rule<CommandOf<Type>> } = {
  TakeLease: whileRunning(takeLease),
  EnterPhase: byWorker(enterPhase),
  RecordStep: byWorker(recordStep),
  SaveWorkerState: byWorker(saveWorkerState),
  RecordFacts: byWorker(recordFacts),
  SaveDraft: byWorker(saveDraft),
  RequestApproval: byWorker(requestApproval),
  DecideApproval: decideApproval,
  DelegateApproval: delegateApproval,
  WithdrawApproval: withdrawApproval,
  StartFiling: startFiling,
  NoteReceipt: noteReceipt,
  RefuseFiling: refuseFiling,
  CompleteRun: byWorker<CompleteRun>(endRun),
  FailRun: byWorker<FailRun>(endRun),
  CancelRun: whileRunning(endRun),
};

function whileRunning<Command>(rule: Rule<Command>): Rule<Command> {
  return (command, run) =>
    run.ended ? refuse('run-ended', `The run has ${run.ended.status}.`) : rule(command, run);
}

function byWorker<Command extends WorkerCommand>(rule: Rule<Command>): Rule<Command> {
  return (command, run) => refuseLease(command.lease, run) ?? whileRunning(rule)(command, run);
}

function decide(command: RunCommand, state: RunState): Outcome {
  if (command.type === 'StartRun') return startRun(command, state);
  if (command.type === 'ForkRun') return forkRun(command, state);
  if (!isStarted(state)) return refuse('not-found', 'There is no such run.');
  const rule = rules[command.type] as Rule<RunCommand>;
  return rule(command, state);
}

function isStarted(state: RunState): state is Run {
  return state.started !== undefined;
}

function startRun(command: StartRun, state: RunState): Outcome {
  const { runId, workflow, customerId, conversationId, input, customer, at } = command;
  if (state.started) return refuse('run-exists', `The run ${runId} exists, and was started otherwise.`);
  const run = { runId, originRunId: runId, workflow, customerId, conversationId, input, customer };
  return [happened('RunStarted', { ...run, startedAt: at })];
}

function endRun(command: CompleteRun | FailRun | CancelRun, run: Run): Outcome {
  const { endedBy, reason, output, at } = command;
  return (
    refuseWhileFiling(run) ?? [...withdrawOpen(run, endedBy, at), ended(command.type, reason, output, at)]
  );
}

function ended(
  type: (CompleteRun | FailRun | CancelRun)['type'],
  reason: CompleteRun['reason'],
  output: CompleteRun['output'],
  at: string,
): RunEvent {
  if (type === 'CompleteRun') return happened('RunCompleted', { reason, output, completedAt: at });
  if (type === 'FailRun') return happened('RunFailed', { reason, output, failedAt: at });
  return happened('RunCancelled', { reason, output, cancelledAt: at });
}

export type RunStatus =
  'completed' | 'failed' | 'cancelled' | 'needs-attention' | 'filing' | 'approved' | 'waiting' | 'open';

/** From the record and the time of asking; of each draft only the newest approval counts. */
export function runStatus(run: RunState, at: string): RunStatus {
  if (run.ended) return run.ended.status;
  const newest = [...run.drafts.values()].flatMap((draft) => approvalOf(run, draft) ?? []);
  const found = new Set(newest.map((approval) => approvalStatus(approval, at)));
  const recheckFailed = newest.some(
    ({ invalidation }) => (invalidation?.cause.kind ?? 'draft-changed') !== 'draft-changed',
  );
  const changed = [...run.facts.values()].some(({ changedAt }) => changedAt !== undefined);
  if (changed || recheckFailed || found.has('refused') || found.has('lapsed')) return 'needs-attention';
  if (found.has('filing')) return 'filing';
  if (found.has('granted')) return 'approved';
  return found.has('pending') || found.has('endorsed') ? 'waiting' : 'open';
}

export const run: Decider<RunState, RunCommand, RunEvent, RunRefusal> = { initialState, evolve, decide };

export const runStream = {
  category: 'run',
  dataKind: 'run' as const,
  decider: run,
  events: runEvents,
  foldVersion: 4,
  customerOf(state: RunState, newEvents: readonly RunEvent[]): string {
    const started = newEvents.find(({ type }) => type === 'RunStarted' || type === 'RunForked') as
      Extract<RunEvent, { type: 'RunStarted' | 'RunForked' }> | undefined;
    const customerId = started?.data.customerId ?? state.started?.customerId;
    if (customerId === undefined) throw new Error('a run that was not started has no customer');
    return customerId;
  },
  save,
  load,
};
