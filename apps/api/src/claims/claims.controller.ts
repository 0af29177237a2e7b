import { Controller } from '@nestjs/common';
import { type Call as Of, Called } from '../calls.js';
import { Dispatch } from '../dispatch.js';
import { type Paging, Route } from '../routes.js';
import { page } from '../runs/runs.schemas.js';
import { type ClaimFilters, ListClaims, ReadClaim, ReadProvenance, ReadReceipt } from './claims.handlers.js';
import { HandleClaim } from './claims.commands.js';
import * as of from './claims.schemas.js';

@Controller()
export class ClaimsController {
  constructor(private readonly dispatch: Dispatch) {}

  @Route('GET', '/v1/claims', {
    kind: 'list',
    permit: 'claims.list',
    summary: 'Claims, newest first',
    query: of.claimQuery,
    answer: page(of.claimView),
  })
  list(@Called() call: Of<undefined, ClaimFilters & Paging>) {
    return this.dispatch.list(call, 'authoritative-claims', new ListClaims(call));
  }

  @Route('GET', '/v1/claims/:claimId', {
    kind: 'record',
    permit: 'claims.read',
    summary: 'The authoritative record of a claim',
    answer: of.claimView,
  })
  read(@Called() call: Of) {
    return this.dispatch.record(call, new ReadClaim(call));
  }

  @Route('GET', '/v1/claims/:claimId/receipt', {
    kind: 'record',
    permit: 'claims.read',
    summary: 'The receipt of a claim',
    answer: of.receiptView,
  })
  receipt(@Called() call: Of) {
    return this.dispatch.record(call, new ReadReceipt(call));
  }

  @Route('GET', '/v1/claims/:claimId/provenance', {
    kind: 'record',
    permit: 'claims.read-provenance',
    summary: 'The way back from a claim to what it was filed from',
    answer: of.provenanceView,
  })
  provenance(@Called() call: Of) {
    return this.dispatch.record(call, new ReadProvenance(call));
  }

  @Route('POST', '/v1/claims/:claimId/acknowledge', {
    kind: 'command',
    permit: 'claims.work',
    summary: 'Take a claim up',
    body: of.acknowledgeBody,
    bodyOptional: true,
    answer: of.handled,
  })
  acknowledge(@Called() call: Of<of.AcknowledgeBody>) {
    return this.dispatch.command(call, new HandleClaim('AcknowledgeClaim', call));
  }

  @Route('POST', '/v1/claims/:claimId/assess', {
    kind: 'command',
    permit: 'claims.work',
    summary: 'Note what a loss was assessed at',
    body: of.assessBody,
    bodyOptional: true,
    answer: of.handled,
  })
  assess(@Called() call: Of<of.AssessBody>) {
    return this.dispatch.command(call, new HandleClaim('AssessClaim', call));
  }

  @Route('POST', '/v1/claims/:claimId/settle', {
    kind: 'command',
    permit: 'claims.work',
    summary: 'Settle a claim; above one’s authority or the two-person limit a second person says the same',
    body: of.settleBody,
    answer: of.settled,
  })
  settle(@Called() call: Of<of.SettleBody>) {
    return this.dispatch.command(call, new HandleClaim('SettleClaim', call));
  }

  @Route('POST', '/v1/claims/:claimId/reject', {
    kind: 'command',
    permit: 'claims.work',
    summary: 'Reject a claim',
    body: of.reasonBody,
    answer: of.handled,
  })
  reject(@Called() call: Of<of.ReasonBody>) {
    return this.dispatch.command(call, new HandleClaim('RejectClaim', call));
  }

  @Route('POST', '/v1/claims/:claimId/withdraw', {
    kind: 'command',
    permit: 'claims.work',
    summary: 'Withdraw a claim',
    body: of.reasonBody,
    answer: of.handled,
  })
  withdraw(@Called() call: Of<of.ReasonBody>) {
    return this.dispatch.command(call, new HandleClaim('WithdrawClaim', call));
  }

  @Route('POST', '/v1/claims/:claimId/reopen', {
    kind: 'command',
    permit: 'claims.work',
    summary: 'Work on a closed claim again',
    body: of.reasonBody,
    answer: of.handled,
  })
  reopen(@Called() call: Of<of.ReasonBody>) {
    return this.dispatch.command(call, new HandleClaim('ReopenClaim', call));
  }
}
