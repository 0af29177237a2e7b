import { randomUUID } from 'node:crypto';
import type { Outlet } from './outlet.js';
import { InvalidRequest, streamName } from './proposed.js';
import { streams } from './protocol.js';
import {
  type EventFilter,
  type ReadOptions,
  boundOf,
  encodeFor,
  filterOf,
  nextTurn,
  sizeOf,
} from './reads.js';
import type { StoredEvent } from './record.js';
import type { EventStore } from './store.js';
import { metadataStreamOf } from './streams.js';
import { StreamWindow, awaitsIndex, isInAll, pageOf, readable, readiness, watch } from './views.js';
import { CAUGHT_UP, encodeCheckpoint } from './wire.js';

/** Events examined per checkpoint interval when the client leaves the window to the server. */
const DEFAULT_WINDOW = 32;

/** After more than this at once others get their turn, also when the subscription is live. */
const SHORT_PAGE = 32;

export type SubscriptionOutcome = 'closed' | 'stream-deleted' | 'access-denied';

/** What a subscription walks: a cursor over durable events, moved only by taking a page. */
interface Source {
  /** The stream to be woken for, undefined for all. */
  readonly stream: string | undefined;
  /** The next events; an empty page means that everything durable has been taken. */
  page(live: boolean): StoredEvent[];
  /** Called when history is exhausted, in the same turn as the empty page. */
  goLive(): void;
  /** Whether an event of the page is delivered, or only passed. */
  shows(event: StoredEvent, live: boolean): boolean;
  /** Whether the stream can never have another event; asked on an empty page. */
  isOver(): boolean;
}

/**
 * A catch-up subscription, section 4: confirmation, history, caught-up once, then what is written. It owns a cursor
 * and no queue: a commit only wakes it, and it takes a page of whatever lies behind its cursor, from memory if it is near the
 * head, from the log if it is not. So there is no switch at which an event could be missed or doubled, and a slow
 * client costs its cursor and one page.
 */
export async function subscribe(
  store: EventStore,
  options: ReadOptions,
  outlet: Outlet,
  allowed: () => boolean,
): Promise<SubscriptionOutcome> {
  const filter = options.hasAll() ? filterOf(options) : undefined;
  const checkpoints = filter && new Checkpoints(checkpointInterval(options));
  await readiness(store, nameOf(options) ?? '');
  const source = options.hasAll() ? new AllSource(store, options, filter) : new StreamSource(store, options);
  if (source.isOver()) return 'stream-deleted';
  const bell = new Bell();
  const { stream } = source;
  // Its metadata may say that it is not for this client any more.
  const watched = stream === undefined ? [undefined] : [stream, metadataStreamOf(stream)];
  const unwatch = watched.map((name) => watch(store, name, () => bell.ring()));
  outlet.whenClosed(() => bell.ring());
  try {
    outlet.write(confirmation());
    return await pump({ store, options, source, outlet, checkpoints, bell, allowed });
  } finally {
    for (const stop of unwatch) stop();
  }
}

/** The stream that is subscribed to, undefined for all. */
const nameOf = (options: ReadOptions): string | undefined =>
  options.hasStream()
    ? streamName(options.getStream()!.getStreamIdentifier()?.getStreamName_asU8() ?? new Uint8Array())
    : undefined;

interface Flow {
  readonly store: EventStore;
  readonly options: ReadOptions;
  readonly source: Source;
  readonly outlet: Outlet;
  readonly checkpoints: Checkpoints | undefined;
  readonly bell: Bell;
  allowed(): boolean;
}

async function pump(flow: Flow): Promise<SubscriptionOutcome> {
  const { store, options, source, outlet, checkpoints, bell } = flow;
  const resolveLinks = options.getResolveLinks();
  const encode = encodeFor(store, resolveLinks);
  let live = false;
  while (!outlet.closed) {
    const page = source.page(live);
    if (!flow.allowed()) return 'access-denied';
    if (resolveLinks && awaitsIndex(store, page)) await store.system.ready();
    for (const event of page) {
      if (source.shows(event, live)) outlet.write(encode(event));
      checkpoints?.examine(event.position, outlet);
      if (outlet.full) await outlet.room(sizeOf(page));
      if (outlet.closed) return 'closed';
    }
    if (page.length > 0) {
      if (!live || page.length > SHORT_PAGE) await nextTurn();
    } else if (source.isOver()) {
      return 'stream-deleted';
    } else if (live) {
      await bell.rung();
    } else {
      source.goLive();
      live = true;
      checkpoints?.reachEnd(outlet);
      outlet.write(CAUGHT_UP);
      await outlet.room();
    }
  }
  return 'closed';
}

/** Wakes its one waiter. A ring that nobody waits for may be lost: who waits has found nothing in this very turn. */
export class Bell {
  private wake: (() => void) | undefined;

  ring(): void {
    this.wake?.();
    this.wake = undefined;
  }

  rung(): Promise<void> {
    return new Promise((resolve) => (this.wake = resolve));
  }
}

class AllSource implements Source {
  readonly stream = undefined;
  private next: number;

  constructor(
    private readonly store: EventStore,
    options: ReadOptions,
    private readonly filter: EventFilter | undefined,
  ) {
    const target = options.getAll()!;
    const bound = boundOf(target, () => target.getPosition()?.getCommitPosition());
    if (bound === 'start') this.next = 1;
    else this.next = bound === 'end' ? store.catalogue.lastPosition + 1 : bound + 1;
  }

  page(): StoredEvent[] {
    const page = this.store.reader.allPage(this.next, 'forwards', Infinity);
    this.next = (page.at(-1)?.position ?? this.next - 1) + 1;
    return page;
  }

  goLive(): void {
    return;
  }

  shows(event: StoredEvent): boolean {
    return isInAll(event) && (!this.filter || this.filter(event));
  }

  isOver(): boolean {
    return false;
  }
}

class StreamSource implements Source {
  readonly stream: string;
  private next: number;
  private window: StreamWindow | undefined;
  private over: boolean;

  constructor(
    private readonly store: EventStore,
    options: ReadOptions,
  ) {
    const target = options.getStream()!;
    this.stream = nameOf(options)!;
    const bound = boundOf(target, () => target.getRevision());
    if (bound === 'start') this.next = 0;
    else this.next = bound === 'end' ? this.last + 1 : bound + 1;
    this.over = store.isTombstoned(this.stream);
  }

  page(live: boolean): StoredEvent[] {
    const stream = readable(this.store, this.stream);
    if (!stream) return [];
    this.window = live ? undefined : new StreamWindow(this.store, this.stream);
    const from = Math.max(this.next, this.window?.first ?? 0);
    const page = pageOf(this.store, stream, from, 'forwards', Infinity);
    this.next = (page.at(-1)?.revision ?? this.next - 1) + 1;
    return page.length > 0 ? page : this.tombstone();
  }

  /** Hidden history stays hidden when the stream is written to again. */
  goLive(): void {
    this.next = Math.max(this.next, this.last + 1);
  }

  shows(event: StoredEvent): boolean {
    return this.window?.shows(event) ?? true;
  }

  isOver(): boolean {
    return this.over;
  }

  private get last(): number {
    return readable(this.store, this.stream)?.lastRevision ?? -1;
  }

  /** The tombstone is delivered as the stream's last event; the stream of a tombstoned one's metadata just ends. */
  private tombstone(): StoredEvent[] {
    if (this.over || !this.store.isTombstoned(this.stream)) return [];
    this.over = true;
    const position = this.store.catalogue.peek(this.stream)?.tombstonePosition ?? 0;
    return position > 0 ? [this.store.reader.at(position)] : [];
  }
}

/**
 * Section 4.4: every examined event counts, delivered or not; at the interval, and once on reaching the end, the
 * position is told, so that a consumer that wants few events need not read all again.
 */
class Checkpoints {
  private examined = 0;
  private last = 0;
  private told = 0;

  constructor(private readonly interval: number) {}

  examine(position: number, outlet: Outlet): void {
    this.last = position;
    this.examined += 1;
    if (this.examined >= this.interval) this.tell(outlet);
  }

  reachEnd(outlet: Outlet): void {
    if (this.last > this.told) this.tell(outlet);
  }

  private tell(outlet: Outlet): void {
    this.examined = 0;
    this.told = this.last;
    outlet.write(encodeCheckpoint(this.last));
  }
}

function checkpointInterval(options: ReadOptions): number {
  const filter = options.getFilter();
  const multiplier = filter?.getCheckpointintervalmultiplier() ?? 0;
  if (multiplier === 0) throw new InvalidRequest('checkpointIntervalMultiplier must be greater than 0');
  const window = filter?.hasMax() ? filter.getMax() : DEFAULT_WINDOW;
  if (window === 0) throw new InvalidRequest('the search window must be greater than 0');
  return multiplier * window;
}

function confirmation(): Buffer {
  const message = new streams.ReadResp.SubscriptionConfirmation().setSubscriptionId(randomUUID());
  return Buffer.from(new streams.ReadResp().setConfirmation(message).serializeBinary());
}
