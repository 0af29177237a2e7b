import { Injectable } from '@nestjs/common';
import { type Command, CommandBus, type Query, QueryBus } from '@nestjs/cqrs';
import { Config, RunningProjections } from '#apps/platform';
import { EventStore, type Handled } from '#libs/event-store';
import type { Call } from './calls.js';
import { keyReused, Problem } from './problems.js';
import type { Paging } from './routes.js';
import { Turns } from './turns.js';

/** What a query answers: how it looks, and how far in the log it looks. */
export interface Read<Answer> {
  readonly answer: Answer;
  /** Of the record that was read, and of its last event in the log; -1 and 0 of one that has no event yet. */
  readonly revision: bigint;
  readonly position: bigint;
}

export type Answered<Answer> = Answer & { revision: string; position: string };

/** As many as are worked on in about the time in which the event store answers what was sent before. */
const BEGUN_IN_A_TURN = 12;
const ONE_SECOND = { 'retry-after': '1' };

/**
 * The one place where calls are dispatched and their common answers are given: repeats of a command in flight,
 * overload, `ETag`, `Idempotency-Replayed`, `Waymark-Min-Position` and `Waymark-Position`.
 */
@Injectable()
export class Dispatch {
  /** Digests of the bodies of the commands that run in this process, by command id. */
  private readonly inFlight = new Map<string, string>();
  private readonly turns = new Turns(BEGUN_IN_A_TURN);
  private head = 0n;

  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly store: EventStore,
    private readonly projections: RunningProjections,
    private readonly config: Config,
  ) {}

  /** Runs a command, once however often it is sent at the same time. */
  async command<Answer extends object>(
    call: Call,
    command: Command<Handled<Answer>>,
  ): Promise<Answered<Answer>> {
    const handled = await this.alone(call, () => this.commands.execute(command));
    call.refuseUnasked();
    const revision = handled.revision.toString();
    call.reply.header('etag', `"${revision}"`);
    const { repeatedStatus } = call.spec;
    if (repeatedStatus !== undefined && !handled.created) call.reply.code(repeatedStatus);
    else if (handled.replayed && call.command.keyed) call.reply.header('idempotency-replayed', 'true');
    return { ...handled.answer, revision, position: handled.position.toString() };
  }

  /** Runs a command that is of no stream, and so answers no revision. */
  async aside<Answer extends object>(call: Call, command: Command<Answer>): Promise<Answer> {
    const answer = await this.alone(call, () => this.commands.execute(command));
    call.refuseUnasked();
    return answer;
  }

  /** Reads one record, which is always as fresh as its stream. */
  async record<Answer>(call: Call, query: Query<Read<Answer>>): Promise<Answer> {
    if (call.minPosition !== undefined) await this.reachable(call.minPosition);
    const { answer, revision, position } = await this.queries.execute(query);
    call.refuseUnasked();
    const { minPosition = position } = call;
    call.reply.header('waymark-position', (minPosition > position ? minPosition : position).toString());
    if (revision >= 0n) call.reply.header('etag', `"${revision}"`);
    return answer;
  }

  /** Reads a list from a view, once the view is as far as the caller asks. */
  async list<Answer>(call: Call<unknown, Paging>, projection: string, query: Query<Answer>): Promise<Answer> {
    const { minPosition } = call;
    const running = this.projections.find(projection);
    const reached =
      minPosition === undefined || (await running?.waitFor(minPosition, call.query.waitMs)) === true;
    const position = (await running?.status())?.position ?? 0n;
    if (!reached) throw behind(minPosition, position);
    const answer = await this.queries.execute(query);
    call.refuseUnasked();
    call.reply.header('waymark-position', position.toString());
    return answer;
  }

  /** Turned away here, a command has done nothing yet. */
  private async alone<Result>({ command }: Call, work: () => Promise<Result>): Promise<Result> {
    const { commandId, bodyDigest, keyed } = command;
    const running = keyed ? this.inFlight.get(commandId) : undefined;
    if (running !== undefined) throw running === bodyDigest ? inFlight() : keyReused();
    if (this.inFlight.size >= this.config.commandsAtOnce) throw overloaded();
    this.inFlight.set(commandId, bodyDigest);
    try {
      await this.turns.next();
      return await work();
    } finally {
      this.inFlight.delete(commandId);
    }
  }

  /** A record read after the log was seen to reach a position reflects it; one that it has not reached, nobody was answered. */
  private async reachable(position: bigint): Promise<void> {
    if (this.head >= position) return;
    this.head = await this.store.head();
    if (this.head < position) throw behind(position, this.head);
  }
}

/** That a view has not come as far as it was asked to. */
export function behind(wanted: bigint, reached: bigint): Problem {
  const detail = `The answer would reflect position ${reached}; ${wanted} was asked for.`;
  return new Problem('read-model-behind', detail, { position: reached.toString() }, ONE_SECOND);
}

function inFlight(): Problem {
  return new Problem('idempotency-key-in-flight', 'The first request is still running.', {}, ONE_SECOND);
}

function overloaded(): Problem {
  return new Problem('overloaded', 'Too many commands are under way.', {}, ONE_SECOND);
}
