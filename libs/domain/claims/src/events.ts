// These shapes are stored: fields may be added, nothing is changed or removed, and no stored event is rewritten.
import { type EventOf, personal, plain } from '#libs/decider';
import { saltedNotice } from '#libs/domain/losses';
import { z } from 'zod';

const id = plain(z.uuid());
const identifier = plain(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/));

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
      origin,
      content: personal('claim', saltedNotice),
      filedAt: plain(z.iso.datetime({ precision: 3 })),
    })
    .describe(
      'An approved draft became a claim, with a receipt. It carries what was approved, under a key of its own.',
    ),
};

export type ClaimEvent = EventOf<typeof claimEvents>;
