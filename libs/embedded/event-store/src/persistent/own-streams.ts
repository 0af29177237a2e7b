import { randomBytes } from 'node:crypto';
import type { ProposedEvent, StoredEvent } from '../record.js';
import type { EventStore } from '../store.js';
import { METADATA_TYPE, metadataStreamOf } from '../streams.js';
import { LINK_TYPE } from '../system-streams.js';
import { type Resolved, StreamWindow, awaitsIndex, newest, pageOf, readable, resolve } from '../views.js';
import { type GroupConfig, placeText } from './settings.js';

const CHECKPOINT_TYPE = '$SubscriptionCheckpoint';
const CHECKPOINTS_KEPT = '{"$maxCount":2}';
const PAGE = 64;

export const ownStream = ({ stream, group }: Pick<GroupConfig, 'stream' | 'group'>, part: string): string =>
  `$persistentsubscription-${stream}::${group}-${part}`;

export function systemEvent(type: string, json: boolean, data: string, metadata = ''): ProposedEvent {
  return {
    id: randomBytes(16),
    type: Buffer.from(type),
    json,
    metadata: Buffer.from(metadata),
    data: Buffer.from(data),
  };
}

const setMetadata = (store: EventStore, stream: string, document: string): Promise<unknown> =>
  store.append(metadataStreamOf(stream), 'any', [systemEvent(METADATA_TYPE, true, document)]);

/** Where a group is: everything up to the checkpoint is done with. One event a checkpoint, of which two are kept. */
export class CheckpointStream {
  private readonly name: string;
  /** The place last written. */
  written: number | undefined;

  constructor(
    private readonly store: EventStore,
    private readonly config: GroupConfig,
  ) {
    this.name = ownStream(config, 'checkpoint');
    this.written = parsePlace(newest(store, this.name)?.data.toString());
  }

  /** Rejects when the store cannot write; then the one before still holds. */
  async write(place: number): Promise<void> {
    if (this.written === undefined) await setMetadata(this.store, this.name, CHECKPOINTS_KEPT);
    const text = placeText(this.config.stream, place);
    await this.store.append(this.name, 'any', [systemEvent(CHECKPOINT_TYPE, true, JSON.stringify(text))]);
    this.written = place;
  }
}

/** Of `"7"`, or of `"C:7/P:7"`. */
function parsePlace(document: string | undefined): number | undefined {
  const digits = /^"(?:C:)?(\d+)/.exec(document ?? '')?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** A parked event that is to be tried again; `number` is that of its entry in the parked stream. */
export interface Replayed extends Resolved {
  readonly number: number;
}

/**
 * The events a group gave up on: one link each, section 6.4, until they are replayed. An entry is cut off (`$tb`) when
 * all entries replayed with it are done with, so a crash in between loses none of them: they are parked as before.
 */
export class ParkedStream {
  private readonly name: string;
  private next: number;
  private until = 0;
  private cut: number;
  private readonly open = new Set<number>();

  constructor(
    private readonly store: EventStore,
    config: GroupConfig,
  ) {
    this.name = ownStream(config, 'parked');
    this.next = this.cut = this.firstVisible;
  }

  /** Entries that are not being replayed. */
  get count(): number {
    return Math.max(0, this.last + 1 - Math.max(this.next, this.until));
  }

  /** The end of a replay that is under way. */
  get replaying(): number | undefined {
    return this.next < this.until || this.open.size > 0 ? this.until : undefined;
  }

  private get last(): number {
    return readable(this.store, this.name)?.lastRevision ?? -1;
  }

  private get firstVisible(): number {
    return Math.min(new StreamWindow(this.store, this.name).first, this.last + 1);
  }

  /** Begins a replay of the entries below `stopAt`, unless one is under way. */
  replay(stopAt: number | undefined): void {
    if (this.replaying !== undefined) return;
    this.next = Math.max(this.next, this.firstVisible);
    this.until = Math.min(stopAt ?? Infinity, this.last + 1);
  }

  /** Whether `take` must wait, see `awaitsIndex`. */
  get awaitsIndex(): boolean {
    return awaitsIndex(this.store, this.upcoming());
  }

  /** The next entries of the replay; those whose event is gone are passed over. */
  take(): Replayed[] {
    if (this.next >= this.until) return [];
    const entries = this.upcoming();
    const replayed = entries
      .map((entry) => ({ ...resolve(this.store, entry, true), number: entry.revision }))
      .filter(({ event }) => event !== undefined);
    this.next = (entries.at(-1)?.revision ?? this.until - 1) + 1;
    for (const { number } of replayed) this.open.add(number);
    return replayed;
  }

  private upcoming(): StoredEvent[] {
    const stream = readable(this.store, this.name);
    if (!stream || this.next >= this.until) return [];
    return pageOf(this.store, stream, this.next, 'forwards', Math.min(PAGE, this.until - this.next));
  }

  /** Resolves when the replay's end, if this was it, is durable. */
  async done(number: number): Promise<void> {
    this.open.delete(number);
    if (this.open.size > 0 || this.next < this.until || this.cut >= this.next) return;
    const cut = this.next;
    await setMetadata(this.store, this.name, JSON.stringify({ $tb: cut }));
    this.cut = cut;
  }

  /** Resolves when the event is durably parked. `place` is where it stood in the group's source. */
  async park(event: StoredEvent, reason: string, place: number | undefined): Promise<void> {
    const metadata = JSON.stringify({
      added: new Date().toISOString(),
      reason,
      subscriptionEventNumber: place,
    });
    const link = systemEvent(LINK_TYPE, false, `${event.revision}@${event.stream}`, metadata);
    await this.store.append(this.name, 'any', [link]);
  }
}
