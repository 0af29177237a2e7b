import type { DomainEvent } from '#libs/decider';
import type { ProfileEvent } from '#libs/domain/profiles';
import { defineProjection, type Fold, Unprojectable } from '#libs/projecting';
import { type PreferenceProfile, preferenceProfile } from './document.js';

type Preference = PreferenceProfile['preferences'][number];

export const preferenceProfiles = defineProjection<PreferenceProfile, ProfileEvent>({
  name: 'preference-profiles',
  version: 1,
  category: 'profile',
  document: preferenceProfile,
  indexes: [],
  customerOf: (doc) => doc.customerId,
  fold: {
    ProfileOpened: {
      begins: ({ data, metadata }) => ({
        customerId: data.customerId,
        preferences: [],
        proposals: [],
        updatedAt: metadata.recordedAt,
      }),
    },
    PreferenceProposed: updating((doc, { data }) => ({ ...doc, proposals: [...doc.proposals, data] })),
    PreferenceApproved: updating((doc, { data }) => {
      const { proposalId, key, approvedAt, approvedBy } = data;
      const proposal = doc.proposals.find((each) => each.proposalId === proposalId);
      if (!proposal) throw new Unprojectable('unknown-proposal', `the approval of proposal ${proposalId}`);
      const { key: _, value, proposedAt: __, ...from } = proposal;
      const preference = { key, value, approvedAt, approvedBy };
      return withPreference(decided(doc, proposalId), {
        ...preference,
        source: { kind: 'proposal', ...from },
      });
    }),
    ProposalRejected: updating((doc, { data }) => decided(doc, data.proposalId)),
    PreferenceSet: updating((doc, { data: { key, value, setAt, setBy } }) =>
      withPreference(doc, { key, value, approvedAt: setAt, approvedBy: setBy, source: { kind: 'customer' } }),
    ),
    PreferenceWithdrawn: updating((doc, { data }) => ({
      ...doc,
      preferences: doc.preferences.filter(({ key }) => key !== data.key),
    })),
  },
});

function updating<Event extends DomainEvent>(
  fold: Fold<PreferenceProfile, Event>,
): Fold<PreferenceProfile, Event> {
  return (doc, event) => ({ ...fold(doc, event), updatedAt: event.metadata.recordedAt });
}

function decided(doc: PreferenceProfile, proposalId: string): PreferenceProfile {
  return { ...doc, proposals: doc.proposals.filter((each) => each.proposalId !== proposalId) };
}

/** In the order of their keys: the same preferences always look the same. */
function withPreference(doc: PreferenceProfile, preference: Preference): PreferenceProfile {
  const others = doc.preferences.filter(({ key }) => key !== preference.key);
  const preferences = [...others, preference].sort((one, other) => (one.key < other.key ? -1 : 1));
  return { ...doc, preferences };
}
