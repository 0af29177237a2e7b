import { randomBytes } from 'node:crypto';
import { Catalogue, type StreamState } from './catalogue.js';
import { type Commit, GroupCommit } from './commits.js';
import { SegmentLog } from './log.js';
import { type Location, type LogOptions, LogUnwritable } from './segments.js';
import { messageOf } from './errors.js';
import { EventReader } from './reader.js';
import { RecentEvents, RecentIds } from './recent.js';
import { type NewEvent, type ProposedEvent, StoredEvent, encodeFrame } from './record.js';
import {
  type Expected,
  METADATA_TYPE,
  NO_METADATA,
  SOFT_DELETED_DOCUMENT,
  type StreamFacts,
  type StreamMetadata,
  type Verdict,
  decide,
  isMetadataStream,
  metadataStreamOf,
  ownerOfMetadata,
  parseMetadata,
  reviveDocument,
} from './streams.js';
import { SystemStreams } from './system-streams.js';

/** `revision` −1 stands for a stream without events (an empty append); `position` is that of the last event named. */
export interface Written {
  readonly kind: 'written';
  readonly revision: number;
  readonly position: number;
}
export type Answer = Written | Exclude<Verdict, { kind: 'write' } | { kind: 'repeat' }>;

interface Assigned {
  readonly stream: StreamState;
  readonly event: NewEvent;
  readonly idKey: string;
  readonly position: number;
}

const EMPTY = Buffer.alloc(0);
/** The index keeps positions in 32 bits. */
const POSITION_LIMIT = 2 ** 32;
/** An id that no event has: deleting asks the rules like an append that cannot be a re-send. */
const NO_ID = [''];

/**
 * The store behind the protocol: decides each append against everything accepted before it, writes it as one frame,
 * and answers after the sync that covers it and all it was decided on. Readers see exactly what is durable.
 */
export class EventStore {
  readonly catalogue = new Catalogue();
  readonly reader: EventReader;
  readonly system = new SystemStreams(this);
  /** Set by `drain`: no append is accepted any more. */
  draining = false;
  readonly log: SegmentLog;
  private readonly commits: GroupCommit;
  private readonly recentIds = new RecentIds();
  readonly recentEvents = new RecentEvents();
  private readonly watchers = new Map<string, Set<() => void>>();
  private readonly allWatchers = new Set<() => void>();
  private drained: (() => void)[] = [];
  private assignedPosition: number;
  private touched = new Set<StreamState>();

  constructor(
    private readonly options: LogOptions,
    private readonly backlogBytes = 32 * 1024 * 1024,
  ) {
    this.log = SegmentLog.open(options, (event, location) => this.catalogue.recover(event, location));
    this.reader = new EventReader(this.log, this.catalogue, this.recentEvents, options.salt);
    this.assignedPosition = this.catalogue.lastPosition;
    this.commits = new GroupCommit(
      (frames) => this.log.write(frames),
      () => this.announce(),
    );
  }

  /** Whether so much waits for the disk that callers should stop taking input until `hasRoom`. */
  get overloaded(): boolean {
    return this.commits.backlog > this.backlogBytes;
  }

  hasRoom(): Promise<void> {
    return this.overloaded ? new Promise((resolve) => this.drained.push(resolve)) : Promise.resolve();
  }

  /** Sections 2.2 to 2.4. Rejects with `LogUnwritable` when nothing of it is on disk and nothing will be. */
  async append(name: string, expected: Expected, events: readonly ProposedEvent[]): Promise<Answer> {
    this.checkOpen(events.length);
    const ids = events.map((event) => event.id.toString('latin1', 0, 16));
    const facts = this.facts(name);
    const verdict = decide(facts, expected, ids, this.knownIds(name));
    if (verdict.kind === 'repeat') return this.answer(this.repeated(name, verdict.revision));
    if (verdict.kind !== 'write') return this.answer(verdict);
    const hidden = this.isHidden(name, facts);
    const assigned = this.assign(name, events, ids);
    const last = assigned.at(-1);
    const answer: Written = {
      kind: 'written',
      revision: last?.event.revision ?? facts.last,
      position: last?.position ?? this.assignedPosition,
    };
    const revival = hidden ? this.revival(name, facts.last + 1) : undefined;
    return this.write(revival ? [...assigned, revival] : assigned, answer);
  }

  /** Soft delete, section 5.2: hides what the stream has and drops its metadata. */
  async delete(name: string, expected: Expected): Promise<Answer> {
    this.checkOpen(1);
    const facts = this.facts(name);
    const refusal = refusalOf(decide(facts, expected, NO_ID, this.knownIds(name)));
    if (refusal) return this.answer(refusal);
    if (facts.last < 0 && !facts.hasMetadata) return this.answer({ kind: 'wrong-revision', last: -1 });
    const metadata = this.assignMetadata(name, SOFT_DELETED_DOCUMENT);
    return this.write([metadata], { kind: 'written', revision: facts.last, position: metadata.position });
  }

  /** Hard delete, section 5.4: the stream can never be used again. */
  async tombstone(name: string, expected: Expected): Promise<Answer> {
    this.checkOpen(1);
    const facts = this.facts(name);
    const refusal = refusalOf(decide(facts, expected, NO_ID, this.knownIds(name)));
    if (refusal) return this.answer(refusal);
    const stream = this.catalogue.stream(name);
    const event: NewEvent = {
      stream: stream.nameBytes,
      revision: 0,
      ...systemEvent('$streamDeleted', ''),
      json: false,
      tombstone: true,
    };
    stream.tombstonePending = true;
    const assigned = { stream, event, idKey: '', position: ++this.assignedPosition };
    return this.write([assigned], { kind: 'written', revision: facts.last, position: assigned.position });
  }

  /** What readers must apply to the stream: durable metadata only. */
  metadataOf(name: string): StreamMetadata {
    const stream = this.catalogue.peek(name);
    if (stream?.metadata) return stream.metadata;
    const document = isMetadataStream(name) ? undefined : this.durableDocument(name);
    const metadata = document ? parseMetadata(document) : NO_METADATA;
    if (stream) stream.metadata = metadata;
    return metadata;
  }

  isTombstoned(name: string): boolean {
    const owner = isMetadataStream(name) ? ownerOfMetadata(name) : name;
    return this.catalogue.peek(owner)?.tombstoned ?? false;
  }

  /** Calls `wake` after each group that made events of `stream` (of any stream, if undefined) visible. */
  watch(stream: string | undefined, wake: () => void): () => void {
    const set = stream === undefined ? this.allWatchers : (this.watchers.get(stream) ?? new Set());
    if (stream !== undefined) this.watchers.set(stream, set);
    set.add(wake);
    return () => {
      set.delete(wake);
      if (stream !== undefined && set.size === 0 && this.watchers.get(stream) === set)
        this.watchers.delete(stream);
    };
  }

  /** Runs `act` when no write is under way. Rejects with what it throws, and when a write fails before its turn. */
  betweenWrites(act: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.commits.enqueue({
        durable: () => resolve(new Promise((done) => done(act()))),
        answer: () => undefined,
        failed: reject,
      });
    });
  }

  /** From now on refuses appends; resolves when those accepted before are answered. */
  drain(): Promise<void> {
    this.draining = true;
    return this.commits.settled();
  }

  /** Answers what is queued, then closes the files; nothing may be asked of the store afterwards. */
  async close(): Promise<void> {
    await this.drain();
    try {
      this.log.finish();
    } catch (error) {
      this.options.onNotice(`the log could not be marked as whole when it was closed: ${messageOf(error)}`);
    } finally {
      this.log.close();
    }
  }

  private checkOpen(more: number): void {
    if (this.draining) throw new LogUnwritable(false, { cause: new Error('it is stopping') });
    if (this.assignedPosition + more >= POSITION_LIMIT)
      throw new LogUnwritable(true, { cause: new Error(`it holds ${POSITION_LIMIT} events, its most`) });
  }

  private facts(name: string): StreamFacts {
    const stream = this.catalogue.peek(name);
    const owner = isMetadataStream(name) ? this.catalogue.peek(ownerOfMetadata(name)) : stream;
    const last = stream?.assignedRevision ?? -1;
    return {
      last,
      tombstoned: (owner?.tombstoned ?? false) || (owner?.tombstonePending ?? false),
      softDeleted: (stream?.pendingMetadata ?? this.metadataOf(name)).softDeleted,
      hasMetadata: last < 0 && (this.catalogue.peek(metadataStreamOf(name))?.assignedRevision ?? -1) >= 0,
    };
  }

  private knownIds(name: string): Parameters<typeof decide>[3] {
    const stream = this.catalogue.peek(name);
    return {
      idAt: (revision) => (stream ? this.idAt(stream, revision) : undefined),
      revisionOf: (id) => (stream ? this.recentIds.revisionOf(stream, id) : undefined),
    };
  }

  private idAt(stream: StreamState, revision: number): string | undefined {
    if (revision > stream.assignedRevision) return undefined;
    const durable = stream.positions.length;
    if (revision >= durable) return stream.pending[revision - durable]?.idKey;
    return this.reader.at(stream.positions.at(revision)).idKey;
  }

  private repeated(name: string, revision: number): Written {
    const stream = this.catalogue.stream(name);
    const durable = stream.positions.length;
    const position =
      revision < durable
        ? stream.positions.at(revision)
        : (stream.pending[revision - durable]?.position ?? 0);
    return { kind: 'written', revision, position };
  }

  private assign(name: string, events: readonly ProposedEvent[], ids: readonly string[]): Assigned[] {
    if (events.length === 0) return [];
    const stream = this.catalogue.stream(name);
    const assigned = events.map((event, i) => this.assignOne(stream, event, ids[i] ?? ''));
    const document = events.at(-1)?.data;
    if (isMetadataStream(name) && document)
      this.catalogue.stream(ownerOfMetadata(name)).pendingMetadata = parseMetadata(document);
    return assigned;
  }

  private assignOne(stream: StreamState, proposed: ProposedEvent, idKey: string): Assigned {
    const { id, type, json, metadata, data } = proposed;
    const revision = stream.assignedRevision + 1;
    const position = ++this.assignedPosition;
    stream.pending.push({ revision, position, idKey, data });
    this.recentIds.remember(stream, idKey, revision);
    return {
      stream,
      position,
      idKey,
      event: { stream: stream.nameBytes, revision, id, type, json, metadata, data },
    };
  }

  private assignMetadata(name: string, document: string): Assigned {
    const event = systemEvent(METADATA_TYPE, document);
    this.catalogue.stream(name).pendingMetadata = parseMetadata(event.data);
    return this.assignOne(
      this.catalogue.stream(metadataStreamOf(name)),
      event,
      event.id.toString('latin1', 0, 16),
    );
  }

  /** Whether the append reaches a soft-deleted stream, directly or by its metadata. */
  private isHidden(name: string, facts: StreamFacts): boolean {
    return isMetadataStream(name) ? this.facts(ownerOfMetadata(name)).softDeleted : facts.softDeleted;
  }

  /** Such an append shows the stream again from its next revision on (section 5.3), in the same frame. */
  private revival(name: string, next: number): Assigned | undefined {
    const target = isMetadataStream(name) ? ownerOfMetadata(name) : name;
    const stream = this.catalogue.stream(target);
    if (isMetadataStream(name) && (stream.pendingMetadata?.softDeleted ?? true)) return undefined;
    const first = isMetadataStream(name) ? stream.assignedRevision + 1 : next;
    return this.assignMetadata(target, reviveDocument(this.latestDocument(target), first));
  }

  private write(assigned: readonly Assigned[], answer: Answer): Promise<Answer> {
    const first = assigned[0];
    if (!first) return this.answer(answer);
    const frame = encodeFrame(
      assigned.map(({ event }) => event),
      first.position,
      Date.now(),
      this.options.salt,
    );
    return this.enqueue(answer, frame.bytes, {
      durable: (location) => this.show(assigned, frame, location),
      failed: () => this.rollBack(assigned),
    });
  }

  /** Answers after the sync of everything in flight, because the answer may rest on it. */
  private answer(answer: Answer): Promise<Answer> {
    return this.enqueue(answer, undefined, { durable: () => undefined, failed: () => undefined });
  }

  private enqueue(
    answer: Answer,
    bytes: Buffer | undefined,
    on: Pick<Commit, 'durable' | 'failed'>,
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.commits.enqueue({
        bytes,
        durable: on.durable,
        answer: () => resolve(answer),
        failed: (error) => {
          on.failed(error);
          reject(error);
        },
      });
    });
  }

  private show(
    assigned: readonly Assigned[],
    frame: { bytes: Buffer; offsets: readonly number[] },
    location: Location,
  ): void {
    assigned.forEach(({ stream, event, position }, i) => {
      const offset = frame.offsets[i] ?? 0;
      this.catalogue.add(stream, position, event.tombstone ?? false, location + offset);
      this.recentEvents.add(new StoredEvent(frame.bytes, offset, position));
      this.touched.add(stream);
    });
    this.settle(assigned);
  }

  private settle(assigned: readonly Assigned[]): void {
    const counts = new Map<StreamState, number>();
    for (const { stream, event } of assigned)
      if (event.tombstone) stream.tombstonePending = false;
      else counts.set(stream, (counts.get(stream) ?? 0) + 1);
    for (const [stream, count] of counts) {
      if (stream.pending.length === count) stream.pending = [];
      else stream.pending.splice(0, count);
      if (isMetadataStream(stream.name)) this.settleMetadata(stream, assigned);
    }
  }

  private settleMetadata(stream: StreamState, assigned: readonly Assigned[]): void {
    const owner = this.catalogue.stream(ownerOfMetadata(stream.name));
    const last = assigned.findLast((one) => one.stream === stream);
    if (last) owner.metadata = parseMetadata(last.event.data);
    if (stream.pending.length === 0) owner.pendingMetadata = undefined;
  }

  private rollBack(assigned: readonly Assigned[]): void {
    this.assignedPosition = this.catalogue.lastPosition;
    for (const { stream, idKey, event } of assigned) {
      stream.rollBack();
      if (isMetadataStream(stream.name)) this.catalogue.peek(ownerOfMetadata(stream.name))?.rollBack();
      this.recentIds.forget(stream, idKey, event.revision);
    }
  }

  private announce(): void {
    if (this.touched.size > 0) {
      const touched = this.touched;
      this.touched = new Set();
      for (const stream of touched) this.watchers.get(stream.name)?.forEach((wake) => wake());
      this.allWatchers.forEach((wake) => wake());
    }
    if (!this.overloaded) for (const resolve of this.drained.splice(0)) resolve();
  }

  private latestDocument(name: string): Buffer {
    const pending = this.catalogue.peek(metadataStreamOf(name))?.pending.at(-1)?.data;
    return pending ?? this.durableDocument(name) ?? EMPTY;
  }

  private durableDocument(name: string): Buffer | undefined {
    const metadata = this.catalogue.peek(metadataStreamOf(name));
    if (!metadata || metadata.lastRevision < 0) return undefined;
    return this.reader.at(metadata.positions.at(metadata.lastRevision)).data;
  }
}

function refusalOf(verdict: Verdict): Answer | undefined {
  return verdict.kind === 'wrong-revision' || verdict.kind === 'stream-deleted' ? verdict : undefined;
}

function systemEvent(type: string, data: string): ProposedEvent {
  return {
    id: randomBytes(16),
    type: Buffer.from(type),
    json: true,
    metadata: EMPTY,
    data: Buffer.from(data),
  };
}
