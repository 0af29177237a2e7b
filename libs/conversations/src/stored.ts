import type { Sealed } from '#libs/vault';

export interface StoredConversation {
  /** `<tenant>.<conversationId>` */
  readonly _id: string;
  readonly tenant: string;
  readonly conversationId: string;
  readonly customerId: string;
  readonly createdBy: string;
  readonly createdAt: Date;
  /** Of its last message; of its creation while it has none. */
  readonly lastAt: Date;
  /** How many messages it ever had. */
  readonly messages: number;
  /** Deleted, or seen to have expired: nothing is added any more. */
  readonly goneAt?: Date;
  /** The command that deleted it. */
  readonly goneBy?: string;
}

export interface StoredMessage {
  /** `<tenant>.<messageId>` */
  readonly _id: string;
  readonly tenant: string;
  readonly conversationId: string;
  readonly messageId: string;
  /** Its place in the conversation, from 1. */
  readonly number: number;
  readonly role: 'customer' | 'assistant' | 'staff';
  readonly by: string;
  readonly sentAt: Date;
  /** When the store removes it: a real date, or it never would. */
  readonly removeAt: Date;
  /** Of text and salt: goes into runs, and tells nothing once the salt is gone. */
  readonly digest: string;
  /** Of the command's body, under the customer's key: tells a repeat. */
  readonly bodyDigest: string;
  /** `{text, salt}` */
  readonly content: Sealed;
}

/** One tenant's period, or under `*` that of all others. */
export interface StoredPeriod {
  readonly _id: string;
  readonly days: number;
  /** Whether every stored message follows it already. */
  readonly applied: boolean;
}

const text = { bsonType: 'string' };
const date = { bsonType: 'date' };
const whole = { bsonType: ['int', 'long'] };

const shape = (properties: Record<string, object>, required = Object.keys(properties)) => ({
  $jsonSchema: { bsonType: 'object', required, properties },
});

/** What the store itself refuses to hold otherwise. A date that is a text would never be removed (P73). */
export const validators = {
  conversations: shape(
    {
      tenant: text,
      conversationId: text,
      customerId: text,
      createdBy: text,
      createdAt: date,
      lastAt: date,
      messages: whole,
      goneAt: date,
      goneBy: text,
    },
    ['tenant', 'conversationId', 'customerId', 'createdBy', 'createdAt', 'lastAt', 'messages'],
  ),
  messages: shape({
    tenant: text,
    conversationId: text,
    messageId: text,
    number: whole,
    role: { enum: ['customer', 'assistant', 'staff'] },
    by: text,
    sentAt: date,
    removeAt: date,
    digest: text,
    bodyDigest: text,
    content: { bsonType: 'object' },
  }),
  periods: shape({ days: whole, applied: { bsonType: 'bool' } }),
};
