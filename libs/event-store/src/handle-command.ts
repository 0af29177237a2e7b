import { setTimeout as delay } from 'node:timers/promises';
import { type DomainEvent, isRefusal } from '#libs/decider';
import type { Vault } from '#libs/vault';
import type { Appends } from './appends.js';
import { streamName } from './envelope.js';
import {
  ConcurrentChange,
  IdempotencyKeyReused,
  NotPermitted,
  RefusedCommand,
  RevisionMismatch,
  StoreUnavailable,
  StreamNotFound,
} from './errors.js';
import type { Fold } from './fold.js';
import type { Folds } from './folds.js';
import type { Lanes } from './lanes.js';
import { type CommandContext, checkSize, prepareEvents } from './prepare.js';
import type { CommandRecord } from './recent-commands.js';
import { streamKeys } from './stream-keys.js';
import type { StreamKind } from './stream-kind.js';
import { LostRace, UncertainAppend } from './translate.js';

/** A command, for whom it is, and what its answer is made of. */
export interface CommandCall<State, Command, Answer> {
  readonly tenant: string;
  readonly id: string;
  readonly context: CommandContext;
  readonly command: Command;
  /** Whether the command makes the stream where there is none. */
  readonly creates?: boolean;
  /** Whether the caller may do this to the stream as it stands; `hidden`: it looks as if it did not exist. */
  readonly permit?: (state: State) => 'yes' | 'forbidden' | 'hidden';
  /**
   * Whether it is handled also where content of the stream does not open, or its customer's keys are gone. The rule
   * then sees sealed values in their places, and events with personal fields are refused. Others are refused whole.
   */
  readonly despiteUnopenable?: boolean;
  /** From the fold at the command's last revision. It copies what it takes: the state goes on changing. */
  readonly answer: (state: State) => Answer;
}

export interface Handled<Answer> {
  readonly answer: Answer;
  /** Of the stream, after the command's last event; of one that appended nothing, the present ones. */
  readonly revision: bigint;
  readonly position: bigint;
  /** The command had been answered before. */
  readonly replayed: boolean;
  /** How many events the command appended, now or when it was first sent. */
  readonly appended: number;
  /** Whether the command made the stream, now or when it was first sent. */
  readonly created: boolean;
}

export interface CommandParts {
  readonly appends: Appends;
  readonly vault: Vault;
  readonly folds: Folds;
  readonly lanes: Lanes;
  readonly maxAppendBytes: number;
}

const RACES = 5;
const UNANSWERED = 3;
const PATIENCE_MS = 1500;

/**
 * Every command goes through here: load, judge, append, answer.
 *
 * The commands of one stream are handled one after another in this process; against other processes the append, at
 * the revision that was read, decides. Judging is a function of the fold and is done again whenever the fold turns
 * out to be behind: after a lost race, at most five times, and before anything but an append is concluded from a
 * kept fold. An append follows from a kept fold with no read before it.
 *
 * After a crash, or an append whose answer was lost, the stream tells whether the command's events stand: its id is
 * in them. So a command sent again, here or to another process, has one effect.
 */
export function handleCommand<State, Command, Event extends DomainEvent, Answer>(
  parts: CommandParts,
  kind: StreamKind<State, Command, Event>,
  call: CommandCall<State, Command, Answer>,
): Promise<Handled<Answer>> {
  const stream = streamName(kind.category, call.tenant, call.id);
  return parts.lanes.run(stream, async () => {
    let { fold, fresh } = await parts.folds.current(kind, stream);
    let races = 0;
    let unanswered = 0;
    for (;;) {
      if (fold.unopenable && !call.despiteUnopenable) throw fold.unopenable;
      const verdict = judge(kind, call, fold, await repetition(parts, kind, call, fold));
      if (verdict.then !== 'append' && fresh)
        return conclude(parts, kind, call, fold, verdict, unanswered === 0);
      if (verdict.then === 'append') {
        const end = await append(parts, kind, call, fold, verdict.events);
        if (end === 'appended') return appended(call, fold, verdict.events.length);
        if (end === 'lost race' && ++races > RACES) throw new ConcurrentChange(stream);
        if (end === 'unanswered' && ++unanswered > UNANSWERED)
          throw new StoreUnavailable(`${stream}: no answer`);
      }
      fold = await reread(parts, kind, fold, unanswered > 0 ? PATIENCE_MS : 0);
      fresh = true;
    }
  });
}

type Verdict<Event> =
  | { readonly then: 'append'; readonly events: readonly Event[] }
  | { readonly then: 'replay'; readonly record: CommandRecord; readonly created: boolean }
  | { readonly then: 'stand' }
  | { readonly then: 'refuse'; readonly error: Error };

/** What a command comes to on a fold. Pure; the order of the questions is part of the contract. */
function judge<State, Command, Event extends DomainEvent>(
  kind: StreamKind<State, Command, Event>,
  { context, command, creates = false, permit }: CommandCall<State, Command, unknown>,
  { stream, revision, state, commands }: Fold<State>,
  hasSameBody: (record: CommandRecord) => boolean,
): Verdict<Event> {
  const exists = revision >= 0n;
  if (!exists && !creates) return { then: 'refuse', error: new StreamNotFound(stream) };

  const permitted = exists && permit ? permit(state) : 'yes';
  if (permitted === 'hidden') return { then: 'refuse', error: new StreamNotFound(stream) };
  if (permitted === 'forbidden') return { then: 'refuse', error: new NotPermitted(stream) };

  const { commandId, at, expectedRevision } = context;
  const record = commands.find(commandId, at);
  if (record && !hasSameBody(record)) return { then: 'refuse', error: new IdempotencyKeyReused(commandId) };
  if (record) return { then: 'replay', record, created: record.first === 0n };

  if (expectedRevision !== undefined && expectedRevision !== revision)
    return { then: 'refuse', error: new RevisionMismatch(expectedRevision, revision) };

  const outcome = kind.decider.decide(command, state);
  if (!isRefusal(outcome))
    return outcome.length > 0 ? { then: 'append', events: outcome } : { then: 'stand' };
  const { creation } = commands;
  if (creates && creation && hasSameBody(creation))
    return { then: 'replay', record: creation, created: false };
  return { then: 'refuse', error: new RefusedCommand(outcome) };
}

/**
 * Tells whether a command that left its record in the stream had the same body. Nobody can once the keys are gone: the
 * id, which follows from caller, route and key, then stands for the body.
 *
 * @throws UnreadableEvent without keys, unless the command is handled despite that.
 */
async function repetition<State, Command, Event extends DomainEvent>(
  { vault }: CommandParts,
  kind: StreamKind<State, Command, Event>,
  { context, despiteUnopenable = false }: CommandCall<State, Command, unknown>,
  fold: Fold<State>,
): Promise<(record: CommandRecord) => boolean> {
  if (fold.revision < 0n) return () => false;
  const { bodyDigest, missing } = await streamKeys(vault, kind, fold);
  if (missing && !despiteUnopenable) throw missing;
  if (missing) return () => true;
  return (record) => record.bodyDigest === bodyDigest(context.bodyDigest);
}

/** Seals, chains and appends at the fold's revision; the fold goes on only when the store says it is on disk. */
async function append<State, Command, Event extends DomainEvent>(
  { appends, vault, folds, maxAppendBytes }: CommandParts,
  kind: StreamKind<State, Command, Event>,
  { context }: CommandCall<State, Command, unknown>,
  fold: Fold<State>,
  events: readonly Event[],
): Promise<'appended' | 'lost race' | 'unanswered'> {
  const prepared = await prepareEvents(vault, kind, fold, events, context);
  checkSize(prepared, maxAppendBytes);
  try {
    const stored = prepared.map((each) => each.stored);
    const position = await appends.append(fold.stream, stored, fold.revision);
    folds.advance(kind, fold, prepared, position);
    return 'appended';
  } catch (error) {
    if (error instanceof LostRace) return 'lost race';
    if (error instanceof UncertainAppend) return 'unanswered';
    throw error;
  }
}

/** The fold as the stream now stands; a store that went away is given `patience` milliseconds to come back. */
async function reread<State, Command, Event extends DomainEvent>(
  { folds }: CommandParts,
  kind: StreamKind<State, Command, Event>,
  fold: Fold<State>,
  patience: number,
): Promise<Fold<State>> {
  const until = performance.now() + patience;
  for (let pause = 50; ; pause *= 2) {
    try {
      return await folds.refresh(kind, fold);
    } catch (error) {
      if (!(error instanceof StoreUnavailable) || performance.now() + pause > until) throw error;
      await delay(pause);
    }
  }
}

function appended<State, Command, Answer>(
  { answer }: CommandCall<State, Command, Answer>,
  { state, revision, position }: Fold<State>,
  count: number,
): Handled<Answer> {
  const created = revision === BigInt(count - 1);
  return { answer: answer(state), revision, position, replayed: false, appended: count, created };
}

/** The answer of a command that appends nothing now: refused, held already, or appended before. */
async function conclude<State, Command, Event extends DomainEvent, Answer>(
  { folds }: CommandParts,
  kind: StreamKind<State, Command, Event>,
  { answer }: CommandCall<State, Command, Answer>,
  fold: Fold<State>,
  verdict: Exclude<Verdict<Event>, { then: 'append' }>,
  replayed: boolean,
): Promise<Handled<Answer>> {
  if (verdict.then === 'refuse') throw verdict.error;
  if (verdict.then === 'stand') {
    const { state, revision, position } = fold;
    return { answer: answer(state), revision, position, replayed: false, appended: 0, created: false };
  }
  const { record, created } = verdict;
  const { first, last, position } = record;
  const then = last === fold.revision ? fold : await folds.asOf(kind, fold.stream, last);
  const count = Number(last - first) + 1;
  return { answer: answer(then.state), revision: last, position, replayed, appended: count, created };
}
