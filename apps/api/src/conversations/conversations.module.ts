import { Module, type OnApplicationBootstrap } from '@nestjs/common';
import { Clock, Log, noticeIn } from '#apps/platform';
import { Conversations } from '#libs/conversations';
import { ReadModelUnavailable } from '#libs/projecting';
import { ConversationsController } from './conversations.controller.js';
import * as handlers from './conversations.handlers.js';
import { Heard } from './heard.js';

@Module({
  controllers: [ConversationsController],
  providers: [
    Heard,
    handlers.BeginConversationHandler,
    handlers.AddMessageHandler,
    handlers.DeleteConversationHandler,
    handlers.ReadMessagesHandler,
    handlers.ReadPeriodHandler,
    handlers.SetPeriodHandler,
  ],
})
export class ConversationsModule implements OnApplicationBootstrap {
  constructor(
    private readonly conversations: Conversations,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {}

  /** A period that was changed holds for what is stored, also while nobody talks. */
  async onApplicationBootstrap(): Promise<void> {
    try {
      await this.conversations.start(new Date(this.clock.now()));
    } catch (error) {
      if (!(error instanceof ReadModelUnavailable)) throw error;
      noticeIn(this.log)('conversations are prepared later: the document store is down', {});
    }
  }
}
