import { Controller } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import { type Call as Of, Called } from '../calls.js';
import { Dispatch } from '../dispatch.js';
import { paging, type Paging, Route } from '../routes.js';
import {
  AddMessage,
  BeginConversation,
  DeleteConversation,
  ReadMessages,
  ReadPeriod,
  SetPeriod,
} from './conversations.handlers.js';
import * as of from './conversations.schemas.js';

@Controller()
export class ConversationsController {
  constructor(
    private readonly dispatch: Dispatch,
    private readonly queries: QueryBus,
  ) {}

  @Route('POST', '/v1/conversations', {
    kind: 'aside',
    permit: 'conversations.begin',
    summary: 'Begin a conversation with a customer',
    body: of.beginBody,
    answer: of.begun,
    status: 201,
  })
  begin(@Called() call: Of<of.BeginBody>) {
    return this.dispatch.aside(call, new BeginConversation(call));
  }

  @Route('POST', '/v1/conversations/:conversationId/messages', {
    kind: 'aside',
    permit: 'conversations.speak',
    summary: 'Say something; everybody speaks for themselves',
    body: of.messageBody,
    answer: of.added,
    status: 201,
  })
  say(@Called() call: Of<of.MessageBody>) {
    return this.dispatch.aside(call, new AddMessage(call));
  }

  @Route('GET', '/v1/conversations/:conversationId/messages', {
    kind: 'view',
    permit: 'conversations.read',
    summary: 'What was said and has not expired, oldest first',
    query: paging,
    answer: of.messages,
  })
  async read(@Called() call: Of<undefined, Paging>) {
    return this.queries.execute(new ReadMessages(call));
  }

  @Route('DELETE', '/v1/conversations/:conversationId', {
    kind: 'aside',
    permit: 'conversations.delete',
    summary: 'Delete every message, at once and for good',
    answer: of.deleted,
  })
  delete(@Called() call: Of) {
    return this.dispatch.aside(call, new DeleteConversation(call));
  }

  @Route('GET', '/v1/retention', {
    kind: 'view',
    permit: 'retention.read',
    summary: 'How long the tenant’s messages are kept',
    answer: of.period,
  })
  period(@Called() call: Of) {
    return this.queries.execute(new ReadPeriod(call));
  }

  @Route('PUT', '/v1/retention', {
    kind: 'aside',
    permit: 'retention.set',
    summary: 'Set how long the tenant’s messages are kept, also those that are stored',
    body: of.periodBody,
    answer: of.period,
  })
  keep(@Called() call: Of<of.PeriodBody>) {
    return this.dispatch.aside(call, new SetPeriod(call));
  }
}
