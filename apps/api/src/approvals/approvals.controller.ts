import { Controller } from '@nestjs/common';
import { type Call as Of, Called } from '../calls.js';
import { Dispatch } from '../dispatch.js';
import { type Paging, Route } from '../routes.js';
import { DecideApproval, DelegateApproval, WithdrawApproval } from './approvals.handlers.js';
import { ListApprovals, type ListFilters, ReadApproval } from './approvals.queries.js';
import * as of from './approvals.schemas.js';

@Controller()
export class ApprovalsController {
  constructor(private readonly dispatch: Dispatch) {}

  @Route('POST', '/v1/approvals/:approvalId/decision', {
    kind: 'command',
    permit: 'approvals.decide',
    summary: 'Decide an approval, by the digest of what was shown',
    body: of.decisionBody,
    answer: of.decided,
  })
  decide(@Called() call: Of<of.DecisionBody>) {
    return this.dispatch.command(call, new DecideApproval(call));
  }

  @Route('POST', '/v1/approvals/:approvalId/delegate', {
    kind: 'command',
    permit: 'approvals.delegate',
    summary: 'Let somebody else decide an approval on one’s own authority, for a time',
    body: of.delegateBody,
    answer: of.delegated,
  })
  delegate(@Called() call: Of<of.DelegateBody>) {
    return this.dispatch.command(call, new DelegateApproval(call));
  }

  @Route('POST', '/v1/approvals/:approvalId/withdraw', {
    kind: 'command',
    permit: 'approvals.withdraw',
    summary: 'Take back the request for an approval',
    body: of.withdrawBody,
    answer: of.withdrawn,
  })
  withdraw(@Called() call: Of<of.WithdrawBody>) {
    return this.dispatch.command(call, new WithdrawApproval(call));
  }

  @Route('GET', '/v1/approvals', {
    kind: 'list',
    permit: 'approvals.list',
    summary: 'Approvals that the caller may decide, never expired ones; or those granted and not executed',
    query: of.approvalQuery,
    answer: of.approvalPage,
  })
  list(@Called() call: Of<undefined, Paging & ListFilters>) {
    return this.dispatch.list(call, 'current-checkpoints', new ListApprovals(call));
  }

  @Route('GET', '/v1/approvals/:approvalId', {
    kind: 'record',
    permit: 'approvals.read',
    summary: 'What was shown to those who decide, and what they decided',
    answer: of.approvalView,
  })
  read(@Called() call: Of) {
    return this.dispatch.record(call, new ReadApproval(call));
  }
}
