export { Conversations } from './conversations.js';
export type { Conversation, Message, NewMessage } from './conversations.js';
export { ConversationGone } from './conversations.js';
