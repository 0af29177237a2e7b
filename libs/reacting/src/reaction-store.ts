import { type DeadLetter, type ReadModel, type ReadModels, answered } from '#libs/projecting';

interface PositionDocument {
  readonly _id: string;
  readonly position: bigint;
  readonly savedAt: string;
}
type StoredDeadLetter = DeadLetter & { readonly _id: string; readonly reaction: string };

/** Where one reaction stands and what it gave up on, in the database `reactions`. */
export class ReactionStore {
  private readonly model: ReadModel;

  constructor(
    private readonly reaction: string,
    models: ReadModels,
  ) {
    this.model = models.openReadModel('reactions');
  }

  async open(): Promise<{ position: bigint | undefined; deadLetters: DeadLetter[] }> {
    const found = await answered(this.positions().findOne({ _id: this.reaction }));
    const deadLetters = await answered(this.letters().find({ reaction: this.reaction }).toArray());
    return { position: found?.position, deadLetters };
  }

  async savePosition(position: bigint): Promise<void> {
    const change = { $set: { position, savedAt: new Date().toISOString() } };
    await answered(this.positions().updateOne({ _id: this.reaction }, change, { upsert: true }));
  }

  /** Durable before the position passes the event. The same event again replaces its record. */
  async setAside(letter: DeadLetter): Promise<void> {
    const replacement = { ...letter, reaction: this.reaction };
    await answered(this.letters().replaceOne({ _id: this.letterId(letter) }, replacement, { upsert: true }));
  }

  async release(letter: Pick<DeadLetter, 'stream' | 'revision'>): Promise<void> {
    await answered(this.letters().deleteOne({ _id: this.letterId(letter) }));
  }

  private letterId({ stream, revision }: Pick<DeadLetter, 'stream' | 'revision'>): string {
    return `${this.reaction}:${stream}:${revision}`;
  }

  private positions() {
    return this.model.collection<PositionDocument>('positions');
  }

  private letters() {
    return this.model.collection<StoredDeadLetter>('dead-letters');
  }
}
