import { bulkhead, timeout, TimeoutStrategy, wrap } from 'cockatiel';
import type { Json } from '#libs/canonical';
import type { Fact, FactReading } from '#libs/domain/runs';

/** What a source says about one thing: named values. */
export type Found = { [name: string]: Json };

/** The run for which something is looked up. */
export interface About {
  readonly tenant: string;
  readonly customerId: string;
  /** Of the claims that its drafts become: they are none of another run's. */
  readonly claimIds: readonly string[];
}

/** Looks one thing up, by what a fact's `ref` says. Throws whatever keeps it from answering; honours the signal. */
export type FactSource = (about: About, ref: string | undefined, signal: AbortSignal) => Promise<Found>;

export type SourceKind = Exclude<Fact['source']['kind'], 'statement'>;

/** Told of a source that could not be asked: its kind and an error, never what was asked for. */
export type Unanswered = (kind: SourceKind, error: unknown) => void;

const AT_ONCE = 8;
const PATIENCE_MS = 4_000;

/**
 * Where the facts of runs are looked up. A statement is in no source: nobody but who made it can be asked again.
 *
 * All facts of one recheck share one patience (4 s), eight are looked up at a time, and the same thing once. A source
 * that throws or does not answer in time leaves its facts without `found`; nothing is thrown.
 */
export class FactSources {
  private readonly limit = bulkhead(AT_ONCE, Number.MAX_SAFE_INTEGER);

  constructor(
    private readonly sources: Readonly<Record<SourceKind, FactSource>>,
    private readonly unanswered: Unanswered,
    private readonly patienceMs = PATIENCE_MS,
  ) {}

  async read(about: About, facts: readonly Fact[]): Promise<FactReading[]> {
    const within = wrap(timeout(this.patienceMs, TimeoutStrategy.Aggressive), this.limit);
    const asked = new Map<string, Promise<Found | undefined>>();
    const ask = (kind: SourceKind, ref: string | undefined) => {
      const key = JSON.stringify([kind, ref]);
      const known = asked.get(key);
      if (known) return known;
      const answer = within
        .execute(({ signal }) => this.sources[kind](about, ref, signal))
        .catch((error: unknown) => {
          this.unanswered(kind, error);
          return undefined;
        });
      asked.set(key, answer);
      return answer;
    };
    return Promise.all(
      facts.map(async ({ name, version, source }) => {
        const { kind, ref } = source;
        return { name, version, found: kind === 'statement' ? undefined : await ask(kind, ref) };
      }),
    );
  }
}
