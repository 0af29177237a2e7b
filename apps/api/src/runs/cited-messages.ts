import { Injectable } from '@nestjs/common';
import { Conversations } from '#libs/conversations';
import type { Cited, RunCommand, RunState } from '#libs/domain/runs';
import { type Handled, RefusedCommand } from '#libs/event-store';
import { ReadModelUnavailable } from '#libs/projecting';
import type { Call } from '../calls.js';
import { heard } from '../conversations/heard.js';
import { Runs } from './runs.js';
import type { TimelineEntry } from './timeline.js';

type Recorded = Extract<RunCommand, { type: 'RecordStep' }>;

/** Whose conversation a run cites messages of. */
interface Talk {
  readonly customerId: string;
  readonly conversationId?: string | undefined;
}

/** What runs cite of conversations: messages by id and digest, never a text. */
@Injectable()
export class CitedMessages {
  constructor(
    private readonly conversations: Conversations,
    private readonly runs: Runs,
  ) {}

  /**
   * Records a step. Only where the rule asks for the messages that it cites are they looked for: a step without any,
   * one that was recorded before and one that is refused never touch the document store.
   */
  async record<Answer>(
    call: Call,
    command: Recorded,
    answer: (run: RunState) => Answer,
  ): Promise<Handled<Answer>> {
    try {
      return await this.runs.handle(call, command, answer);
    } catch (error) {
      if (!(error instanceof RefusedCommand) || error.refusal.refused !== 'messages-unread') throw error;
      const talk = error.refusal.extra as unknown as Talk;
      const messages = await heard(() => this.kept(call, talk, command.cites ?? []));
      return this.runs.handle(call, { ...command, messages }, answer);
    }
  }

  /** Says of each message that entries of a timeline cite whether its text is still there. */
  async told(call: Call, talk: Talk, items: readonly TimelineEntry[]): Promise<TimelineEntry[]> {
    const cited = items.flatMap(({ cites = [] }) => cites);
    if (cited.length === 0) return [...items];
    const kept = await this.kept(call, talk, cited).catch((error: unknown) => {
      if (error instanceof ReadModelUnavailable) return undefined;
      throw error;
    });
    const digests = new Map(kept?.map(({ messageId, digest }) => [messageId, digest]));
    return items.map((entry) => {
      if (!entry.cites) return entry;
      const cites = entry.cites.map((each) => {
        const there = digests.get(each.messageId) === each.digest;
        return { ...each, status: kept ? (there ? 'kept' : 'deleted') : 'unknown' } as const;
      });
      return { ...entry, cites, text: inWords(entry.text, cites) };
    });
  }

  private async kept({ who, at }: Call, talk: Talk, cited: readonly Cited[]): Promise<Cited[]> {
    const { customerId, conversationId } = talk;
    if (conversationId === undefined) return [];
    const conversation = await this.conversations.find(who.tenant, conversationId, at);
    if (conversation?.customerId !== customerId) return [];
    const ids = cited.map(({ messageId }) => messageId);
    return this.conversations.cited(conversation, ids, at);
  }
}

function inWords(text: string, cites: readonly { status: 'kept' | 'deleted' | 'unknown' }[]): string {
  const gone = cites.filter(({ status }) => status === 'deleted').length;
  const all = cites.length === 1 ? 'a message' : `${cites.length} messages`;
  if (gone === 0) return `${text} It cites ${all}.`;
  return `${text} It cites ${all}${gone < cites.length ? `, ${gone} of them` : ','} deleted under retention.`;
}
