import { randomBytes } from 'node:crypto';
import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { Config } from '#apps/platform';
import { derivedId, type Json } from '#libs/canonical';
import { type Approval, type Draft, type RunState } from '#libs/domain/runs';
import { EventStore, type Handled } from '#libs/event-store';
import { judge } from '#libs/access';
import type { Call } from '../calls.js';
import { CitedMessages } from './cited-messages.js';
import { contextOf, leaseShown, partyOf, Runs } from './runs.js';
import type {
  ApprovalBody,
  DraftBody,
  EndBody,
  FactsBody,
  PhaseBody,
  StartBody,
  StepBody,
} from './runs.schemas.js';
import { StateLimit } from './state-limit.js';

export class StartRun extends Command<Handled<{ runId: string; status: string; startedAt: string }>> {
  constructor(readonly call: Call<StartBody>) {
    super();
  }
}

@CommandHandler(StartRun)
export class StartRunHandler implements ICommandHandler<StartRun> {
  constructor(
    private readonly store: EventStore,
    private readonly limit: StateLimit,
  ) {}

  execute({ call }: StartRun) {
    const { who, at, body } = call;
    const runId = body.runId ?? derivedId('run', call.command.commandId);
    const customer = who.customerId === body.customerId ? { customer: partyOf(who) } : {};
    call.demand({ customerId: body.customerId });
    return this.store.handle(this.limit.kind, {
      tenant: who.tenant,
      id: runId,
      context: contextOf(call),
      command: { type: 'StartRun', at, ...body, runId, ...customer },
      creates: true,
      permit: ({ started }) => (started ? judge('runs.read', who, started) : 'yes'),
      answer: ({ started }) => ({ runId, status: 'open', startedAt: started?.startedAt ?? at }),
    });
  }
}

export class EnterPhase extends Command<Handled<{ phase: string }>> {
  constructor(readonly call: Call<PhaseBody>) {
    super();
  }
}

@CommandHandler(EnterPhase)
export class EnterPhaseHandler implements ICommandHandler<EnterPhase> {
  constructor(private readonly runs: Runs) {}

  execute({ call }: EnterPhase) {
    const { phase } = call.body;
    return this.runs.handle(call, { type: 'EnterPhase', ...byWorker(call), phase }, () => ({ phase }));
  }
}

export class RecordStep extends Command<Handled<Pick<StepBody, 'stepId' | 'status'>>> {
  constructor(readonly call: Call<StepBody>) {
    super();
  }
}

@CommandHandler(RecordStep)
export class RecordStepHandler implements ICommandHandler<RecordStep> {
  constructor(private readonly messages: CitedMessages) {}

  execute({ call }: RecordStep) {
    const { stepId, status } = call.body;
    const command = { type: 'RecordStep', ...byWorker(call), ...call.body } as const;
    return this.messages.record(call, command, () => ({ stepId, status }));
  }
}

export class RecordFacts extends Command<Handled<{ facts: string[]; observedAt: string }>> {
  constructor(readonly call: Call<FactsBody>) {
    super();
  }
}

@CommandHandler(RecordFacts)
export class RecordFactsHandler implements ICommandHandler<RecordFacts> {
  constructor(private readonly runs: Runs) {}

  execute({ call }: RecordFacts) {
    const names = call.body.facts.map(({ name }) => name);
    const command = { type: 'RecordFacts', ...byWorker(call), facts: call.body.facts } as const;
    return this.runs.handle(call, command, ({ facts }) => ({
      facts: names,
      observedAt: facts.get(names[0] ?? '')?.observedAt ?? call.at,
    }));
  }
}

export class SaveDraft extends Command<Handled<Pick<Draft, 'draftId' | 'draftVersion' | 'digest'>>> {
  constructor(readonly call: Call<DraftBody>) {
    super();
  }
}

@CommandHandler(SaveDraft)
export class SaveDraftHandler implements ICommandHandler<SaveDraft> {
  constructor(private readonly runs: Runs) {}

  execute({ call }: SaveDraft) {
    const draftId = call.param('draftId');
    const content = { salt: randomBytes(32).toString('hex'), notice: call.body.content };
    return this.runs.handle(call, { type: 'SaveDraft', ...byWorker(call), draftId, content }, (run) => {
      const { draftVersion, digest } = draftOf(run, draftId);
      return { draftId, draftVersion, digest };
    });
  }
}

type Requested = Pick<Approval, 'approvalId' | 'digest' | 'expiresAt' | 'requires'>;

export class RequestApproval extends Command<Handled<Requested>> {
  constructor(readonly call: Call<ApprovalBody>) {
    super();
  }
}

@CommandHandler(RequestApproval)
export class RequestApprovalHandler implements ICommandHandler<RequestApproval> {
  constructor(
    private readonly runs: Runs,
    private readonly config: Config,
  ) {}

  execute({ call }: RequestApproval) {
    const { executeWithinSeconds, twoPersonLimit } = this.config;
    const asked = { ...call.body, requestedBy: partyOf(call.who), executeWithinSeconds, twoPersonLimit };
    return this.runs.handle(call, { type: 'RequestApproval', ...byWorker(call), ...asked }, (run) => {
      const approval = run.approvals.get(draftOf(run, call.body.draftId).approvalId ?? '');
      if (!approval) throw new Error('an approval that was asked for is not in its run');
      const { approvalId, digest, expiresAt, requires } = approval;
      return { approvalId, digest, expiresAt, requires };
    });
  }
}

type Ended = Pick<NonNullable<RunState['ended']>, 'status' | 'endedAt'>;

abstract class Ending extends Command<Handled<Ended>> {
  constructor(readonly call: Call<EndBody>) {
    super();
  }
}
export class CompleteRun extends Ending {}
export class FailRun extends Ending {}
export class CancelRun extends Ending {}

@CommandHandler(CompleteRun)
export class CompleteRunHandler implements ICommandHandler<CompleteRun> {
  constructor(private readonly runs: Runs) {}

  execute({ call }: CompleteRun) {
    return this.runs.handle(call, { type: 'CompleteRun', ...byWorker(call), ...ending(call) }, endedOf);
  }
}

@CommandHandler(FailRun)
export class FailRunHandler implements ICommandHandler<FailRun> {
  constructor(private readonly runs: Runs) {}

  execute({ call }: FailRun) {
    return this.runs.handle(call, { type: 'FailRun', ...byWorker(call), ...ending(call) }, endedOf);
  }
}

@CommandHandler(CancelRun)
export class CancelRunHandler implements ICommandHandler<CancelRun> {
  constructor(private readonly runs: Runs) {}

  execute({ call }: CancelRun) {
    return this.runs.handle(call, { type: 'CancelRun', at: call.at, ...ending(call) }, endedOf);
  }
}

export function byWorker({ at, leaseToken, who }: Call) {
  return { at, lease: leaseShown(leaseToken, who) };
}

function ending({
  who,
  body,
}: Call<EndBody>): EndBody & { endedBy: ReturnType<typeof partyOf>; output?: Json } {
  return { ...body, endedBy: partyOf(who) };
}

function endedOf({ ended }: RunState): Ended {
  if (!ended) throw new Error('a run that was ended has not ended');
  return { status: ended.status, endedAt: ended.endedAt };
}

function draftOf(run: RunState, draftId: string): Draft {
  const draft = run.drafts.get(draftId);
  if (!draft) throw new Error('a draft that was saved is not in its run');
  return draft;
}
