import { CallFailed, maximumSubscribersReached, persistentFailure, unavailable } from '../errors.js';
import { ALL_STREAM } from '../proposed.js';
import type { Bound } from '../reads.js';
import type { EventStore } from '../store.js';
import { newest, readable, readiness } from '../views.js';
import type { GroupClient } from './consumer.js';
import { Group } from './group.js';
import { ownStream, systemEvent } from './own-streams.js';
import { type GroupConfig, type Requested, withWholeTimes } from './settings.js';

const CONFIG_STREAM = '$persistentSubscriptionConfig';
const CONFIG_TYPE = '$PersistentConfig';

interface ConfigDocument {
  readonly entries: readonly GroupConfig[];
}

/**
 * All persistent subscriptions of a store. Which there are, and how they work, is one document in
 * `$persistentSubscriptionConfig`, written anew by every change before that is answered; changes happen one after the
 * other. A group itself is `Group`.
 */
export class PersistentSubscriptions {
  private readonly groups = new Map<string, Group>();
  /** Streams that have or had groups since the start: listing theirs is no error. */
  private readonly streams = new Set<string>();
  private changing: Promise<unknown> = Promise.resolve();
  private closed = false;

  constructor(private readonly store: EventStore) {
    const document = newest(store, CONFIG_STREAM)?.data.toString();
    const { entries }: ConfigDocument = document ? (JSON.parse(document) as ConfigDocument) : { entries: [] };
    for (const config of entries) this.begin({ ...config, settings: withWholeTimes(config.settings) });
  }

  create(wanted: Requested): Promise<void> {
    return this.change(async () => {
      const { stream, group } = wanted;
      if (this.groups.has(keyOf(stream, group)))
        throw new CallFailed(persistentFailure('exists', stream, group, 'exists'));
      const { filter } = wanted;
      const config = { ...wanted, begin: await this.beginOf(stream, wanted.startFrom), filter };
      // A deletion that a crash cut off may have left them, and the new group would go on after the old checkpoint.
      await this.clear(config);
      await this.save([...this.configs, config]);
      this.begin(config);
    });
  }

  /** Replaces all settings, drops every client and goes on after the checkpoint; the filter stays as it was. */
  update(wanted: Requested): Promise<void> {
    return this.change(async () => {
      const { stream, group } = wanted;
      const old = this.find(stream, group);
      const { filter } = old.config;
      const config = { ...wanted, begin: await this.beginOf(stream, wanted.startFrom), filter };
      await this.save(this.configs.map((one) => (one === old.config ? config : one)));
      await this.renew(old, config);
    });
  }

  /** Forgets the group, its checkpoint and what it had parked, and drops every client. */
  delete(stream: string, group: string): Promise<void> {
    return this.change(async () => {
      const old = this.find(stream, group);
      await this.save(this.configs.filter((one) => one !== old.config));
      await this.end(old);
      this.groups.delete(keyOf(stream, group));
      await this.clear(old.config);
    });
  }

  /** Drops every client of every group and begins each anew after its checkpoint. */
  restart(): Promise<void> {
    return this.change(async () => {
      for (const group of [...this.groups.values()]) {
        await this.renew(group, group.config);
      }
    });
  }

  /** Waits for changes under way: who comes back at once joins what follows them, not the group that they end. */
  async connect(stream: string, group: string, client: () => GroupClient): Promise<Group> {
    await readiness(this.store, stream);
    await this.settled();
    const found = this.find(stream, group);
    if (found.isFull) throw new CallFailed(maximumSubscribersReached(stream, group));
    found.join(client());
    return found;
  }

  /** Waits like `connect`: a group that is about to end would forget it. Throws the failure `does-not-exist`. */
  async replay(stream: string, group: string, stopAt: number | undefined): Promise<void> {
    await this.settled();
    this.find(stream, group).replay(stopAt);
  }

  /** Throws the failure `does-not-exist`. */
  find(stream: string, group: string): Group {
    const found = this.groups.get(keyOf(stream, group));
    if (!found) throw doesNotExist(stream, group);
    return found;
  }

  /** Those of one stream, or all; throws `does-not-exist` for a stream that never had any. */
  list(stream?: string): Group[] {
    const all = [...this.groups.values()];
    if (stream === undefined) return all;
    if (!this.streams.has(stream)) throw doesNotExist(stream, '');
    return all.filter(({ config }) => config.stream === stream);
  }

  /** Delivers nothing more, and resolves when every group's checkpoint is durable. Clients are not told. */
  async close(): Promise<void> {
    this.closed = true;
    await this.changing;
    await Promise.all([...this.groups.values()].map((group) => group.stop()));
  }

  private get configs(): GroupConfig[] {
    return [...this.groups.values()].map(({ config }) => config);
  }

  private begin(config: GroupConfig): Group {
    const group = new Group(this.store, config);
    this.streams.add(config.stream);
    this.groups.set(keyOf(config.stream, config.group), group);
    return group;
  }

  /** A replay that the old group had not finished begins again with what is still parked. */
  private async renew(old: Group, config: GroupConfig): Promise<void> {
    await this.end(old);
    const renewed = this.begin(config);
    const { replaying } = old.parked;
    if (replaying !== undefined) renewed.replay(replaying);
  }

  private end(group: Group): Promise<void> {
    const { config } = group;
    return group.stop(persistentFailure('dropped', config.stream, config.group));
  }

  private async clear(config: GroupConfig): Promise<void> {
    for (const part of ['checkpoint', 'parked']) {
      const own = ownStream(config, part);
      if (readable(this.store, own) && !this.store.metadataOf(own).softDeleted)
        await this.store.delete(own, 'any');
    }
  }

  private async settled(): Promise<void> {
    let seen: Promise<unknown>;
    do {
      seen = this.changing;
      await seen;
    } while (seen !== this.changing);
  }

  private async change(work: () => Promise<void>): Promise<void> {
    const done = this.changing.then(() => {
      if (this.closed) throw new CallFailed(unavailable('the event store is stopping'));
      return work();
    });
    this.changing = done.catch(() => undefined);
    return done;
  }

  private async save(entries: readonly GroupConfig[]): Promise<void> {
    const document: ConfigDocument = { entries };
    await this.store.append(CONFIG_STREAM, 'any', [systemEvent(CONFIG_TYPE, true, JSON.stringify(document))]);
  }

  /** Where a start means now: an end that were only looked up at the first delivery would lose what comes before. */
  private async beginOf(stream: string, startFrom: Bound): Promise<number> {
    await readiness(this.store, stream);
    if (stream === ALL_STREAM) {
      if (startFrom === 'start') return 1;
      return startFrom === 'end' ? this.store.catalogue.lastPosition + 1 : startFrom;
    }
    if (startFrom === 'start') return 0;
    return startFrom === 'end' ? (readable(this.store, stream)?.lastRevision ?? -1) + 1 : startFrom;
  }
}

const keyOf = (stream: string, group: string): string => `${stream}::${group}`;

const doesNotExist = (stream: string, group: string): CallFailed =>
  new CallFailed(persistentFailure('does-not-exist', stream, group));
