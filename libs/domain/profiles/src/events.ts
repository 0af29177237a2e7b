// These shapes are stored: fields may be added, nothing is changed or removed, and no stored event is rewritten.
import { type EventOf, personal, plain } from '#libs/decider';
import { z } from 'zod';

const id = plain(z.uuid());
const at = plain(z.iso.datetime({ precision: 3 }));
const subject = plain(z.string().min(1).max(200));
const identifier = plain(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/));
const key = plain(z.string().regex(/^[a-z]{1,32}(\.[a-z]{1,32}){0,3}$/));
const value = personal('preference', z.json());

export const profileEvents = {
  ProfileOpened: z
    .strictObject({ customerId: id, openedAt: at })
    .describe('A customer has a preference profile from here on; it is empty.'),
  PreferenceProposed: z
    .strictObject({
      proposalId: id,
      key,
      value,
      runId: id,
      quoteMessageId: identifier.optional(),
      proposedBy: subject,
      proposedAt: at,
    })
    .describe(
      'An assistant proposed a preference, from a run and perhaps from a message. It changes nothing.',
    ),
  PreferenceApproved: z
    .strictObject({ proposalId: id, key, approvedBy: subject, approvedAt: at })
    .describe('The customer approved a proposal: its value is the preference from here on.'),
  ProposalRejected: z
    .strictObject({ proposalId: id, rejectedBy: subject, rejectedAt: at })
    .describe('The customer rejected a proposal.'),
  PreferenceSet: z
    .strictObject({ key, value, setBy: subject, setAt: at })
    .describe('The customer set a preference without a proposal.'),
  PreferenceWithdrawn: z
    .strictObject({ key, withdrawnBy: subject, withdrawnAt: at })
    .describe('The customer withdrew a preference: there is none for this key from here on.'),
};

export type ProfileEvent = EventOf<typeof profileEvents>;
