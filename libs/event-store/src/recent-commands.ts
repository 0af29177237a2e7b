import type { Json } from '#libs/canonical';
import type { StoredEvent } from './envelope.js';

/** What a command left behind: its events stand at revisions `first` to `last`. */
export interface CommandRecord {
  readonly bodyDigest: string;
  readonly first: bigint;
  readonly last: bigint;
  /** Of its last event, in the log. */
  readonly position: bigint;
  /** Milliseconds since the epoch. */
  readonly recordedAt: number;
}

type Noted = Pick<StoredEvent, 'revision' | 'position' | 'metadata'>;
type Entry = [commandId: string, ...record: string[]];

/** How long a command's id is remembered. */
export const REMEMBERED_MS = 24 * 60 * 60 * 1000;

/** So many commands in a row must say that a day has passed. */
const WITNESSES = 16;

/**
 * The commands of one stream whose events are less than a day old, and the one that created it. A function of the
 * stream's events alone: ages are measured by `recordedAt`, so every fold of the same events holds the same. One
 * clock may be wrong: the time here is the earliest that any of the last 16 commands had.
 *
 * Kept in two generations: when all of the older are a day old they are forgotten together, and the younger become
 * the older. So ageing costs nothing for each command, and what is held is at most two days' commands and 32, or
 * while some are from the future, all since; `find` looks at the exact age.
 */
export class RecentCommands {
  private older = new Map<string, CommandRecord>();
  private younger = new Map<string, CommandRecord>();
  /** When the last of the older was recorded. */
  private until = -Infinity;
  /** When each of the last commands was recorded. */
  private witnesses: number[] = [];

  constructor(private first?: CommandRecord) {}

  /** The command that created the stream, however long ago. */
  get creation(): CommandRecord | undefined {
    return this.first;
  }

  /** Notes an event of the stream; events are noted in their order. */
  note({ revision, position, metadata }: Noted): void {
    const { commandId, bodyDigest } = metadata;
    const recordedAt = Date.parse(metadata.recordedAt);
    const known = this.younger.get(commandId);
    const continues = known?.last === revision - 1n && known.recordedAt === recordedAt;
    if (!continues) this.witness(recordedAt);
    const first = continues ? known.first : revision;
    const record = { bodyDigest, first, last: revision, position, recordedAt };
    if (first === 0n) this.first = record;
    this.younger.set(commandId, record);
  }

  /** The record of a command that was recorded less than a day before `at` (ISO 8601). */
  find(commandId: string, at: string): CommandRecord | undefined {
    const record = this.younger.get(commandId) ?? this.older.get(commandId);
    return record && Date.parse(at) - record.recordedAt < REMEMBERED_MS ? record : undefined;
  }

  save(): Json {
    const entries = (records: Map<string, CommandRecord>) =>
      Array.from(records, ([id, record]): Json => [id, ...saved(record)]);
    return {
      witnesses: this.witnesses,
      first: this.first ? saved(this.first) : [],
      older: entries(this.older),
      younger: entries(this.younger),
    };
  }

  static load(json: Json): RecentCommands {
    const { witnesses, first, older, younger } = json as {
      witnesses: number[];
      first: string[];
      older: Entry[];
      younger: Entry[];
    };
    const commands = new RecentCommands(first.length > 0 ? loaded(first) : undefined);
    const records = (entries: Entry[]) =>
      new Map(entries.map(([id, ...record]): [string, CommandRecord] => [id, loaded(record)]));
    commands.witnesses = witnesses;
    commands.older = records(older);
    commands.until = lastOf(commands.older);
    commands.younger = records(younger);
    return commands;
  }

  private witness(recordedAt: number): void {
    this.witnesses.push(recordedAt);
    if (this.witnesses.length <= WITNESSES) return;
    this.witnesses.shift();
    if (Math.min(...this.witnesses) < this.until + REMEMBERED_MS) return;
    this.older = this.younger;
    this.until = lastOf(this.older);
    this.younger = new Map();
  }
}

function lastOf(records: Map<string, CommandRecord>): number {
  let last = -Infinity;
  for (const { recordedAt } of records.values()) last = Math.max(last, recordedAt);
  return last;
}

function saved({ bodyDigest, first, last, position, recordedAt }: CommandRecord): string[] {
  return [bodyDigest, String(first), String(last), String(position), String(recordedAt)];
}

function loaded([
  bodyDigest = '',
  first = '0',
  last = '0',
  position = '0',
  recordedAt = '0',
]: string[]): CommandRecord {
  return {
    bodyDigest,
    first: BigInt(first),
    last: BigInt(last),
    position: BigInt(position),
    recordedAt: Number(recordedAt),
  };
}
