import { Controller } from '@nestjs/common';
import { type Call as Of, Called } from '../calls.js';
import { Dispatch } from '../dispatch.js';
import { type Paging, Route } from '../routes.js';
import {
  DecideProposal,
  ProposePreference,
  ReadProfile,
  SetPreference,
  WithdrawPreference,
} from './profiles.handlers.js';
import * as of from './profiles.schemas.js';

@Controller()
export class ProfilesController {
  constructor(private readonly dispatch: Dispatch) {}

  @Route('GET', '/v1/profiles/:customerId', {
    kind: 'record',
    permit: 'profiles.read',
    summary: 'The approved preferences of a customer; to the customer, also what waits for their decision',
    query: of.profileQuery,
    answer: of.profileView,
  })
  read(@Called() call: Of<undefined, Paging & { runId?: string }>) {
    return this.dispatch.record(call, new ReadProfile(call));
  }

  @Route('POST', '/v1/profiles/:customerId/proposals', {
    kind: 'command',
    permit: 'profiles.propose',
    summary: 'Propose a preference to the customer of a run whose lease the caller holds',
    body: of.proposalBody,
    answer: of.proposed,
    status: 201,
  })
  propose(@Called() call: Of<of.ProposalBody>) {
    return this.dispatch.command(call, new ProposePreference(call));
  }

  @Route('POST', '/v1/profiles/:customerId/proposals/:proposalId/decision', {
    kind: 'command',
    permit: 'profiles.own',
    summary: 'Approve or reject a proposal',
    body: of.proposalDecision,
    answer: of.proposed,
  })
  decide(@Called() call: Of<of.ProposalDecision>) {
    return this.dispatch.command(call, new DecideProposal(call));
  }

  @Route('PUT', '/v1/profiles/:customerId/preferences/:key', {
    kind: 'command',
    permit: 'profiles.own',
    summary: 'Set a preference',
    body: of.preferenceBody,
    answer: of.preferenceSet,
  })
  set(@Called() call: Of<of.PreferenceBody>) {
    return this.dispatch.command(call, new SetPreference(call));
  }

  @Route('DELETE', '/v1/profiles/:customerId/preferences/:key', {
    kind: 'command',
    permit: 'profiles.own',
    summary: 'Withdraw a preference',
    answer: of.preferenceWithdrawn,
  })
  withdraw(@Called() call: Of) {
    return this.dispatch.command(call, new WithdrawPreference(call));
  }
}
