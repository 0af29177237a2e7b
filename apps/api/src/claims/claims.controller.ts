import { Controller } from '@nestjs/common';
import { type Call as Of, Called } from '../calls.js';
import { Dispatch } from '../dispatch.js';
import { type Paging, Route } from '../routes.js';
import { page } from '../runs/runs.schemas.js';
import { type ClaimFilters, ListClaims, ReadClaim, ReadProvenance, ReadReceipt } from './claims.handlers.js';
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
}
