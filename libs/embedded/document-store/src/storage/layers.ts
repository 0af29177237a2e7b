/** One ordered key-value table of the file. `born` is the store's sequence number at its creation. */
export interface Table {
  readonly name: string;
  readonly born: number;
  /** Number of the last merge that changed the table. */
  mergedAt: number;
}

export interface Entry {
  readonly key: Buffer;
  readonly value: Buffer;
}

/** Keys in `[from, to)`, walked in either direction, beginning beyond `after` when it is given. */
export interface Range {
  readonly from: Buffer;
  readonly to: Buffer;
  readonly reverse?: boolean;
  readonly after?: Buffer;
}

/** A piece of a range; `next` is where the following piece begins (its `after`), absent at the end. */
export interface Piece {
  readonly entries: Entry[];
  readonly next?: Buffer;
}

/** A consistent state to read from. */
export interface View {
  get(table: Table, key: Buffer): Buffer | undefined;
  /** About `limit` entries; fewer or none may come although more follow, as `next` tells. */
  read(table: Table, range: Range, limit: number): Piece;
}

interface Change {
  readonly key: Buffer;
  /** Absent: removed. */
  value: Buffer | undefined;
}

/** Changes of one table, sorted when first asked for in order. */
class TableChanges {
  readonly byKey = new Map<string, Change>();
  private sorted: Change[] = [];
  private fresh: Change[] = [];

  set(key: Buffer, value: Buffer | undefined, text = key.toString('latin1')): void {
    const known = this.byKey.get(text);
    if (known) {
      known.value = value;
      return;
    }
    const change = { key, value };
    this.byKey.set(text, change);
    this.fresh.push(change);
  }

  absorb(other: TableChanges): void {
    for (const [text, { key, value }] of other.byKey) this.set(key, value, text);
  }

  /** Changes with keys in the range and, when `bound` is given, not beyond it. */
  within(range: Range, bound: Buffer | undefined): Change[] {
    const all = this.inOrder();
    const low = range.reverse ? (bound ?? range.from) : range.from;
    const high = range.reverse ? range.to : (bound ?? range.to);
    let index = lowerBound(all, low);
    const found: Change[] = [];
    for (; index < all.length; index++) {
      const change = all[index] as Change;
      const order = change.key.compare(high);
      if (order > 0 || (order === 0 && (range.reverse || !bound))) break;
      found.push(change);
    }
    if (range.reverse) found.reverse();
    const { after } = range;
    if (!after) return found;
    return found.filter(({ key }) => (range.reverse ? key.compare(after) < 0 : key.compare(after) > 0));
  }

  private inOrder(): Change[] {
    if (this.fresh.length > 32) {
      this.sorted = this.sorted.concat(this.fresh).sort((a, b) => a.key.compare(b.key));
    } else
      for (const change of this.fresh) this.sorted.splice(lowerBound(this.sorted, change.key), 0, change);
    this.fresh = [];
    return this.sorted;
  }
}

function lowerBound(sorted: readonly Change[], key: Buffer): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as Change).key.compare(key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Uncommitted changes lying over a view. Last write wins; nothing below is touched. */
export class Layer {
  private readonly tables = new Map<Table, TableChanges>();

  get isEmpty(): boolean {
    return this.tables.size === 0;
  }

  set(table: Table, key: Buffer, value: Buffer | undefined): void {
    let changes = this.tables.get(table);
    if (!changes) this.tables.set(table, (changes = new TableChanges()));
    changes.set(key, value);
  }

  /** Takes over everything another layer changed. The other must not be used any more: its content may move. */
  absorb(other: Layer): void {
    for (const [table, changes] of other.tables) {
      const own = this.tables.get(table);
      if (own) own.absorb(changes);
      else this.tables.set(table, changes);
    }
  }

  /** What the layer says about a key: nothing, or its new value (absent: removed). */
  find(table: Table, key: Buffer): { readonly value: Buffer | undefined } | undefined {
    return this.tables.get(table)?.byKey.get(key.toString('latin1'));
  }

  changedTables(): Iterable<Table> {
    return this.tables.keys();
  }

  forEach(visit: (table: Table, key: Buffer, value: Buffer | undefined) => void): void {
    for (const [table, changes] of this.tables)
      for (const { key, value } of changes.byKey.values()) visit(table, key, value);
  }

  over(below: View): View {
    return {
      get: (table, key) => {
        const change = this.find(table, key);
        return change ? change.value : below.get(table, key);
      },
      read: (table, range, limit) => {
        const changes = this.tables.get(table);
        const piece = below.read(table, range, limit);
        return changes ? merge(piece, changes.within(range, piece.next), range.reverse === true) : piece;
      },
    };
  }
}

function merge(below: Piece, changes: readonly Change[], reverse: boolean): Piece {
  if (changes.length === 0) return below;
  const entries: Entry[] = [];
  let at = 0;
  const take = ({ key, value }: Change): void => {
    if (value) entries.push({ key, value });
  };
  for (const entry of below.entries) {
    for (; at < changes.length; at++) {
      const order = (changes[at] as Change).key.compare(entry.key);
      if (reverse ? order <= 0 : order >= 0) break;
      take(changes[at] as Change);
    }
    const change = changes[at];
    if (change?.key.equals(entry.key)) {
      take(change);
      at++;
    } else entries.push(entry);
  }
  for (; at < changes.length; at++) take(changes[at] as Change);
  return { ...below, entries };
}
