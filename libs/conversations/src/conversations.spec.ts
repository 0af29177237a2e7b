import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MongoClient } from 'mongodb';
import { digestOf } from '#libs/canonical';
import { type RunningDocumentStore, startDocumentStore } from '#libs/embedded/document-store';
import { ReadModels } from '#libs/projecting';
import { Vault } from '#libs/vault';
import { type Conversation, ConversationGone, Conversations } from './index.js';

const DAY = 86_400_000;
const start = Date.parse('2026-03-01T00:00:00.000Z');
/** Days, and milliseconds beyond them, after the first of March. */
const after = (days: number, milliseconds = 0) => new Date(start + days * DAY + milliseconds).toISOString();

let folder: string;
let store: RunningDocumentStore;
let models: ReadModels;
let vault: Vault;
let plain: MongoClient;
let conversations: Conversations;

const withStandard = (days: number) => new Conversations(models, vault, days, () => undefined);

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waymark-conversations-'));
  store = await startDocumentStore({ folder, port: 0 });
  models = await ReadModels.connect({ url: store.url });
  vault = await Vault.open({ folder: join(folder, 'keys') });
  plain = await MongoClient.connect(store.url);
  conversations = withStandard(30);
});
afterAll(async () => {
  await plain.close();
  await models.close();
  await store.close();
  await rm(folder, { recursive: true });
});

async function begun(tenant = 'acme', at = after(0)): Promise<Conversation> {
  const ids = { conversationId: randomUUID(), customerId: randomUUID() };
  const { conversation } = await conversations.begin({ tenant, createdBy: 'erin', createdAt: at, ...ids });
  return conversation;
}

const say = (to: Conversation, text: string, at: string, messageId: string = randomUUID(), body = text) =>
  conversations.add(to, { messageId, role: 'customer', by: 'erin', text, at, bodyDigest: body });

async function textsAt(of: Conversation, at: string, from = conversations): Promise<string[] | 'gone'> {
  const found = await from.find(of.tenant, of.conversationId, at);
  if (!found || found.gone) return 'gone';
  const { messages } = await from.page(found, { limit: 200, after: 0 }, at);
  return messages.map(({ text }) => text);
}

const stored = (of: Conversation) =>
  plain.db('conversations').collection('messages').countDocuments({ conversationId: of.conversationId });

describe('messages', () => {
  it('are read in the order in which they were added, a page at a time, with the digest that a run cites', async () => {
    const conversation = await begun();
    for (const text of ['one', 'two', 'three']) await say(conversation, text, after(1));
    const first = await conversations.page(conversation, { limit: 2, after: 0 }, after(1));
    expect(first).toMatchObject({ messages: [{ text: 'one' }, { text: 'two' }], next: 2 });
    const second = await conversations.page(conversation, { limit: 2, after: 2 }, after(1));
    expect(second.messages.map(({ text }) => text)).toEqual(['three']);
    expect(second.next).toBeUndefined();
    for (const { text, salt, digest } of first.messages) expect(digest).toBe(digestOf({ salt, text }));
  });

  it('of the same text have different digests', async () => {
    const conversation = await begun();
    const added = [await say(conversation, 'yes', after(1)), await say(conversation, 'yes', after(1))];
    expect(new Set(added.map((each) => each?.message.digest)).size).toBe(2);
  });

  it('sent twice stand once; another one under the same id is refused', async () => {
    const conversation = await begun();
    const id = randomUUID();
    const first = await say(conversation, 'hello', after(1), id);
    expect(await say(conversation, 'hello', after(2), id)).toEqual({ ...first, repeated: true });
    expect(await say(conversation, 'bye', after(2), id)).toBeUndefined();
    expect(await textsAt(conversation, after(2))).toEqual(['hello']);
  });

  it('of ten who talk at once all stand, each at a place of its own', async () => {
    const conversation = await begun();
    const texts = Array.from({ length: 10 }, (_, index) => `message ${index}`);
    await Promise.all(texts.map((text) => say(conversation, text, after(1))));
    expect((await textsAt(conversation, after(1))).toString().split(',').sort()).toEqual(texts);
  });

  it('lie sealed', async () => {
    const conversation = await begun();
    await say(conversation, 'my knee hurts', after(1));
    const found = await plain.db('conversations').collection('messages').find().toArray();
    expect(JSON.stringify(found)).not.toContain('knee');
    expect(found.at(-1)).toMatchObject({ content: { sealed: 'v1' }, sentAt: new Date(after(1)) });
  });
});

describe('deleting', () => {
  it('removes every message at once, and lets none come late', async () => {
    const conversation = await begun();
    await say(conversation, 'hello', after(1));
    expect(await conversations.delete(conversation, 'command', after(2))).toBe(false);
    expect(await stored(conversation)).toBe(0);
    await expect(say(conversation, 'late', after(2))).rejects.toThrow(ConversationGone);
    expect(await stored(conversation)).toBe(0);
    const gone = await conversations.find(conversation.tenant, conversation.conversationId, after(2));
    expect(gone).toMatchObject({ gone: true, customerId: conversation.customerId });
    if (!gone) return;
    expect(await conversations.delete(gone, 'command', after(3))).toBe(true);
    await expect(conversations.delete(gone, 'another', after(3))).rejects.toThrow(ConversationGone);
  });

  it('while others talk leaves nothing behind, and whoever was answered was answered before', async () => {
    const conversation = await begun();
    const said = Array.from({ length: 8 }, (_, index) =>
      say(conversation, `message ${index}`, after(1)).then(
        () => 'added',
        (error: unknown) => (error instanceof ConversationGone ? 'gone' : error),
      ),
    );
    await conversations.delete(conversation, 'command', after(1));
    const ends = await Promise.all(said);
    expect(ends.filter((end) => end !== 'added' && end !== 'gone')).toEqual([]);
    expect(await stored(conversation)).toBe(0);
  });
});

describe('expiry', () => {
  it('P73: a message is visible until its last millisecond, and from the next one on gone', async () => {
    const conversation = await begun();
    await say(conversation, 'early', after(1));
    await say(conversation, 'late', after(20));
    expect(await textsAt(conversation, after(31, -1))).toEqual(['early', 'late']);
    expect(await textsAt(conversation, after(31))).toEqual(['late']);
    expect(await stored(conversation)).toBe(2);
  });

  it('a conversation lives from its last message, and takes none after', async () => {
    const conversation = await begun();
    await say(conversation, 'one', after(10));
    expect(await textsAt(conversation, after(40, -1))).toEqual(['one']);
    expect(await textsAt(conversation, after(40))).toBe('gone');
    await expect(say(conversation, 'late', after(40))).rejects.toThrow(ConversationGone);
  });

  it('P74: another standard holds after a restart, for stored messages too, and brings nothing back', async () => {
    const conversation = await begun('initech');
    const removal = () =>
      plain.db('conversations').collection('messages').find({ tenant: 'initech' }).toArray();
    await say(conversation, 'one', after(1));
    await say(conversation, 'two', after(9));
    const week = withStandard(7);
    await week.start(new Date(after(10)));
    expect(await textsAt(conversation, after(10), week)).toEqual(['two']);
    expect((await removal()).map(({ removeAt }) => removeAt as Date)).toEqual([
      new Date(after(8)),
      new Date(after(16)),
    ]);
    const year = withStandard(365);
    await year.start(new Date(after(12)));
    expect(await textsAt(conversation, after(12), year)).toEqual(['two']);
    expect((await removal()).map(({ removeAt }) => removeAt as Date)).toEqual([new Date(after(374))]);
    await withStandard(30).start(new Date(after(12)));
  });

  it('is each tenant’s own, from the moment it is set', async () => {
    const [ours, theirs] = [await begun('umbrella'), await begun('hooli')];
    for (const each of [ours, theirs]) await say(each, 'hello', after(1));
    await conversations.keepFor('umbrella', 2, after(2));
    expect(await conversations.days('umbrella', after(2))).toBe(2);
    expect(await textsAt(ours, after(3, -1))).toEqual(['hello']);
    expect(await textsAt(ours, after(3))).toBe('gone');
    expect(await textsAt(theirs, after(3))).toEqual(['hello']);
    await conversations.keepFor('umbrella', 90, after(4));
    expect(await textsAt(ours, after(4))).toBe('gone');
    await withStandard(1).start(new Date(after(4)));
    expect(await withStandard(1).days('umbrella', after(4))).toBe(90);
    await withStandard(30).start(new Date(after(4)));
  });

  it('a change that was cut short is finished by the next start', async () => {
    const conversation = await begun('vandelay');
    await say(conversation, 'hello', after(1));
    const periods = plain.db('conversations').collection<{ _id: string }>('periods');
    await periods.insertOne({ _id: 'vandelay', ...{ days: 3, applied: false } });
    await withStandard(30).start(new Date(after(2)));
    expect(await periods.findOne({ _id: 'vandelay' })).toEqual({ _id: 'vandelay', days: 3, applied: true });
    const [message] = await plain
      .db('conversations')
      .collection('messages')
      .find({ tenant: 'vandelay' })
      .toArray();
    expect(message?.removeAt).toEqual(new Date(after(4)));
  });
});
