// These shapes are stored: fields may be added, nothing is changed or removed, and no stored event is rewritten.
import { type EventOf, money, personal, plain } from '#libs/decider';
import { saltedNotice } from '#libs/domain/losses';
import { z } from 'zod';

const id = plain(z.uuid());
const identifier = plain(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/));

const at = plain(z.iso.datetime({ precision: 3 }));
const text = personal('claim', z.string().min(1).max(4000));
/** Who acted: the token's subject, and whom they act for. */
const party = z.strictObject({
  sub: plain(z.string().min(1).max(200)),
  actFor: z.array(plain(z.string().min(1).max(200))),
});
export type Party = z.infer<typeof party>;
const settlement = { amount: personal('claim', money), payee: text };

/** The way back from a claim to what it was filed from. */
const origin = z.strictObject({
  runId: id,
  originRunId: id,
  draftId: plain(z.string().max(64)),
  draftVersion: z.int().min(1),
  approvalId: plain(z.string().max(64)),
  digest: plain(z.string().regex(/^[0-9a-f]{64}$/)),
  facts: z.array(identifier),
  decidedBy: z.array(plain(z.string().min(1).max(200))),
  /** The run's revision at which filing started, a string of digits. */
  runRevision: plain(z.string().regex(/^\d+$/)),
});
export type Origin = z.infer<typeof origin>;

export const claimEvents = {
  ClaimFiled: z
    .strictObject({
      claimId: id,
      receiptNumber: identifier,
      customerId: id,
      /** The customer's own identity, where they started the run themselves. */
      customer: party.optional(),
      origin,
      content: personal('claim', saltedNotice),
      filedAt: plain(z.iso.datetime({ precision: 3 })),
    })
    .describe(
      'An approved draft became a claim, with a receipt. It carries what was approved, under a key of its own.',
    ),
  ClaimAcknowledged: z
    .strictObject({ note: text.optional(), acknowledgedBy: party, acknowledgedAt: at })
    .describe('Somebody of the claims staff took the claim up.'),
  ClaimAssessed: z
    .strictObject({
      amount: personal('claim', money).optional(),
      findings: text.optional(),
      assessedBy: party,
      assessedAt: at,
    })
    .describe('The loss was assessed.'),
  SettlementProposed: z
    .strictObject({ ...settlement, proposedBy: party, proposedAt: at })
    .describe('A settlement was asked for that needs a second person.'),
  ClaimSettled: z
    .strictObject({ ...settlement, settledBy: z.array(party), settledAt: at })
    .describe('The claim was settled, by one person or by two.'),
  ClaimRejected: z
    .strictObject({ reason: text, rejectedBy: party, rejectedAt: at })
    .describe('The claim was rejected.'),
  ClaimWithdrawn: z
    .strictObject({ reason: text, withdrawnBy: party, withdrawnAt: at })
    .describe('The claim was withdrawn.'),
  ClaimReopened: z
    .strictObject({ reason: text, reopenedBy: party, reopenedAt: at })
    .describe('A claim that was closed is worked on again.'),
};

export type ClaimEvent = EventOf<typeof claimEvents>;
