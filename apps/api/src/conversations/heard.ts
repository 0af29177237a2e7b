import { Injectable } from '@nestjs/common';
import { CheckpointQueries } from '#projections/current-checkpoints';
import { RunningProjections } from '#apps/platform';
import type { Identity } from '#libs/access';
import { type Conversation, ConversationGone, Conversations } from '#libs/conversations';
import { EventStore } from '#libs/event-store';
import { ReadModelUnavailable } from '#libs/projecting';
import type { Call } from '../calls.js';
import { notFound, Problem } from '../problems.js';
import type { MessageBody } from './conversations.schemas.js';

const PATIENCE_MS = 2_000;

/** Conversations as a caller may hear them. */
@Injectable()
export class Heard {
  constructor(
    private readonly conversations: Conversations,
    private readonly runs: CheckpointQueries,
    private readonly projections: RunningProjections,
    private readonly store: EventStore,
  ) {}

  /** The conversation that the path names, deleted or not, once the policy of the route has said yes. */
  async find(call: Call, speaker?: MessageBody['role']): Promise<Conversation> {
    const { who, at } = call;
    const found = await this.conversations.find(who.tenant, call.param('conversationId'), at);
    if (!found) throw notFound();
    const { customerId } = found;
    const assigned = await this.isAssigned(who, found);
    call.demand({ customerId, assigned, ...(speaker && { speaker }) });
    return found;
  }

  /** @throws ConversationGone */
  async live(call: Call, speaker?: MessageBody['role']): Promise<Conversation> {
    const found = await this.find(call, speaker);
    if (found.gone) throw new ConversationGone(found.conversationId);
    return found;
  }

  /**
   * An assistant hears whom it works for: it began the conversation, or took the newest lease of a run of theirs. The
   * view says so; one that does not is asked again once it has reached the end of the log.
   */
  private async isAssigned({ sub, tenant, roles }: Identity, conversation: Conversation): Promise<boolean> {
    if (!roles.includes('assistant')) return false;
    if (conversation.createdBy === sub) return true;
    const holds = () => this.runs.holds({ tenant, customerId: conversation.customerId }, sub);
    if (await holds()) return true;
    const running = this.projections.find('current-checkpoints');
    const reached = await running?.waitFor(await this.store.head(), PATIENCE_MS);
    return reached === true && (await holds());
  }
}

/** The document store holds conversations and nothing stands in for it. */
export async function heard<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ReadModelUnavailable)) throw error;
    const detail = 'The document store cannot be reached.';
    throw new Problem('conversations-unavailable', detail, {}, { 'retry-after': '1' });
  }
}
