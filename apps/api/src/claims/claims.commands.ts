import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { Config, standingIn } from '#apps/platform';
import {
  type ClaimState,
  type ClaimStatus,
  claimStream,
  type HandleClaim as Handling,
} from '#libs/domain/claims';
import type { Standing } from '#libs/domain/staff';
import { EventStore, type Handled } from '#libs/event-store';
import type { Call } from '../calls.js';
import { contextOf, deciderOf } from '../runs/runs.js';

export interface ClaimHandled {
  claimId: string;
  status: ClaimStatus;
  /** People whose signature is still missing. */
  remaining?: number;
}

type Step = Handling['type'];
type Body<Type extends Step> = Omit<
  Extract<Handling, { type: Type }>,
  'type' | 'by' | 'at' | 'standing' | 'twoPersonLimit'
>;

/** One step of the claims staff with a claim. */
export class HandleClaim<Type extends Step = Step> extends Command<Handled<ClaimHandled>> {
  constructor(
    readonly type: Type,
    readonly call: Call<Body<Type>>,
  ) {
    super();
  }
}

const NONE: Standing = { roles: [] };

@CommandHandler(HandleClaim)
export class HandleClaimHandler implements ICommandHandler<HandleClaim> {
  constructor(
    private readonly store: EventStore,
    private readonly config: Config,
  ) {}

  async execute({ type, call }: HandleClaim) {
    const { who, at } = call;
    const claimId = call.param('claimId');
    const standing = (await standingIn(this.store, who)) ?? NONE;
    const by = deciderOf(who);
    const { twoPersonLimit } = this.config;
    return this.store.handle(claimStream, {
      tenant: who.tenant,
      id: claimId,
      context: contextOf(call),
      command: { ...call.body, type, by, at, standing, twoPersonLimit } as Handling,
      permit: ({ filed }) => call.judge({ customerId: filed?.customerId, standing: standing.roles }),
      answer: (claim) => answerOf(claimId, type, claim),
    });
  }
}

function answerOf(claimId: string, type: Step, { status = 'filed', proposal }: ClaimState): ClaimHandled {
  return { claimId, status, ...(type === 'SettleClaim' && { remaining: proposal ? 1 : 0 }) };
}
