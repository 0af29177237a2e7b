import {
  Command,
  CommandHandler,
  type ICommandHandler,
  type IQueryHandler,
  Query,
  QueryHandler,
} from '@nestjs/cqrs';
import { derivedId } from '#libs/canonical';
import { Conversations, type Message } from '#libs/conversations';
import { InvalidCursor } from '#libs/projecting';
import type { Call } from '../calls.js';
import { keyReused } from '../problems.js';
import type { Paging } from '../routes.js';
import type { BeginBody, MessageBody, PeriodBody } from './conversations.schemas.js';
import { heard, Heard } from './heard.js';

/** Ids derive from the command's, so that a repeat finds what it made the first time. */
function repeats({ command, reply }: Call, repeated: boolean): void {
  if (repeated && command.keyed) reply.header('idempotency-replayed', 'true');
}

export class BeginConversation extends Command<{
  conversationId: string;
  customerId: string;
  createdAt: string;
}> {
  constructor(readonly call: Call<BeginBody>) {
    super();
  }
}

@CommandHandler(BeginConversation)
export class BeginConversationHandler implements ICommandHandler<BeginConversation> {
  constructor(private readonly conversations: Conversations) {}

  async execute({ call }: BeginConversation) {
    const { who, at, body } = call;
    call.demand({ customerId: body.customerId });
    const conversationId = derivedId('conversation', call.command.commandId);
    const wanted = { tenant: who.tenant, conversationId, createdBy: who.sub, createdAt: at, ...body };
    const { conversation, repeated } = await heard(() => this.conversations.begin(wanted));
    if (conversation.customerId !== body.customerId) throw keyReused();
    repeats(call, repeated);
    const { customerId, createdAt } = conversation;
    return { conversationId, customerId, createdAt };
  }
}

type Added = Omit<Message, 'text' | 'salt'> & { conversationId: string };

export class AddMessage extends Command<Added> {
  constructor(readonly call: Call<MessageBody>) {
    super();
  }
}

@CommandHandler(AddMessage)
export class AddMessageHandler implements ICommandHandler<AddMessage> {
  constructor(
    private readonly conversations: Conversations,
    private readonly allowed: Heard,
  ) {}

  async execute({ call }: AddMessage) {
    const { who, at, body, command } = call;
    const messageId = derivedId('message', command.commandId);
    const { bodyDigest } = command;
    const wanted = { messageId, by: who.sub, at, bodyDigest, ...body };
    const { conversationId, made } = await heard(async () => {
      const conversation = await this.allowed.live(call, body.role);
      return { ...conversation, made: await this.conversations.add(conversation, wanted) };
    });
    if (!made) throw keyReused();
    repeats(call, made.repeated);
    const { text: _, salt: __, ...message } = made.message;
    return { conversationId, ...message };
  }
}

export class DeleteConversation extends Command<{ deleted: true }> {
  constructor(readonly call: Call) {
    super();
  }
}

@CommandHandler(DeleteConversation)
export class DeleteConversationHandler implements ICommandHandler<DeleteConversation> {
  constructor(
    private readonly conversations: Conversations,
    private readonly allowed: Heard,
  ) {}

  async execute({ call }: DeleteConversation) {
    const { commandId } = call.command;
    const repeated = await heard(async () => {
      const conversation = await this.allowed.find(call);
      return this.conversations.delete(conversation, commandId, call.at);
    });
    repeats(call, repeated);
    return { deleted: true as const };
  }
}

export class ReadMessages extends Query<{ items: Message[]; nextCursor: string | null }> {
  constructor(readonly call: Call<undefined, Paging>) {
    super();
  }
}

@QueryHandler(ReadMessages)
export class ReadMessagesHandler implements IQueryHandler<ReadMessages> {
  constructor(
    private readonly conversations: Conversations,
    private readonly allowed: Heard,
  ) {}

  async execute({ call }: ReadMessages) {
    const { limit, cursor = '0' } = call.query;
    if (!/^\d{1,9}$/.test(cursor)) throw new InvalidCursor('not a cursor that this list gave out');
    const { messages, next } = await heard(async () => {
      const conversation = await this.allowed.live(call);
      return this.conversations.page(conversation, { limit, after: Number(cursor) }, call.at);
    });
    return { items: messages, nextCursor: next === undefined ? null : String(next) };
  }
}

export class ReadPeriod extends Query<PeriodBody> {
  constructor(readonly call: Call) {
    super();
  }
}

@QueryHandler(ReadPeriod)
export class ReadPeriodHandler implements IQueryHandler<ReadPeriod> {
  constructor(private readonly conversations: Conversations) {}

  async execute({ call }: ReadPeriod) {
    call.demand({});
    return { conversationDays: await heard(() => this.conversations.days(call.who.tenant, call.at)) };
  }
}

export class SetPeriod extends Command<PeriodBody> {
  constructor(readonly call: Call<PeriodBody>) {
    super();
  }
}

@CommandHandler(SetPeriod)
export class SetPeriodHandler implements ICommandHandler<SetPeriod> {
  constructor(private readonly conversations: Conversations) {}

  async execute({ call }: SetPeriod) {
    call.demand({});
    const { conversationDays } = call.body;
    await heard(() => this.conversations.keepFor(call.who.tenant, conversationDays, call.at));
    return { conversationDays };
  }
}
