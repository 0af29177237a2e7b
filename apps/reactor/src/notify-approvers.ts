import { createHmac } from 'node:crypto';
import {
  circuitBreaker,
  ConsecutiveBreaker,
  ExponentialBackoff,
  handleAll,
  type IPolicy,
  retry,
  wrap,
} from 'cockatiel';
import type { Webhook } from '#apps/platform';
import type { Notice, Recorded } from '#libs/projecting';
import type { Reaction } from '#libs/reacting';

const TYPES: Readonly<Record<string, string>> = {
  ApprovalRequested: 'approval.waiting',
  ApprovalEndorsed: 'approval.endorsed',
  ApprovalGranted: 'approval.granted',
  ApprovalDenied: 'approval.denied',
  ApprovalWithdrawn: 'approval.withdrawn',
  ApprovalInvalidated: 'approval.invalidated',
};

const ATTEMPTS = 3;
const ANSWER_WITHIN_MS = 3_000;
const BROKEN_AFTER = 5;
const TRY_AGAIN_AFTER_MS = 30_000;
const GIVEN_UP_AFTER_MS = 3 * 86_400_000;

export interface Notifying {
  readonly webhooks: Readonly<Record<string, Webhook>>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Told of what is given up. */
  readonly notice: Notice;
  /** Ends deliveries that are under way; they are made again at the next start. */
  readonly signal: AbortSignal;
  /** Before the second attempt, in milliseconds (200); it doubles. */
  readonly firstPauseMs?: number;
}

/** The endpoint did not take a notification. The message names no address: that may hold a secret. */
export class NotDelivered extends Error {
  override readonly name = 'NotDelivered';
}

/**
 * Tells a tenant's endpoint that an approval waits, or no longer does, at least once: three attempts with growing
 * pauses, then as a dead letter, later and later, and not any more once it is three days old; that is told. An endpoint that failed five deliveries in a row is left alone for
 * half a minute, so that it holds up no other tenant. A tenant without an endpoint is passed.
 *
 * A notification holds ids, times and what became of the approval, nothing personal. It is signed as Standard Webhooks
 * 1.0 has it: `webhook-signature: v1,<base64>` is the HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>`. The id
 * is the event's and the same each time, so that a receiver can drop repetitions; the time is that of the attempt.
 * Deliveries may overtake one another: `revision` orders those of one run.
 */
export function notifyApprovers(notifying: Notifying): Reaction {
  const policies = new Map<string, IPolicy>();
  const policyOf = (tenant: string) => {
    const policy = policies.get(tenant) ?? deliveryPolicy(notifying.firstPauseMs);
    policies.set(tenant, policy);
    return policy;
  };
  return {
    name: 'notify-approvers',
    category: 'run',
    hears: Object.keys(TYPES),
    isTransient: () => false,
    async react(event) {
      const { webhooks, signal } = notifying;
      const webhook = Object.hasOwn(webhooks, event.tenant) ? webhooks[event.tenant] : undefined;
      if (!webhook) return;
      try {
        await policyOf(event.tenant).execute(() => deliver(webhook, event, notifying), signal);
      } catch (error) {
        if (!(error instanceof NotDelivered) || signal.aborted || !isOld(event, notifying)) throw error;
        const { tenant, stream, revision } = event;
        notifying.notice('a notification is given up', { tenant, stream, revision, error: error.message });
      }
    },
  };
}

function isOld({ metadata }: Recorded, { now }: Notifying): boolean {
  return now() - Date.parse(metadata.recordedAt) > GIVEN_UP_AFTER_MS;
}

function deliveryPolicy(initialDelay = 200): IPolicy {
  const backoff = new ExponentialBackoff({ initialDelay, maxDelay: 10 * initialDelay });
  const breaker = new ConsecutiveBreaker(BROKEN_AFTER);
  return wrap(
    circuitBreaker(handleAll, { halfOpenAfter: TRY_AGAIN_AFTER_MS, breaker }),
    retry(handleAll, { maxAttempts: ATTEMPTS - 1, backoff }),
  );
}

async function deliver({ url, secret }: Webhook, event: Recorded, { now, signal }: Notifying): Promise<void> {
  const id = event.eventId;
  const body = JSON.stringify(notificationOf(event));
  const timestamp = Math.floor(now() / 1000).toString();
  const headers = {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${signatureOf(secret, `${id}.${timestamp}.${body}`)}`,
  };
  const ends = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]);
  const answer = await fetch(url, { method: 'POST', headers, body, redirect: 'error', signal: ends }).catch(
    (cause: unknown) => {
      throw new NotDelivered('the endpoint cannot be reached', { cause });
    },
  );
  await answer.body?.cancel();
  if (!answer.ok) throw new NotDelivered(`the endpoint answered ${answer.status}`);
}

/** Every field of the event that is told stands unsealed in it. */
function notificationOf({ type, tenant, id, revision, data, metadata }: Recorded) {
  const { approvalId, expiresAt, executeBy } = data as Record<string, string | undefined>;
  return {
    type: TYPES[type],
    tenant,
    runId: id,
    approvalId,
    revision: revision.toString(),
    occurredAt: metadata.recordedAt,
    ...(expiresAt !== undefined && { expiresAt }),
    ...(executeBy !== undefined && { executeBy }),
  };
}

function signatureOf(secret: string, signed: string): string {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  return createHmac('sha256', key).update(signed).digest('base64');
}
