import { Injectable } from '@nestjs/common';
import { Counter } from 'prom-client';
import { ClaimQueries } from '#projections/authoritative-claims';
import { ProfileQueries } from '#projections/preference-profiles';
import { type FactReading, factsDue, runStream } from '#libs/domain/runs';
import { claimIdOf } from '#libs/domain/losses';
import { EventStore, RefusedCommand } from '#libs/event-store';
import { type Found, type FactSource, FactSources, policyRef, policyRegister } from '#libs/facts';
import { codeOf, ReadModels, ReadModelUnavailable, type Stores } from '#libs/projecting';
import { Vault } from '#libs/vault';
import { Config } from '#apps/settings';
import { Log } from './logger.js';
import type { Metrics } from './metrics.js';
import { RunningProjections } from './projections.js';

type Occasion = Parameters<typeof factsDue>[1];

interface RunNamed {
  readonly tenant: string;
  readonly runId: string;
}

const LOOKS = 3;
const PAGE = 200;
const BEHIND_MS = 2_000;

/** Looks up the facts that a command has to know, from the sources that this installation has. */
@Injectable()
export class Rechecks {
  private readonly sources: FactSources;
  private unanswered: Counter<'source'> | undefined;

  constructor(
    private readonly events: EventStore,
    vault: Vault,
    models: ReadModels,
    private readonly projections: RunningProjections,
    { policiesUrl }: Config,
    log: Log,
  ) {
    const stores: Stores = { log: events, vault, models, notice: (text, fields) => log.warn(fields, text) };
    const sources = {
      claims: this.claims(new ClaimQueries(stores)),
      profile: preferences(new ProfileQueries(stores)),
      policy: policiesUrl === undefined ? noRegister : policyRegister({ url: policiesUrl }),
    };
    this.sources = new FactSources(sources, (source, error) => {
      this.unanswered?.inc({ source });
      log.warn({ source, code: codeOf(error) }, 'a fact cannot be looked up');
    });
  }

  /** Counts the look-ups that got no answer, under a name that says for whom they were. */
  countIn(metrics: Metrics, name: string): void {
    const help = 'Look-ups of a fact that got no answer, by source.';
    this.unanswered = new Counter({ name, help, labelNames: ['source'] as const, registers: [metrics] });
  }

  /**
   * Carries out a command that needs facts looked up: tried at once, and again with what the sources say whenever the
   * run answers that its facts are others, three times at most. So nothing is looked up for who may not do it, or for
   * a command that was answered before, and what was looked up serves as long as the facts stay the same.
   *
   * @throws whatever the command throws.
   */
  async with<Result>(
    run: RunNamed,
    on: Occasion,
    command: (readings: FactReading[]) => Promise<Result>,
  ): Promise<Result> {
    let readings: FactReading[] = [];
    for (let looks = 0; ; looks += 1) {
      try {
        return await command(readings);
      } catch (error) {
        const moved = error instanceof RefusedCommand && error.refusal.refused === 'facts-moved';
        if (!moved || looks === LOOKS) throw error;
        readings = await this.look(run, on);
      }
    }
  }

  private async look({ tenant, runId }: RunNamed, on: Occasion): Promise<FactReading[]> {
    const run = await this.events.fold(runStream, tenant, runId);
    if (!run?.state.started) return [];
    const { started, drafts } = run.state;
    const { customerId, originRunId } = started;
    const claimIds = [...drafts.keys()].map((draftId) => claimIdOf(tenant, originRunId, draftId));
    return this.sources.read({ tenant, customerId, claimIds }, factsDue(run.state, on));
  }

  /** Claims of a policy, of one day of loss where it is named, other than the run's own: `exists`, `count`, `claimIds`. */
  private claims(queries: ClaimQueries): FactSource {
    return async ({ tenant, claimIds }, ref, signal) => {
      if (ref === undefined) throw new Error('claims are looked up by a policy number');
      const { policyNumber, date } = policyRef(ref);
      const running = this.projections.find('authoritative-claims');
      const reached = await running?.waitFor(await this.events.head(), BEHIND_MS);
      if (reached === false) throw new ReadModelUnavailable('the view of claims is behind');
      const found: string[] = [];
      let cursor: string | undefined;
      do {
        signal.throwIfAborted();
        const page = await queries.list(
          { tenant },
          { policyNumber },
          { limit: PAGE, ...(cursor && { cursor }) },
        );
        for (const { claimId, notice } of page.items)
          if ((date === undefined || notice.lossDate === date) && !claimIds.includes(claimId))
            found.push(claimId);
        cursor = page.nextCursor ?? undefined;
      } while (cursor !== undefined);
      return { exists: found.length > 0, count: found.length, claimIds: found.sort() };
    };
  }
}

/** Approved preferences by key: the one that `ref` names, or all. */
function preferences(queries: ProfileQueries): FactSource {
  return async ({ tenant, customerId }, ref) => {
    const view = await queries.profile(tenant, customerId);
    const found: Found = Object.fromEntries(
      view?.doc.preferences.map(({ key, value }) => [key, value]) ?? [],
    );
    return ref === undefined ? found : { [ref]: found[ref] ?? null };
  };
}

const noRegister: FactSource = () => Promise.reject(new Error('no policy register is set'));
