import { type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import {
  ClaimQueries,
  present,
  type PresentedClaim,
  presentProvenance,
  presentReceipt,
  presentToCustomer,
} from '#projections/authoritative-claims';
import { digestOf } from '#libs/canonical';
import type { ClaimStatus } from '#libs/domain/claims';
import { runStream } from '#libs/domain/runs';
import { EventStore } from '#libs/event-store';
import { type Identity, scopeOf } from '#libs/access';
import type { Call } from '../calls.js';
import type { Read } from '../dispatch.js';
import { notFound } from '../problems.js';
import type { Paging } from '../routes.js';

export interface ClaimFilters {
  readonly status?: ClaimStatus;
  readonly customerId?: string;
  readonly policyNumber?: string;
}

/** The claim that a call is about, for those whom the policy of the route lets see it. */
async function claimFor(call: Call, queries: ClaimQueries) {
  const view = await queries.claim({ tenant: call.who.tenant }, call.param('claimId'));
  if (!view) throw notFound();
  call.demand({ customerId: view.doc.customerId });
  return view;
}

export class ReadClaim extends Query<Read<ReturnType<typeof presentToCustomer>>> {
  constructor(readonly call: Call) {
    super();
  }
}

@QueryHandler(ReadClaim)
export class ReadClaimHandler implements IQueryHandler<ReadClaim> {
  constructor(private readonly queries: ClaimQueries) {}

  async execute({ call }: ReadClaim) {
    const view = await claimFor(call, this.queries);
    return { ...view, answer: isStaff(call.who) ? present(view) : presentToCustomer(view) };
  }
}

export class ReadReceipt extends Query<Read<ReturnType<typeof presentReceipt>>> {
  constructor(readonly call: Call) {
    super();
  }
}

@QueryHandler(ReadReceipt)
export class ReadReceiptHandler implements IQueryHandler<ReadReceipt> {
  constructor(private readonly queries: ClaimQueries) {}

  async execute({ call }: ReadReceipt) {
    const view = await claimFor(call, this.queries);
    return { ...view, answer: presentReceipt(view.doc) };
  }
}

interface Provenance extends ReturnType<typeof presentProvenance> {
  /** The run's draft as it is stored now, and whether it still has the digest that was approved. */
  draft: { digest?: string; matches: boolean };
}

export class ReadProvenance extends Query<Read<Provenance>> {
  constructor(readonly call: Call) {
    super();
  }
}

@QueryHandler(ReadProvenance)
export class ReadProvenanceHandler implements IQueryHandler<ReadProvenance> {
  constructor(
    private readonly queries: ClaimQueries,
    private readonly store: EventStore,
  ) {}

  async execute({ call }: ReadProvenance) {
    const view = await claimFor(call, this.queries);
    const { runId, draftId, digest } = view.doc.provenance;
    const run = await this.store.fold(runStream, call.who.tenant, runId);
    const stored = run?.state.drafts.get(draftId);
    const draft = stored ? digestOf(stored.content) : undefined;
    const matches = draft === digest;
    return { ...view, answer: { ...presentProvenance(view.doc), draft: { digest: draft, matches } } };
  }
}

export class ListClaims extends Query<{ items: PresentedClaim[]; nextCursor: string | null }> {
  constructor(readonly call: Call<undefined, ClaimFilters & Paging>) {
    super();
  }
}

@QueryHandler(ListClaims)
export class ListClaimsHandler implements IQueryHandler<ListClaims> {
  constructor(private readonly queries: ClaimQueries) {}

  execute({ call }: ListClaims) {
    call.demand({});
    return this.queries.list(
      { tenant: call.who.tenant, ...scopeOf('claims.list', call.who) },
      call.query,
      call.query,
    );
  }
}

function isStaff({ roles }: Pick<Identity, 'roles'>): boolean {
  return roles.includes('adjuster') || roles.includes('supervisor');
}
