import { Injectable } from '@nestjs/common';
import { Counter } from 'prom-client';
import { Config, Metrics } from '#apps/platform';
import { isRefusal, refuse, type Refusal } from '#libs/decider';
import { type RunCommand, type RunRefusal, type RunState, runStream } from '#libs/domain/runs';

/** Ending a run and deciding about it must work however large it is. */
const GROWING: readonly RunCommand['type'][] = [
  'EnterPhase',
  'RecordStep',
  'RecordFacts',
  'SaveDraft',
  'RequestApproval',
  'SaveWorkerState',
];

interface Measured {
  /** Bytes of the whole state when it was last measured, and what commands may have added since. */
  size: number;
  added: number;
}

/**
 * Refuses a command that would lift the state of a run above the limit, before anything is appended (P06).
 *
 * Measuring a state takes as long as the state is large, so that it is done anew only once half of the room that
 * was left may have been used; in between, what commands brought is added up.
 */
@Injectable()
export class StateLimit {
  /** The stream kind of runs, with the limit asked after the rules. */
  readonly kind: typeof runStream;
  private readonly measured = new WeakMap<RunState, Measured>();
  private readonly halfway: Counter;
  private readonly limit: number;

  constructor({ stateLimit }: Config, metrics: Metrics) {
    this.limit = stateLimit;
    this.halfway = new Counter({
      name: 'waymark_state_above_half_total',
      help: 'Commands after which the state of a run takes more than half of the limit.',
      registers: [metrics],
    });
    const { decider } = runStream;
    const decide: typeof decider.decide = (command, run) => {
      const outcome = decider.decide(command, run);
      if (isRefusal(outcome)) return named(outcome, command);
      const grows = outcome.length > 0 && GROWING.includes(command.type);
      return (grows ? this.refusal(command, run) : undefined) ?? outcome;
    };
    this.kind = { ...runStream, decider: { ...decider, decide } };
  }

  private refusal(command: RunCommand, run: RunState): Refusal<RunRefusal> | undefined {
    const brought = sizeOf(keptOf(command));
    const known = this.measured.get(run) ?? this.measure(run);
    const room = this.limit - known.size;
    const current = known.added + brought > room / 2 ? this.measure(run) : known;
    const size = current.size + current.added + brought;
    if (size > this.limit) return tooLarge(this.limit, size, command, run);
    current.added += brought;
    if (size > this.limit / 2) this.halfway.inc();
    return undefined;
  }

  private measure(run: RunState): Measured {
    const measured = { size: sizeOf(runStream.save(run)), added: 0 };
    this.measured.set(run, measured);
    return measured;
  }
}

/** What of a command the state of the run may come to hold. */
function keptOf(command: RunCommand): unknown {
  if (command.type !== 'SaveWorkerState') return command;
  return command.payload ?? command.state;
}

/** A refused worker state, with the member of it that takes most. */
function named(refusal: Refusal<RunRefusal>, command: RunCommand): Refusal<RunRefusal> {
  if (refusal.refused !== 'state-too-large' || command.type !== 'SaveWorkerState') return refusal;
  return { ...refusal, extra: { ...refusal.extra, field: largestOf({ state: command.state }) } };
}

function tooLarge(limit: number, size: number, command: RunCommand, run: RunState): Refusal<RunRefusal> {
  const saved = runStream.save(run) as Record<string, unknown>;
  const field = largestOf({ ...saved, ...command });
  return refuse('state-too-large', `The state of the run would take ${size} bytes; ${limit} are allowed.`, {
    limit,
    size,
    field,
  });
}

/** The path of the member that takes most of a value, followed down while one takes most of its parent. */
export function largestOf(value: unknown): string {
  if (typeof value !== 'object' || value === null) return '';
  const sizes = Object.entries(value as Record<string, unknown>).map(([name, member]) => ({
    name,
    member,
    size: sizeOf(member),
  }));
  const [largest] = sizes.sort((a, b) => b.size - a.size);
  if (!largest || largest.size < sizeOf(value) / 2) return '';
  const below = largestOf(largest.member);
  return below === '' ? largest.name : `${largest.name}.${below}`;
}

function sizeOf(value: unknown): number {
  return value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value));
}
