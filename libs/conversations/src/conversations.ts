import { randomBytes } from 'node:crypto';
import { digestOf } from '#libs/canonical';
import { Lanes } from '#libs/event-store';
import { answered, type Notice, type ReadModel, type ReadModels } from '#libs/projecting';
import { Unopenable, type Vault } from '#libs/vault';
import type { ClientSession } from 'mongodb';
import { Retention } from './retention.js';
import { type StoredConversation, type StoredMessage, type StoredPeriod, validators } from './stored.js';

export interface Conversation {
  readonly tenant: string;
  readonly conversationId: string;
  readonly customerId: string;
  readonly createdBy: string;
  readonly createdAt: string;
  /** Deleted or expired: there are no messages, and none can be added. */
  readonly gone: boolean;
  /** The command that deleted it. */
  readonly goneBy?: string;
}

export interface Message {
  readonly messageId: string;
  readonly role: StoredMessage['role'];
  readonly by: string;
  readonly text: string;
  readonly salt: string;
  /** SHA-256 of the canonical form of `{salt, text}`: what a run cites. */
  readonly digest: string;
  readonly sentAt: string;
  readonly expiresAt: string;
}

export interface NewMessage {
  readonly messageId: string;
  readonly role: StoredMessage['role'];
  readonly by: string;
  readonly text: string;
  /** ISO 8601 in UTC with milliseconds. */
  readonly at: string;
  /** Of the command's body, equal for a repeat. */
  readonly bodyDigest: string;
}

/** The conversation was deleted, or has expired. */
export class ConversationGone extends Error {
  override readonly name = 'ConversationGone';
}

const NAME = 'conversations';
const SALT_BYTES = 32;

/**
 * Messages, in a database of their own and in no stream, so that they can be deleted. Texts are sealed with the
 * customer's conversation key. A message lives for its tenant's period from when it was sent, and a conversation
 * from its last message; readers see nothing that has expired, whether or not the store has removed it yet.
 *
 * Adding and deleting are transactions over the conversation's record: of the two the later one sees the earlier,
 * so a message is never left behind in a deleted conversation. The record itself stays, without any text, so that a
 * late message is told what happened.
 *
 * Every method throws `ReadModelUnavailable` when the document store does not answer.
 */
export class Conversations {
  private readonly model: ReadModel;
  private readonly retention: Retention;
  private readonly lanes = new Lanes();
  private prepared: Promise<void> | undefined;

  /** @param days how long the messages of tenants without a period of their own are kept. */
  constructor(
    models: ReadModels,
    private readonly vault: Vault,
    days: number,
    private readonly notice: Notice,
  ) {
    this.model = models.openReadModel(NAME);
    const [conversations, messages, periods] = [this.conversations(), this.messages(), this.periods()];
    this.retention = new Retention({ conversations, messages, periods }, days);
  }

  /**
   * Makes collections and indexes where they are missing, and lets what is stored follow the periods that now hold.
   * Done once, by whichever method is called first; a store that is down is asked again by the next one.
   */
  async start(now: Date): Promise<void> {
    this.prepared ??= answered(this.prepare(now));
    try {
      await this.prepared;
    } catch (error) {
      this.prepared = undefined;
      throw error;
    }
  }

  private async prepare(now: Date): Promise<void> {
    await this.model.define('conversations', validators.conversations);
    await this.model.define('messages', validators.messages, 'removeAt');
    await this.model.define('periods', validators.periods);
    await this.conversations().createIndex({ tenant: 1, customerId: 1 });
    await this.messages().createIndex({ tenant: 1, conversationId: 1, number: 1 }, { unique: true });
    await this.retention.apply(now);
  }

  /** A conversation as of a time, of whatever customer: the caller asks whether it may be seen. */
  async find(tenant: string, conversationId: string, at: string): Promise<Conversation | undefined> {
    await this.start(new Date(at));
    return answered(this.read(tenant, conversationId, new Date(at)));
  }

  /** Makes a conversation; one of that id that is there already stands, whoever it is with. */
  async begin(
    begun: Omit<Conversation, 'gone' | 'goneBy'>,
  ): Promise<{ conversation: Conversation; repeated: boolean }> {
    const { tenant, conversationId, customerId, createdBy, createdAt } = begun;
    const now = new Date(createdAt);
    await this.start(now);
    await this.vault.person(tenant, customerId, { create: ['conversation'] });
    const { upsertedCount } = await answered(
      this.conversations().updateOne(
        { _id: idOf(tenant, conversationId) },
        {
          $setOnInsert: {
            tenant,
            conversationId,
            customerId,
            createdBy,
            createdAt: now,
            lastAt: now,
            messages: 0,
          },
        },
        { upsert: true },
      ),
    );
    const conversation = await this.find(tenant, conversationId, createdAt);
    if (!conversation) throw new Error('a conversation that was made is not there');
    return { conversation, repeated: upsertedCount === 0 };
  }

  /**
   * Adds a message at the end. One of that id with the same body was added before, and is answered as it stands.
   *
   * @returns `undefined` where another message has that id.
   * @throws ConversationGone
   */
  async add(
    conversation: Conversation,
    added: NewMessage,
  ): Promise<{ message: Message; repeated: boolean } | undefined> {
    const { tenant, conversationId, customerId } = conversation;
    const { messageId, role, by, text, at } = added;
    const keys = await this.vault.person(tenant, customerId);
    if (!keys.has('conversation')) throw new ConversationGone(conversationId);
    const _id = idOf(tenant, messageId);
    const salt = randomBytes(SALT_BYTES).toString('hex');
    const sentAt = new Date(at);
    const period = await answered(this.retention.period(tenant));
    const made = {
      _id,
      tenant,
      conversationId,
      messageId,
      role,
      by,
      sentAt,
      removeAt: new Date(sentAt.getTime() + period),
      digest: digestOf({ salt, text }),
      bodyDigest: keys.hmac('conversation', 'stored-body', `${_id}\0${added.bodyDigest}`),
      content: keys.seal('conversation', { salt, text }, placeOf(_id)),
    };
    const known = await this.lanes.run(idOf(tenant, conversationId), () => this.append(made, period));
    await this.follow(made, period);
    if (known && known.bodyDigest !== made.bodyDigest) return undefined;
    const message = await this.opened(customerId, known ?? made, period);
    return { message, repeated: known !== undefined };
  }

  /** The messages that are not expired, oldest first, from after a number on. */
  async page(
    { tenant, conversationId, customerId, gone }: Conversation,
    { limit, after }: { limit: number; after: number },
    at: string,
  ): Promise<{ messages: Message[]; next?: number }> {
    if (gone) throw new ConversationGone(conversationId);
    const now = new Date(at);
    const period = await answered(this.retention.period(tenant));
    const found = await answered(
      this.messages()
        .find({ tenant, conversationId, number: { $gt: after }, ...unexpired(now, period) })
        .sort({ number: 1 })
        .limit(limit + 1)
        .toArray(),
    );
    const shown = found.slice(0, limit);
    const messages = await Promise.all(shown.map((message) => this.opened(customerId, message, period)));
    const last = shown.at(-1);
    return found.length > limit && last ? { messages, next: last.number } : { messages };
  }

  /** Of some messages those that are there and have not expired, by id and digest, as a run cites them. */
  async cited(
    { tenant, conversationId, customerId, gone }: Conversation,
    messageIds: readonly string[],
    at: string,
  ): Promise<Pick<Message, 'messageId' | 'digest'>[]> {
    if (gone || !(await this.vault.person(tenant, customerId)).has('conversation')) return [];
    const period = await answered(this.retention.period(tenant));
    const _id = { $in: messageIds.map((each) => idOf(tenant, each)) };
    const found = await answered(
      this.messages()
        .find({ _id, conversationId, ...unexpired(new Date(at), period) })
        .toArray(),
    );
    return found.map(({ messageId, digest }) => ({ messageId, digest }));
  }

  /**
   * Removes every message at once, for good.
   *
   * @returns whether this very command has done so before.
   * @throws ConversationGone where it was gone already.
   */
  async delete(conversation: Conversation, commandId: string, at: string): Promise<boolean> {
    const { tenant, conversationId, gone, goneBy } = conversation;
    if (gone && goneBy === commandId) return true;
    if (gone) throw new ConversationGone(conversationId);
    const _id = idOf(tenant, conversationId);
    await this.lanes.run(_id, () =>
      this.model.transaction(async (session) => {
        const { matchedCount } = await this.conversations().updateOne(
          { _id, goneAt: { $exists: false } },
          { $set: { goneAt: new Date(at), goneBy: commandId } },
          { session },
        );
        if (matchedCount === 0) throw new ConversationGone(conversationId);
        await this.messages().deleteMany({ tenant, conversationId }, { session });
      }),
    );
    return false;
  }

  /** How many days a tenant's messages are kept. */
  async days(tenant: string, at: string): Promise<number> {
    await this.start(new Date(at));
    return (await answered(this.retention.period(tenant))) / 86_400_000;
  }

  /** Sets it, also for what is stored; what has expired before does not come back. */
  async keepFor(tenant: string, days: number, at: string): Promise<void> {
    await this.start(new Date(at));
    await answered(this.retention.set(tenant, days, new Date(at)));
  }

  private async read(tenant: string, conversationId: string, now: Date): Promise<Conversation | undefined> {
    const found = await this.conversations().findOne({ _id: idOf(tenant, conversationId) });
    if (found === null) return undefined;
    const { customerId, createdBy, lastAt, goneAt, goneBy } = found;
    const expired = lastAt.getTime() + (await this.retention.period(tenant)) <= now.getTime();
    const gone = goneAt !== undefined || expired;
    const createdAt = found.createdAt.toISOString();
    const told = { tenant, conversationId, customerId, createdBy, createdAt, gone };
    return goneBy === undefined ? told : { ...told, goneBy };
  }

  /** @returns the message that has the id already. */
  private async append(
    made: Omit<StoredMessage, 'number'>,
    period: number,
  ): Promise<StoredMessage | undefined> {
    const { _id, tenant, conversationId, sentAt } = made;
    let known: StoredMessage | undefined;
    await this.model.transaction(async (session) => {
      known = (await this.messages().findOne({ _id }, { session })) ?? undefined;
      const counted = known ?? (await this.count(idOf(tenant, conversationId), sentAt, period, session));
      if (!counted) throw new ConversationGone(conversationId);
      if (!known) await this.messages().insertOne({ ...made, number: counted.number }, { session });
    });
    return known;
  }

  private async count(
    _id: string,
    sentAt: Date,
    period: number,
    session: ClientSession,
  ): Promise<{ number: number } | undefined> {
    const counted = await this.conversations().findOneAndUpdate(
      { _id, goneAt: { $exists: false }, lastAt: { $gt: new Date(sentAt.getTime() - period) } },
      { $inc: { messages: 1 }, $max: { lastAt: sentAt } },
      { session, returnDocument: 'after' },
    );
    return counted === null ? undefined : { number: counted.messages };
  }

  /** The period may have been changed, and every message brought up to it, just before this one was there. */
  private async follow(
    { _id, tenant, sentAt }: Omit<StoredMessage, 'number'>,
    before: number,
  ): Promise<void> {
    const period = await answered(this.retention.period(tenant));
    if (period === before) return;
    const removeAt = new Date(sentAt.getTime() + period);
    await answered(this.messages().updateOne({ _id }, { $set: { removeAt } }));
  }

  private async opened(
    customerId: string,
    stored: Omit<StoredMessage, 'number'>,
    period: number,
  ): Promise<Message> {
    const { tenant, messageId, role, by, digest, sentAt, content, _id, conversationId } = stored;
    const keys = await this.vault.person(tenant, customerId);
    try {
      const { text, salt } = keys.open(content, placeOf(_id)) as { text: string; salt: string };
      const expiresAt = new Date(sentAt.getTime() + period).toISOString();
      return { messageId, role, by, text, salt, digest, sentAt: sentAt.toISOString(), expiresAt };
    } catch (error) {
      if (!(error instanceof Unopenable && error.code === 'missing-key')) throw error;
      this.notice('a message cannot be opened: its key is gone', { tenant, conversationId, messageId });
      throw new ConversationGone(conversationId);
    }
  }

  private conversations() {
    return this.model.collection<StoredConversation>('conversations');
  }

  private messages() {
    return this.model.collection<StoredMessage>('messages');
  }

  private periods() {
    return this.model.collection<StoredPeriod>('periods');
  }
}

function idOf(tenant: string, id: string): string {
  return `${tenant}.${id}`;
}

function placeOf(_id: string): string {
  return `${NAME}/${_id}`;
}

/** Both: what was removed under an earlier period does not come back, and a shorter one holds at once. */
function unexpired(now: Date, period: number) {
  return { removeAt: { $gt: now }, sentAt: { $gt: new Date(now.getTime() - period) } };
}
