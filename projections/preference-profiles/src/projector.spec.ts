import { unmarkedFields } from '#libs/decider';
import {
  approvedProfile,
  customerId,
  people,
  proposalId,
  proposedProfile,
  runId,
  seconds,
} from '#libs/domain/examples';
import { type ProfileEvent, profileEvents } from '#libs/domain/profiles';
import { projectionSpecification } from '#libs/projecting';
import { type PreferenceProfile, preferenceProfile } from './document.js';
import { preferenceProfiles } from './projector.js';

const { given } = projectionSpecification<PreferenceProfile, ProfileEvent>(preferenceProfiles);
const other = '1d2c3b4a-0000-4000-8000-00000000000b';
const bens: ProfileEvent[] = [
  { type: 'ProfileOpened', data: { customerId: other, openedAt: seconds(1) } },
  { type: 'PreferenceSet', data: { key: 'payout.method', value: 'cheque', setBy: 'ben', setAt: seconds(2) } },
  {
    type: 'PreferenceWithdrawn',
    data: { key: 'payout.method', withdrawnBy: 'ben', withdrawnAt: seconds(3) },
  },
];
const from = { proposalId, runId, quoteMessageId: 'message-7', proposedBy: people.assistant.sub };
const updatedAt = seconds(1000);

describe('preference profiles', () => {
  it('declare what becomes of every stored profile event, and no other', () => {
    expect(Object.keys(preferenceProfiles.fold).sort()).toEqual(Object.keys(profileEvents).sort());
  });

  it('mark every text of their document as personal or plain', () => {
    expect(unmarkedFields(preferenceProfile)).toEqual([]);
  });

  it('hold what was approved, each customer’s apart', () => {
    const { then } = given(
      { id: customerId, events: approvedProfile, at: updatedAt },
      { id: other, events: bens, at: updatedAt },
    );
    const source = { kind: 'proposal', ...from };
    const approved = { approvedBy: people.carol.sub, approvedAt: seconds(800) };
    const chosen = { approvedBy: people.carol.sub, approvedAt: seconds(900), source: { kind: 'customer' } };
    expect(then(customerId)).toStrictEqual({
      customerId,
      preferences: [
        { key: 'contact.channel', value: 'sms', ...approved, source },
        { key: 'contact.language', value: 'en', ...chosen },
      ],
      proposals: [],
      updatedAt,
    });
    expect(then(other)).toStrictEqual({ customerId: other, preferences: [], proposals: [], updatedAt });
    expect(preferenceProfile.safeParse(then(customerId)).success).toBe(true);
  });

  it('keep a proposal beside them until it is decided', () => {
    const { then } = given({ id: customerId, events: proposedProfile, at: updatedAt });
    const proposal = { ...from, key: 'contact.channel', value: 'sms', proposedAt: seconds(700) };
    expect(then(customerId)).toMatchObject({ preferences: [], proposals: [proposal] });
    const rejected: ProfileEvent = {
      type: 'ProposalRejected',
      data: { proposalId, rejectedBy: people.carol.sub, rejectedAt: seconds(800) },
    };
    const after = given({ id: customerId, events: [...proposedProfile, rejected], at: updatedAt });
    expect(after.then(customerId)).toMatchObject({ preferences: [], proposals: [] });
  });

  it('set an approval aside whose proposal they do not have', () => {
    const approval = approvedProfile[2] as ProfileEvent;
    const events = [...proposedProfile.slice(0, 1), approval];
    expect(() => given({ id: customerId, events })).toThrow('the approval of proposal');
  });
});
