import { isDeepStrictEqual } from 'node:util';
import { open, type RootDatabase } from 'lmdb';

/** When a policy covers: from a day, included, until another, excluded. `terms` is what else was agreed. */
export interface Policy {
  readonly from: string;
  readonly until?: string | undefined;
  readonly terms?: Readonly<Record<string, unknown>> | undefined;
}

/** `version` grows with every change, from 1. */
export type KeptPolicy = Policy & { readonly version: number };

/** The policies of one register, on disk. */
export class Policies {
  private constructor(private readonly kept: RootDatabase<KeptPolicy, string[]>) {}

  /** @throws Error when the folder cannot be opened. */
  static open(folder: string): Policies {
    return new Policies(
      open<KeptPolicy, string[]>({ path: folder, encoding: 'json', overlappingSync: false }),
    );
  }

  find(tenant: string, policyNumber: string): KeptPolicy | undefined {
    return this.kept.get([tenant, policyNumber]);
  }

  /** On disk when it answers. The same policy again keeps its version. */
  async put(tenant: string, policyNumber: string, policy: Policy): Promise<KeptPolicy> {
    return this.kept.transaction(() => {
      const { version = 0, ...before } = this.find(tenant, policyNumber) ?? {};
      const given = JSON.parse(JSON.stringify(policy)) as Policy;
      if (version > 0 && isDeepStrictEqual(before, given)) return { ...given, version };
      const next = { ...given, version: version + 1 };
      void this.kept.put([tenant, policyNumber], next);
      return next;
    });
  }

  close(): Promise<void> {
    return this.kept.close();
  }
}

/** How a policy stands on a day. */
export function statusOn({ from, until }: Policy, day: string): 'not-started' | 'in-force' | 'lapsed' {
  if (day < from) return 'not-started';
  return until !== undefined && day >= until ? 'lapsed' : 'in-force';
}
