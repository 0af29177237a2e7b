import {
  BrokenCircuitError,
  circuitBreaker,
  ConsecutiveBreaker,
  ExponentialBackoff,
  handleWhen,
  retry,
  TaskCancelledError,
  timeout,
  TimeoutStrategy,
  wrap,
} from 'cockatiel';
import { z } from 'zod';
import { policyRef } from './refs.js';
import type { FactSource, Found } from './sources.js';

export interface PolicyRegisterOptions {
  /** Of the register: `<url>/v1/<tenant>/policies/<number>?on=<date>` is asked. */
  readonly url: string;
  /** Within which one request is answered, in milliseconds. */
  readonly answerMs?: number;
  /** How long nobody asks after five failures in a row, in milliseconds; then one request tries. */
  readonly restMs?: number;
}

/** The register cannot be asked now; asking again may help. */
export class RegisterUnavailable extends Error {
  override readonly name = 'RegisterUnavailable';
}

const TRIES_AGAIN = 2;
const FAILURES = 5;

const policy = z.object({
  status: z.enum(['in-force', 'not-started', 'lapsed']),
  version: z.int(),
  from: z.iso.date(),
  until: z.iso.date().optional(),
  terms: z.record(z.string(), z.json()).optional(),
});

/**
 * The register of policies, over HTTP. What it says of a policy: `status`, `inForce`, `version`, `from`, `until` and
 * `terms`; of one that it does not know, the status `unknown`.
 *
 * A request that fails or takes longer than a second is tried twice more. After five failures in a row nobody asks
 * for five seconds, so that a register that is down is not waited for each time.
 */
export function policyRegister({ url, answerMs = 1_000, restMs = 5_000 }: PolicyRegisterOptions): FactSource {
  const failed = handleWhen(
    (error) => error instanceof RegisterUnavailable || error instanceof TaskCancelledError,
  );
  const guarded = wrap(
    retry(failed, {
      maxAttempts: TRIES_AGAIN,
      backoff: new ExponentialBackoff({ initialDelay: 50, maxDelay: 250 }),
    }),
    circuitBreaker(failed, { halfOpenAfter: restMs, breaker: new ConsecutiveBreaker(FAILURES) }),
    timeout(answerMs, TimeoutStrategy.Aggressive),
  );
  return async ({ tenant }, ref, signal) => {
    if (ref === undefined) throw new Error('a policy is looked up by its number');
    const { policyNumber, date } = policyRef(ref);
    const address = new URL(
      `v1/${tenant}/policies/${encodeURIComponent(policyNumber)}`,
      `${url.replace(/\/$/, '')}/`,
    );
    if (date !== undefined) address.searchParams.set('on', date);
    try {
      return await guarded.execute((context) => ask(address, context.signal), signal);
    } catch (error) {
      if (error instanceof BrokenCircuitError || error instanceof TaskCancelledError)
        throw new RegisterUnavailable('the policy register is not asked, or does not answer', {
          cause: error,
        });
      throw error;
    }
  };
}

async function ask(address: URL, signal: AbortSignal): Promise<Found> {
  let answer: Response;
  let body: unknown;
  try {
    answer = await fetch(address, { signal, redirect: 'error' });
    body = await answer.json();
  } catch (error) {
    throw new RegisterUnavailable('the policy register cannot be reached', { cause: error });
  }
  if (answer.status === 404) return { status: 'unknown', inForce: false, version: 0 };
  if (answer.status >= 500) throw new RegisterUnavailable(`the policy register answers ${answer.status}`);
  const said = policy.safeParse(body);
  if (answer.status !== 200 || !said.success)
    throw new Error(`the policy register answers ${answer.status} with something else than a policy`);
  const { status, version, from, until = null, terms = {} } = said.data;
  return { status, inForce: status === 'in-force', version, from, until, terms };
}
