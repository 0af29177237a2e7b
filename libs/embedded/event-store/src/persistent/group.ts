import { CallFailed, type Failure, failureOf, unavailable } from '../errors.js';
import { nextTurn } from '../reads.js';
import type { StoredEvent } from '../record.js';
import { LogUnwritable } from '../segments.js';
import type { EventStore } from '../store.js';
import { Bell } from '../subscriptions.js';
import { type Resolved, awaitsIndex, resolve } from '../views.js';
import { type GroupClient, type Message, bytesOf } from './consumer.js';
import { CheckpointStream, ParkedStream } from './own-streams.js';
import type { GroupConfig } from './settings.js';
import { GroupSource } from './source.js';
import { type Strategy, sourceOf, strategyNamed } from './strategies.js';

export type NackAction = 'park' | 'retry' | 'skip';

/** A timeout of 0 means the next time that timeouts are looked at: milliseconds. */
const TICK = 1000;

/** Bytes beyond which nothing more is read until some of it is delivered, however few events they are. */
const READ_AHEAD_BYTES = 4 * 1024 * 1024;

/**
 * One persistent subscription, section 6: what it reads is handed to its clients one by one and is done with when it
 * is acknowledged, skipped or durably parked. Nothing is read ahead beyond one batch, whoever is slow, and nothing at
 * all without a client. The checkpoint is the place before the first event that is not done with, so that a crash at
 * any moment has events delivered again and loses none. Events that are tried again go before new ones.
 */
export class Group {
  readonly parked: ParkedStream;
  readonly source: GroupSource;
  readonly checkpoints: CheckpointStream;
  clients: readonly GroupClient[] = [];
  readonly retries: Message[] = [];
  readonly fresh: Message[] = [];
  /** Sent and unanswered, by key, in the order of sending and so of becoming due. */
  readonly sent = new Map<string, Message>();
  totalItems = 0;
  readonly startedAt = Date.now();
  private readonly strategy: Strategy<GroupClient>;
  /** Places that are not done with; inserted in ascending order, so the first is the lowest. */
  private readonly open = new Set<number>();
  private readonly bell = new Bell();
  /** Set when what comes next was left where it is, because its links lead into system streams that are not ready. */
  private needsIndex = false;
  /** Set while there are clients: without any there is nothing to wake for. */
  private unwatch: (() => void) | undefined;
  private readonly running: Promise<void>;
  private stopped = false;
  private dueTimer: NodeJS.Timeout | undefined;
  private checkpointTimer: NodeJS.Timeout | undefined;
  private sinceCheckpoint = 0;
  private checkpointing: Promise<void> | undefined;
  private freshBytes = 0;
  private readonly parking = new Set<Promise<void>>();

  constructor(
    private readonly store: EventStore,
    readonly config: GroupConfig,
  ) {
    this.checkpoints = new CheckpointStream(store, config);
    const { written } = this.checkpoints;
    this.source = new GroupSource(store, config, written === undefined ? config.begin : written + 1);
    this.parked = new ParkedStream(store, config);
    this.strategy = strategyNamed(config.settings.strategy);
    this.running = this.run();
  }

  /** Whether one more client would be too many. */
  get isFull(): boolean {
    const { maxSubscriberCount } = this.config.settings;
    return maxSubscriberCount > 0 && this.clients.length >= maxSubscriberCount;
  }

  /** Whether something is being written that decides what is done with. */
  get isBusy(): boolean {
    return this.parking.size > 0 || this.checkpointing !== undefined;
  }

  /** Throws when the group has been stopped: it would never deliver. */
  join(client: GroupClient): void {
    if (this.stopped) throw new CallFailed(unavailable('the group is stopped'));
    this.arrange([...this.clients, client]);
    client.outlet.whenClosed(() => this.leave(client));
  }

  ack(client: GroupClient, keys: readonly string[]): void {
    for (const message of this.messagesOf(client, keys)) {
      if (this.config.settings.extraStatistics) client.measure(Date.now() - message.sentAt);
      this.takeBack(message);
      this.complete(message);
    }
    this.bell.ring();
  }

  nack(client: GroupClient, keys: readonly string[], action: NackAction, reason: string): void {
    if (action === 'skip') return this.ack(client, keys);
    for (const message of this.messagesOf(client, keys)) {
      this.takeBack(message);
      if (action === 'park') this.park(message, `Client explicitly NAK'ed message.\n${reason}`);
      else this.retry(message);
    }
    this.bell.ring();
  }

  /** Section 6.5: entries of the parked stream below `stopAt` go before everything new. */
  replay(stopAt: number | undefined): void {
    this.parked.replay(stopAt);
    this.bell.ring();
  }

  /** Ends every client with `dropped`, if given, and resolves when what is done with is durably noted. */
  async stop(dropped?: Failure): Promise<void> {
    this.stopped = true;
    this.unwatch?.();
    clearTimeout(this.dueTimer);
    clearTimeout(this.checkpointTimer);
    if (dropped) for (const client of this.clients) client.drop(dropped);
    this.bell.ring();
    await this.running;
    while (this.parking.size > 0) await Promise.all(this.parking);
    await this.checkpointing;
    await this.checkpoint();
  }

  private messagesOf(client: GroupClient, keys: readonly string[]): Message[] {
    if (this.stopped) return [];
    return keys.flatMap((key) => {
      const message = this.sent.get(key);
      return message?.client === client ? [message] : [];
    });
  }

  private arrange(clients: readonly GroupClient[]): void {
    this.clients = clients;
    this.strategy.arrange(clients);
    if (clients.length > 0) this.unwatch ??= this.source.watch(() => this.bell.ring());
    else {
      this.unwatch?.();
      this.unwatch = undefined;
    }
    this.bell.ring();
  }

  /** What the client had not answered goes to others. */
  private leave(client: GroupClient): void {
    if (this.stopped) return;
    const lost = [...client.inFlight].sort((a, b) => (a.place ?? 0) - (b.place ?? 0));
    this.arrange(this.clients.filter((one) => one !== client));
    for (const message of lost) {
      this.takeBack(message);
      this.retry(message);
    }
  }

  private async run(): Promise<void> {
    while (!this.stopped) {
      try {
        const moved = this.clients.length > 0 && this.move();
        if (moved) await (this.needsIndex ? this.store.system.ready() : nextTurn());
        else await this.bell.rung();
      } catch (error) {
        this.dropAll(error);
        await nextTurn();
      }
    }
  }

  /** What was read is delivered in the same turn, however much of what follows is not wanted. */
  private move(): boolean {
    const filled = this.fill();
    return this.deliver() || filled;
  }

  /** Takes more from the parked stream and the source where less than a batch waits. Answers whether there was any. */
  private fill(): boolean {
    this.needsIndex = this.retries.length === 0 && this.parked.awaitsIndex;
    if (this.needsIndex) return true;
    if (this.retries.length === 0)
      for (const entry of this.parked.take()) this.retries.push(messageOf(entry, undefined, entry.number));
    const { readBatchSize, historyBufferSize, resolveLinks } = this.config.settings;
    if (this.fresh.length >= (this.strategy.letsPass ? historyBufferSize : readBatchSize)) return false;
    if (this.freshBytes >= READ_AHEAD_BYTES) return false;
    const { events, examined, skipped, upTo } = this.source.page(readBatchSize);
    const read = events.map(({ event }) => event);
    this.needsIndex = resolveLinks && awaitsIndex(this.store, read);
    if (this.needsIndex) return true;
    const messages = events.map(({ place, event }) =>
      messageOf(resolve(this.store, event, resolveLinks), place, undefined),
    );
    // Only now: what could not be resolved has not been taken and comes again.
    this.source.pass(upTo);
    for (const { place } of events) this.open.add(place);
    for (const message of messages) this.freshBytes += bytesOf(message);
    this.fresh.push(...messages);
    if (skipped > 0) this.note(skipped);
    return examined > 0;
  }

  private deliver(): boolean {
    let delivered = false;
    for (const queue of [this.retries, this.fresh])
      for (let i = 0; i < queue.length;) {
        const message = queue[i]!;
        const client = this.strategy.choose(sourceOf(message.event, message.link));
        if (client) {
          queue.splice(i, 1);
          if (queue === this.fresh) this.freshBytes -= bytesOf(message);
          this.send(client, message);
          delivered = true;
        } else if (this.strategy.letsPass) i += 1;
        else return delivered;
      }
    return delivered;
  }

  private send(client: GroupClient, message: Message): void {
    // The same event twice at once could not be told apart by its acknowledgement.
    if (this.sent.has(message.key)) return this.complete(message);
    message.sentAt = Date.now();
    message.dueAt = message.sentAt + (this.config.settings.messageTimeout || TICK);
    this.totalItems += 1;
    this.sent.set(message.key, message);
    client.send(message);
    if (client.outlet.full) void client.outlet.room().then(() => this.bell.ring());
    this.awaitDue();
  }

  private awaitDue(): void {
    const [first] = this.sent.values();
    if (this.dueTimer || !first || this.stopped) return;
    this.dueTimer = setTimeout(
      () => {
        this.dueTimer = undefined;
        this.retryOverdue();
        this.awaitDue();
      },
      Math.max(1, first.dueAt - Date.now()),
    );
  }

  private retryOverdue(): void {
    const now = Date.now();
    for (const message of this.sent.values()) {
      if (message.dueAt > now) break;
      this.takeBack(message);
      this.retry(message);
    }
    this.bell.ring();
  }

  private takeBack(message: Message): void {
    this.sent.delete(message.key);
    message.client?.release(message);
  }

  private retry(message: Message): void {
    const { maxRetryCount } = this.config.settings;
    if (message.retries >= maxRetryCount)
      return this.park(message, `Reached retry count of ${maxRetryCount}`);
    message.retries += 1;
    this.retries.push(message);
  }

  /** Until it is durably parked the message is not done with; if the store cannot write, it is tried again. */
  private park(message: Message, reason: string): void {
    const event = (message.event ?? message.link)!;
    this.awaitedAtStop(
      this.parked.park(event, reason, message.place).then(
        () => this.complete(message),
        () => {
          this.retries.push(message);
          this.bell.ring();
        },
      ),
    );
  }

  private awaitedAtStop(work: Promise<void>): void {
    const parking = work.finally(() => this.parking.delete(parking));
    this.parking.add(parking);
  }

  private complete(message: Message): void {
    if (message.place !== undefined) this.open.delete(message.place);
    this.note(1);
    if (message.parked !== undefined)
      this.awaitedAtStop(this.parked.done(message.parked).catch((error: unknown) => this.excuse(error)));
  }

  /** Section 6.4: at the upper bound at once, else after a time if the lower bound is reached by then. */
  private note(count: number): void {
    this.sinceCheckpoint += count;
    if (this.stopped) return;
    const { maxCheckpointCount, minCheckpointCount, checkpointAfter } = this.config.settings;
    if (this.sinceCheckpoint >= maxCheckpointCount) this.startCheckpoint();
    else
      this.checkpointTimer ??= setTimeout(() => {
        this.checkpointTimer = undefined;
        if (this.sinceCheckpoint >= minCheckpointCount) this.startCheckpoint();
      }, checkpointAfter);
  }

  private startCheckpoint(): void {
    this.checkpointing ??= this.checkpoint().finally(() => (this.checkpointing = undefined));
  }

  /** While the store cannot write, the checkpoint before holds, and the next event done with has it tried again. */
  private async checkpoint(): Promise<void> {
    const [first] = this.open;
    const place = first === undefined ? this.source.passed : first - 1;
    const count = this.sinceCheckpoint;
    if (place <= (this.checkpoints.written ?? this.config.begin - 1)) return;
    this.sinceCheckpoint = 0;
    try {
      await this.checkpoints.write(place);
    } catch (error) {
      this.sinceCheckpoint += count;
      this.excuse(error);
    }
  }

  /**
   * That the store cannot write is told to whoever appends, and makes what is kept here only older than it might be.
   * Anything else is told to every client.
   */
  private excuse(error: unknown): void {
    if (!(error instanceof LogUnwritable)) this.dropAll(error);
  }

  /** The next client to come has it tried again. */
  private dropAll(error: unknown): void {
    for (const client of this.clients) client.drop(failureOf(error));
  }
}

function messageOf(resolved: Resolved, place: number | undefined, parked: number | undefined): Message {
  const { event, link } = resolved;
  const identified: StoredEvent = (link ?? event)!;
  return { event, link, key: identified.idKey, place, parked, retries: 0, sentAt: 0, dueAt: 0 };
}
