import {
  Command,
  CommandHandler,
  type ICommandHandler,
  type IQueryHandler,
  Query,
  QueryHandler,
} from '@nestjs/cqrs';
import { type PreferenceProfile, ProfileQueries } from '#projections/preference-profiles';
import { derivedId, type Json } from '#libs/canonical';
import { type ProfileCommand, profileStream, type ProfileState } from '#libs/domain/profiles';
import { EventStore, type Handled } from '#libs/event-store';
import type { Call } from '../calls.js';
import type { Read } from '../dispatch.js';
import { contextOf } from '../runs/runs.js';
import type { PreferenceBody, ProposalBody, ProposalDecision } from './profiles.schemas.js';
import { ServedCustomers } from './served-customers.js';

type Profile = Pick<PreferenceProfile, 'customerId' | 'preferences'> &
  Partial<Pick<PreferenceProfile, 'proposals'>>;

export class ReadProfile extends Query<Read<Profile>> {
  constructor(readonly call: Call<undefined, { runId?: string }>) {
    super();
  }
}

/** An empty profile looks the same whether or not anything was ever proposed. */
@QueryHandler(ReadProfile)
export class ReadProfileHandler implements IQueryHandler<ReadProfile> {
  constructor(
    private readonly queries: ProfileQueries,
    private readonly served: ServedCustomers,
  ) {}

  async execute({ call }: ReadProfile) {
    const { who, query } = call;
    const customerId = call.param('customerId');
    await this.served.demand(call, query.runId);
    const view = await this.queries.profile(who.tenant, customerId);
    const { preferences = [], proposals = [] } = view?.doc ?? {};
    const own = who.roles.includes('customer') && who.customerId === customerId;
    const answer = { customerId, preferences, ...(own && { proposals }) };
    const { revision = -1n, position = 0n } = view ?? {};
    return { answer, revision, position };
  }
}

interface Proposed {
  proposalId: string;
  status: 'pending' | 'approved' | 'rejected';
}

export class ProposePreference extends Command<Handled<Proposed>> {
  constructor(readonly call: Call<ProposalBody>) {
    super();
  }
}

@CommandHandler(ProposePreference)
export class ProposePreferenceHandler implements ICommandHandler<ProposePreference> {
  constructor(
    private readonly store: EventStore,
    private readonly served: ServedCustomers,
  ) {}

  async execute({ call }: ProposePreference) {
    const { who, body, command } = call;
    await this.served.demand(call, body.runId);
    const proposalId = derivedId('proposal', command.commandId);
    const proposal = { type: 'ProposePreference', proposalId, ...body, proposedBy: who.sub } as const;
    return handle(this.store, call, proposal, (state) => proposedOf(state, proposalId));
  }
}

export class DecideProposal extends Command<Handled<Proposed>> {
  constructor(readonly call: Call<ProposalDecision>) {
    super();
  }
}

@CommandHandler(DecideProposal)
export class DecideProposalHandler implements ICommandHandler<DecideProposal> {
  constructor(
    private readonly store: EventStore,
    private readonly served: ServedCustomers,
  ) {}

  async execute({ call }: DecideProposal) {
    const { who, body } = call;
    await this.served.demand(call);
    const proposalId = call.param('proposalId');
    const decision = { type: 'DecideProposal', proposalId, ...body, decidedBy: who.sub } as const;
    return handle(this.store, call, decision, (state) => proposedOf(state, proposalId));
  }
}

export class SetPreference extends Command<Handled<{ key: string; value: Json; approvedAt: string }>> {
  constructor(readonly call: Call<PreferenceBody>) {
    super();
  }
}

@CommandHandler(SetPreference)
export class SetPreferenceHandler implements ICommandHandler<SetPreference> {
  constructor(
    private readonly store: EventStore,
    private readonly served: ServedCustomers,
  ) {}

  async execute({ call }: SetPreference) {
    const { who, at, body } = call;
    await this.served.demand(call);
    const key = call.param('key');
    const { value } = body;
    return handle(this.store, call, { type: 'SetPreference', key, value, setBy: who.sub }, (state) => ({
      key,
      value,
      approvedAt: state.preferences.get(key)?.approvedAt ?? at,
    }));
  }
}

export class WithdrawPreference extends Command<Handled<{ key: string; withdrawn: true }>> {
  constructor(readonly call: Call) {
    super();
  }
}

@CommandHandler(WithdrawPreference)
export class WithdrawPreferenceHandler implements ICommandHandler<WithdrawPreference> {
  constructor(
    private readonly store: EventStore,
    private readonly served: ServedCustomers,
  ) {}

  async execute({ call }: WithdrawPreference) {
    await this.served.demand(call);
    const key = call.param('key');
    const withdrawal = { type: 'WithdrawPreference', key, withdrawnBy: call.who.sub } as const;
    return handle(this.store, call, withdrawal, () => ({ key, withdrawn: true as const }));
  }
}

type Untimed<Command> = Command extends unknown ? Omit<Command, 'at' | 'customerId'> : never;

/** The policy was asked: who may do this follows from the customer, and not from what the profile holds. */
function handle<Answer>(
  store: EventStore,
  call: Call,
  command: Untimed<ProfileCommand>,
  answer: (profile: ProfileState) => Answer,
): Promise<Handled<Answer>> {
  const customerId = call.param('customerId');
  return store.handle(profileStream, {
    tenant: call.who.tenant,
    id: customerId,
    context: contextOf(call),
    command: { ...command, customerId, at: call.at },
    creates: true,
    answer,
  });
}

const STATUS = { approve: 'approved', reject: 'rejected' } as const;

function proposedOf({ proposals }: ProfileState, proposalId: string): Proposed {
  const { decision } = proposals.get(proposalId)?.decision ?? {};
  return { proposalId, status: decision === undefined ? 'pending' : STATUS[decision] };
}
