import type { StoredEvent } from '../record.js';
import type { StrategyName } from './settings.js';

/** What a strategy must know of a client. */
export interface Consumer {
  readonly hasRoom: boolean;
}

/** Which client gets the next event (section 6.6). */
export interface Strategy<C extends Consumer> {
  /** Whether an event for which there is no room now lets those behind it pass. */
  readonly letsPass: boolean;
  /** The clients that there are now, in the order in which they came. */
  arrange(consumers: readonly C[]): void;
  /** The client for an event of that stream, if it can take one now. */
  choose(source: string): C | undefined;
}

export function strategyNamed<C extends Consumer>(name: StrategyName): Strategy<C> {
  if (name === 'Pinned') return new Pinned<C>();
  return name === 'RoundRobin' ? new RoundRobin<C>() : new DispatchToSingle<C>();
}

class RoundRobin<C extends Consumer> implements Strategy<C> {
  readonly letsPass = false;
  private consumers: readonly C[] = [];
  private turn = 0;

  arrange(consumers: readonly C[]): void {
    this.consumers = consumers;
  }

  choose(): C | undefined {
    for (let tried = 0; tried < this.consumers.length; tried++) {
      const consumer = this.consumers[this.turn++ % this.consumers.length];
      if (consumer?.hasRoom) return consumer;
    }
    return undefined;
  }
}

class DispatchToSingle<C extends Consumer> implements Strategy<C> {
  readonly letsPass = false;
  private consumers: readonly C[] = [];

  arrange(consumers: readonly C[]): void {
    this.consumers = consumers;
  }

  choose(): C | undefined {
    return this.consumers.find(({ hasRoom }) => hasRoom);
  }
}

const BUCKETS = 1024;

/** Streams fall into buckets, and each bucket to one client; a client that comes or goes moves no more than it must. */
class Pinned<C extends Consumer> implements Strategy<C> {
  readonly letsPass = true;
  private readonly owners = new Array<C | undefined>(BUCKETS);

  arrange(consumers: readonly C[]): void {
    const share = Math.ceil(BUCKETS / Math.max(1, consumers.length));
    const owned = new Map<C, number>(consumers.map((consumer) => [consumer, 0]));
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      const owner = this.owners[bucket];
      const count = owner && owned.get(owner);
      if (count === undefined || count >= share) this.owners[bucket] = undefined;
      else owned.set(owner!, count + 1);
    }
    const needy = consumers.filter((consumer) => owned.get(consumer)! < share);
    for (let bucket = 0; bucket < BUCKETS && needy.length > 0; bucket++) {
      if (this.owners[bucket]) continue;
      const consumer = needy[0]!;
      this.owners[bucket] = consumer;
      owned.set(consumer, owned.get(consumer)! + 1);
      if (owned.get(consumer) === share) needy.shift();
    }
  }

  choose(source: string): C | undefined {
    const owner = this.owners[bucketOf(source)];
    return owner?.hasRoom ? owner : undefined;
  }
}

/** FNV-1a over UTF-16 units; even enough for names, and the same in every process. */
function bucketOf(source: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < source.length; i++) hash = Math.imul(hash ^ source.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % BUCKETS;
}

/** The stream that an event comes from, however it was reached. */
export const sourceOf = (event: StoredEvent | undefined, link: StoredEvent | undefined): string =>
  (event ?? link)?.stream ?? '';
