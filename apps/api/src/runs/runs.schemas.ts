import { z } from 'zod';
import type { Json } from '#libs/canonical';
import { isPreferenceKey } from '#libs/domain/profiles';
import { lossNotice } from '#libs/domain/losses';

/** Text for people: no NUL, which is no character of any text. */
export const text = (most: number, least = 1) =>
  z
    .string()
    .min(least)
    .max(most)
    .refine((value) => !value.includes('\0'), 'must not hold a NUL character');

export const id = z.uuid().toLowerCase();
const name = text(200);
const digest = z.string().regex(/^[0-9a-f]{64}$/, '64 lower-case hex digits');

/** Any JSON value, which the parser of the body has checked already. */
const json = z
  .custom<Json>((value) => value !== undefined, 'is required')
  .meta({ description: 'Any JSON value.' });

/** No free text: these are stored as they are, so that nothing personal may stand in them. */
const identifier = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/,
    'up to 128 of letters, digits and ._:-, first a letter or digit',
  );
const draftId = z.string().regex(/^[a-z0-9-]{1,64}$/, 'up to 64 of a-z, 0-9 and -');

export const startBody = z.strictObject({
  runId: id.optional(),
  workflow: z.strictObject({ name: identifier, version: identifier }),
  customerId: id,
  conversationId: id.optional(),
  input: json.optional(),
});
export type StartBody = z.infer<typeof startBody>;

export const resumeBody = z.strictObject({
  workerId: identifier,
  leaseSeconds: z.int().min(5).max(600).default(60),
  takeOver: z.boolean().default(false),
});
export type ResumeBody = z.infer<typeof resumeBody>;

export const leaseBody = z.strictObject({
  leaseToken: z
    .string()
    .regex(/^[1-9]\d{0,14}\.[0-9a-f]{64}$/, 'a lease token, as resuming the run answered it'),
});
export type LeaseBody = z.infer<typeof leaseBody>;

export const phaseBody = z.strictObject({ phase: identifier });
export type PhaseBody = z.infer<typeof phaseBody>;

const cited = z.strictObject({ messageId: id, digest });
const cites = z
  .array(cited)
  .max(20)
  .refine(
    (all) => new Set(all.map(({ messageId }) => messageId)).size === all.length,
    'must not name a message twice',
  )
  .optional();

export const stepBody = z.strictObject({
  stepId: identifier,
  name,
  kind: z.enum(['tool', 'model', 'human', 'system']),
  status: z.enum(['started', 'completed', 'failed']),
  input: json.optional(),
  output: json.optional(),
  error: json.optional(),
  cites,
});
export type StepBody = z.infer<typeof stepBody>;

const factBody = z
  .strictObject({
    name: identifier,
    value: json,
    source: z.strictObject({
      kind: z.enum(['claims', 'profile', 'policy', 'statement']),
      ref: text(200).optional(),
    }),
    recheck: z.enum(['on-resume', 'on-execution', 'both', 'never']),
    required: z.boolean().default(true),
    maxAgeSeconds: z.int().min(1).max(315_360_000).optional(),
  })
  .superRefine(({ source: { kind, ref }, recheck }, context) => {
    if (recheck === 'never') return;
    const path = ['source', 'ref'];
    if ((kind === 'policy' || kind === 'claims') && ref === undefined)
      context.addIssue({ code: 'custom', path, message: 'is required: a policy number, or <number>@<date>' });
    if (kind === 'profile' && ref !== undefined && !isPreferenceKey(ref))
      context.addIssue({ code: 'custom', path, message: 'must be the key of a preference' });
  });

export const factsBody = z.strictObject({
  facts: z
    .array(factBody)
    .min(1)
    .max(50)
    .refine(
      (facts) => new Set(facts.map(({ name }) => name)).size === facts.length,
      'must not hold a name twice',
    ),
});
export type FactsBody = z.infer<typeof factsBody>;

export const draftBody = z.strictObject({
  kind: z.literal('claim'),
  content: lossNotice.refine(
    (notice) => !JSON.stringify(notice).includes('\\u0000'),
    'must not hold a NUL character',
  ),
});
export type DraftBody = z.infer<typeof draftBody>;

export const approvalBody = z.strictObject({
  draftId,
  draftVersion: z.int().min(1),
  summary: text(4000),
  basedOn: z.array(identifier).max(200),
  expiresInSeconds: z.int().min(60).max(2_592_000),
});
export type ApprovalBody = z.infer<typeof approvalBody>;

export const stateBody = z.strictObject({ state: json, label: name.optional() });
export type StateBody = z.infer<typeof stateBody>;

export const statePatch = json.meta({ description: 'A JSON merge patch (RFC 7396).' });

export const endBody = z.strictObject({ reason: text(2000).optional(), output: json.optional() });
export type EndBody = z.infer<typeof endBody>;

export const forkBody = z.strictObject({
  atRevision: z
    .union([z.string().regex(/^\d{1,18}$/), z.int().min(0)], 'a revision: digits')
    .transform((revision) => BigInt(revision)),
});
export type ForkBody = z.infer<typeof forkBody>;

export const runQuery = {
  status: z
    .enum(['completed', 'failed', 'cancelled', 'needs-attention', 'filing', 'approved', 'waiting', 'open'])
    .optional(),
  phase: identifier.optional(),
  customerId: id.optional(),
  updatedSince: z.iso
    .datetime({ offset: true })
    .transform((time) => new Date(time).toISOString())
    .optional(),
};

const at = z.iso.datetime({ precision: 3 });
const appended = { revision: z.string(), position: z.string() };

export const started = z.object({ runId: id, status: z.string(), startedAt: at, ...appended });
export const entered = z.object({ phase: z.string(), ...appended });
export const recorded = z.object({ stepId: z.string(), status: stepBody.shape.status, ...appended });
export const factsRecorded = z.object({ facts: z.array(z.string()), observedAt: at, ...appended });
export const drafted = z.object({ draftId, draftVersion: z.int(), digest, ...appended });
export const saved = z.object({ savedAt: at, label: z.string().optional(), ...appended });
export const ended = z.object({
  status: z.enum(['completed', 'failed', 'cancelled']),
  endedAt: at,
  ...appended,
});
export const forked = z.object({
  runId: id,
  forkedFrom: z.object({ runId: id, revision: z.string() }),
  ...appended,
});
export const extended = z.object({ leaseExpiresAt: at });
export const returned = z.object({ returned: z.literal(true) });
export const requested = z.object({
  approvalId: z.string(),
  digest,
  expiresAt: at,
  requires: z.object({
    signatures: z.int(),
    authority: z.object({ amount: z.string(), currency: z.string() }),
  }),
  ...appended,
});

/** What everybody who may read a run is shown; a customer no more than this. */
export const plainRun = z.looseObject({
  runId: id,
  customerId: id,
  workflow: z.object({ name: z.string(), version: z.string() }),
  status: z.string(),
  phase: z.string().optional(),
  startedAt: at,
  updatedAt: at,
  revision: z.string(),
});
export const runView = plainRun.extend({
  steps: z.looseObject({ total: z.int(), completed: z.int(), failed: z.int() }),
  facts: z.array(z.looseObject({ name: z.string(), value: json, observedAt: at, revision: z.string() })),
  drafts: z.array(z.looseObject({ draftId, draftVersion: z.int(), digest })),
  approvals: z.array(z.looseObject({ approvalId: z.string(), status: z.string(), expiresAt: at })),
  workerState: z
    .looseObject({
      state: json.optional(),
      payload: z
        .object({ digest, bytes: z.int() })
        .optional()
        .describe('In place of a large state, where it is not answered; the checkpoint has it.'),
      savedAt: at,
    })
    .optional(),
  lease: z.object({ number: z.int(), workerId: z.string(), holder: z.string(), expiresAt: at }).optional(),
});
export const resumed = z.object({
  run: runView,
  leaseToken: z.string(),
  leaseExpiresAt: at,
  recheck: z.object({
    unchanged: z.array(z.string()),
    changed: z.array(z.object({ name: z.string(), was: json, now: json })),
    unavailable: z.array(z.string()),
  }),
  ...appended,
});
export const page = <Item extends z.ZodType>(item: Item) =>
  z.object({ items: z.array(item), nextCursor: z.string().nullable() });
export const timelineEntry = z.object({
  revision: z.string(),
  at,
  type: z.string(),
  by: z.string(),
  text: z.string(),
  /** `deleted` also where the retention has ended; `unknown` while the document store cannot be asked. */
  cites: z.array(cited.extend({ status: z.enum(['kept', 'deleted', 'unknown']) })).optional(),
});
