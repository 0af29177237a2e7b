import type { AnyBulkWriteOperation, Collection, Filter } from 'mongodb';
import type { StoredConversation, StoredMessage, StoredPeriod } from './stored.js';

const DAY_MS = 86_400_000;
const OF_ALL_OTHERS = '*';
const AT_ONCE = 500;

interface Collections {
  readonly conversations: Collection<StoredConversation>;
  readonly messages: Collection<StoredMessage>;
  readonly periods: Collection<StoredPeriod>;
}

/**
 * How long messages are kept, for each tenant. What has expired is told from when it was sent and the period as it
 * now stands, so a shorter period holds from the moment it is set; that the store removes each message at the right
 * time is brought about behind that, in place, and after a crash by the next start.
 */
export class Retention {
  constructor(
    private readonly stored: Collections,
    private readonly standardDays: number,
  ) {}

  /** In milliseconds. */
  async period(tenant: string): Promise<number> {
    const set = await this.stored.periods.findOne({ _id: tenant });
    return (set?.days ?? this.standardDays) * DAY_MS;
  }

  /** The tenant's own period from now on, also for what is stored. */
  async set(tenant: string, days: number, now: Date): Promise<void> {
    const before = await this.period(tenant);
    if (before === days * DAY_MS && (await this.stored.periods.countDocuments({ _id: tenant })) > 0) return;
    await this.change(tenant, { tenant }, before, days, now);
  }

  /** Brings what is stored up to the periods that hold: where another standard was set, or a change was cut short. */
  async apply(now: Date): Promise<void> {
    const { periods } = this.stored;
    const set = await periods.find().toArray();
    const own = set.filter(({ _id }) => _id !== OF_ALL_OTHERS);
    for (const { _id: tenant, days, applied } of own)
      if (!applied) await this.change(tenant, { tenant }, days * DAY_MS, days, now);
    const standard = set.find(({ _id }) => _id === OF_ALL_OTHERS);
    if (standard?.applied && standard.days === this.standardDays) return;
    const others = { tenant: { $nin: own.map(({ _id }) => _id) } };
    const before = (standard?.days ?? this.standardDays) * DAY_MS;
    await this.change(OF_ALL_OTHERS, others, before, this.standardDays, now);
  }

  /**
   * What has expired under the old period goes first, since a longer one must not bring it back. The period stands
   * before messages follow it: whoever adds one meanwhile looks at the period once more afterwards.
   */
  private async change(
    _id: string,
    whose: { tenant: string | { $nin: string[] } },
    before: number,
    days: number,
    now: Date,
  ): Promise<void> {
    const { conversations, messages, periods } = this.stored;
    const ended = new Date(now.getTime() - before);
    await messages.deleteMany({ ...whose, sentAt: { $lte: ended } } satisfies Filter<StoredMessage>);
    await conversations.updateMany(
      { ...whose, lastAt: { $lte: ended }, goneAt: { $exists: false } },
      { $set: { goneAt: now } },
    );
    await periods.updateOne({ _id }, { $set: { days, applied: false } }, { upsert: true });
    await this.reschedule(whose, days * DAY_MS);
    await periods.updateOne({ _id, days }, { $set: { applied: true } });
  }

  private async reschedule(whose: Filter<StoredMessage>, period: number): Promise<void> {
    const { messages } = this.stored;
    let batch: AnyBulkWriteOperation<StoredMessage>[] = [];
    const write = async () => {
      if (batch.length > 0) await messages.bulkWrite(batch, { ordered: false });
      batch = [];
    };
    for await (const { _id, sentAt } of messages.find(whose, { projection: { sentAt: 1 } })) {
      const removeAt = new Date(sentAt.getTime() + period);
      batch.push({ updateOne: { filter: { _id }, update: { $set: { removeAt } } } });
      if (batch.length === AT_ONCE) await write();
    }
    await write();
  }
}
