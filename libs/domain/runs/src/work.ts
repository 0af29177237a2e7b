import { canonicalJson, type Json } from '#libs/canonical';
import { happened, refuse } from '#libs/decider';
import type {
  EnterPhase,
  LeaseShown,
  Outcome,
  RecordStep,
  RunRefusal,
  SaveWorkerState,
  TakeLease,
} from './commands.js';
import { recheck } from './facts.js';
import { stepDigest, type Run } from './state.js';
import { later } from './time.js';
import { contentOf, isContent, mergePatch } from './worker-state.js';

export function takeLease(command: TakeLease, run: Run): Outcome {
  const { at, workerId, holder, secretDigest, leaseSeconds } = command;
  const others = run.lease && (run.lease.workerId !== workerId || run.lease.holder !== holder);
  const liveUntil = others ? leaseEnd(run, command.seen) : undefined;
  const live = liveUntil !== undefined && at < liveUntil;
  if (live && !command.takeOver)
    return refuse('lease-held', 'Another worker holds the lease of this run.', { expiresAt: liveUntil });
  const number = (run.lease?.number ?? 0) + 1;
  const rechecked = recheck(run, { kind: 'resume', lease: number }, command.readings ?? [], at);
  if ('refused' in rechecked) return rechecked;
  return [
    ...rechecked.events,
    happened('LeaseTaken', {
      number,
      workerId,
      holder,
      secretDigest,
      leaseSeconds,
      takenOver: live,
      takenAt: at,
      expiresAt: later(at, leaseSeconds),
    }),
  ];
}

/** When the newest lease ends by the event and its heartbeats; undefined where it was given back. */
export function leaseEnd({ lease }: Run, seen: TakeLease['seen']): string | undefined {
  if (!lease || seen?.number !== lease.number) return lease?.expiresAt;
  if (seen.closed) return undefined;
  return seen.expiresAt > lease.expiresAt ? seen.expiresAt : lease.expiresAt;
}

export function refuseLease(shown: LeaseShown | undefined, { lease }: Pick<Run, 'lease'>) {
  if (!shown) return refuse<RunRefusal>('lease-required', 'This command needs the lease of the run.');
  const newest =
    lease?.number === shown.number &&
    lease.secretDigest === shown.secretDigest &&
    lease.holder === shown.holder;
  return newest
    ? undefined
    : refuse<RunRefusal>('stale-lease', 'This is not the newest lease of the run, or it is not yours.');
}

export function enterPhase({ phase, at }: EnterPhase, run: Run): Outcome {
  return phase === run.phase ? [] : [happened('PhaseEntered', { phase, enteredAt: at })];
}

export function recordStep(command: RecordStep, run: Run): Outcome {
  const { stepId, name, kind, status, input, output, error, at } = command;
  const known = run.steps.get(stepId);
  const result = { started: input, completed: output, failed: error }[status];
  const repeated = known?.status === status && known.digest === stepDigest(result);
  if (repeated) return [];
  if (known?.status === 'completed')
    return refuse('step-already-completed', `The step ${stepId} is completed, with another result.`, {
      stepId,
      completedAt: known.at,
    });
  const unfit = refuseCites(command, run);
  if (unfit) return unfit;
  const step = { stepId, name, kind, input, cites: command.cites };
  if (status === 'started') return [happened('StepStarted', { ...step, startedAt: at })];
  if (status === 'completed') return [happened('StepCompleted', { ...step, output, completedAt: at })];
  return [happened('StepFailed', { ...step, error, failedAt: at })];
}

function refuseCites({ cites = [], messages }: RecordStep, { started }: Run) {
  if (cites.length === 0) return undefined;
  const { customerId, conversationId } = started;
  if (!messages)
    return refuse<RunRefusal>('messages-unread', 'The messages that are cited have to be looked for first.', {
      customerId,
      conversationId,
    });
  const unknown = cites.filter(
    ({ messageId, digest }) =>
      !messages.some((each) => each.messageId === messageId && each.digest === digest),
  );
  if (unknown.length === 0) return undefined;
  return refuse<RunRefusal>('message-unknown', 'The conversation of the run holds no such messages.', {
    messages: unknown.map(({ messageId }) => messageId),
  });
}

export function saveWorkerState(command: SaveWorkerState, run: Run): Outcome {
  const { at, label, limitBytes, opened } = command;
  const held = run.workerState;
  const away = held?.payload !== undefined && opened?.digest !== held.payload.digest;
  if (away) return refuse('payload-away', 'The saved state is in the payload store.', { ...held.payload });
  const before = held?.payload ? opened?.state : held?.state;
  const state: Json = command.patch ? mergePatch(before, command.state) : command.state;
  const text = canonicalJson(state);
  if (before !== undefined && text === canonicalJson(before)) return [];
  const size = Buffer.byteLength(text);
  if (limitBytes !== undefined && size > limitBytes)
    return refuse('state-too-large', `The worker state takes ${size} bytes; the limit is ${limitBytes}.`, {
      limit: limitBytes,
      size,
      field: 'state',
    });
  const content = contentOf(command, run, state, size);
  return isContent(content) ? [happened('WorkerStateSaved', { content, label, savedAt: at })] : content;
}
