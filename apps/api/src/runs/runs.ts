import { Injectable } from '@nestjs/common';
import { sha256 } from '#libs/canonical';
import type { Identity, Subject } from '#libs/access';
import { type LeaseShown, type Party, type RunCommand, type RunState } from '#libs/domain/runs';
import { type CommandContext, EventStore, type Handled } from '#libs/event-store';
import type { Call } from '../calls.js';
import { StateLimit } from './state-limit.js';

/** Commands of runs, as the store handles them. */
@Injectable()
export class Runs {
  constructor(
    private readonly store: EventStore,
    private readonly limit: StateLimit,
  ) {}

  /** Handles a command of the run that the path names; `subject` is what the policy looks at beside the customer. */
  handle<Answer>(
    call: Call,
    command: RunCommand,
    answer: (run: RunState) => Answer,
    subject: Subject = {},
  ): Promise<Handled<Answer>> {
    return this.store.handle(this.limit.kind, {
      tenant: call.who.tenant,
      id: runIdOf(call),
      context: contextOf(call),
      command,
      // People can always call off a run, also one of which nothing can be read any more.
      despiteUnopenable: command.type === 'CancelRun',
      permit: (run) => call.judge({ ...subject, customerId: run.started?.customerId }),
      answer,
    });
  }
}

/** The run that the path names, itself or by one of its approvals. */
export function runIdOf({ params }: Call): string {
  const { runId, approvalId = '' } = params;
  return runId ?? approvalId.slice(0, approvalId.lastIndexOf('.'));
}

export function contextOf({ who, at, command }: Call): CommandContext {
  const { sub, roles, customerId, actFor } = who;
  const actor = {
    sub,
    roles: [...roles],
    actFor: [...actFor],
    ...(customerId === undefined ? {} : { customerId }),
  };
  const { commandId, bodyDigest, expectedRevision } = command;
  return {
    actor,
    commandId,
    bodyDigest,
    at,
    ...(expectedRevision === undefined ? {} : { expectedRevision }),
  };
}

export function partyOf({ sub, actFor }: Identity): Party {
  return { sub, actFor: [...actFor] };
}

/** `customerId` only where the caller is a customer, too. */
export function deciderOf(who: Identity): Party & { customerId?: string } {
  const { customerId } = who;
  return { ...partyOf(who), ...(customerId === undefined ? {} : { customerId }) };
}

/** What a lease token shows: its number, and that its bearer knows the secret. */
export function leaseShown(token: string | undefined, { sub }: Identity): LeaseShown | undefined {
  if (token === undefined) return undefined;
  const [number = '', secret = ''] = token.split('.');
  return { number: Number(number), secretDigest: sha256(secret), holder: sub };
}
