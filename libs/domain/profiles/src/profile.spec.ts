import fc from 'fast-check';
import { specification } from '#libs/decider';
import {
  approvedProfile,
  customerId,
  people,
  proposalId,
  proposedProfile,
  runId,
  seconds,
} from '#libs/domain/examples';
import { catalogue } from './catalogue.js';
import type { ProfileEvent } from './events.js';
import { profile, type ProfileCommand, profileStream } from './profile.js';

const { given } = specification(profile, (actual, expected) => expect(actual).toStrictEqual(expected));
const at = seconds(1000);
const carol = people.carol.sub;
const named = { customerId, at };

const propose = {
  ...named,
  type: 'ProposePreference',
  proposalId,
  key: 'contact.channel',
  value: 'sms',
  runId,
  quoteMessageId: 'message-7',
  proposedBy: people.assistant.sub,
} satisfies ProfileCommand;
const decide = (decision: 'approve' | 'reject', of = proposalId): ProfileCommand => ({
  ...named,
  type: 'DecideProposal',
  proposalId: of,
  decision,
  decidedBy: carol,
});
const set = (key: string, value: string): ProfileCommand => ({
  ...named,
  type: 'SetPreference',
  key,
  value,
  setBy: carol,
});
const withdraw = (key: string): ProfileCommand => ({
  ...named,
  type: 'WithdrawPreference',
  key,
  withdrawnBy: carol,
});

describe('a proposal', () => {
  it('opens the profile and leaves it empty', () => {
    const outcome = given().when({ ...propose, at: seconds(700) });
    outcome.then(...proposedProfile);
    expect(outcome.state().preferences.size).toBe(0);
  });

  it('is the same one again after any time, and another one is refused under its id', () => {
    given(...approvedProfile)
      .when(propose)
      .then();
    given(...proposedProfile)
      .when({ ...propose, value: 'email' })
      .thenRefused('proposal-exists');
  });

  it('P94: of an unknown key, or with a value that is none of it, is refused', () => {
    const known = Object.keys(catalogue);
    given()
      .when({ ...propose, key: 'approve.under' })
      .thenRefused('unknown-preference', { known });
    given()
      .when({ ...propose, key: 'toString' })
      .thenRefused('unknown-preference', { known });
    const { outcome } = given().when({ ...propose, value: 'pigeon' });
    expect(outcome).toMatchObject({ refused: 'invalid-preference', extra: { errors: [{ field: 'value' }] } });
  });

  it('becomes a preference when the customer approves it, and says where it came from', () => {
    const outcome = given(...proposedProfile).when(decide('approve'));
    outcome.then({
      type: 'PreferenceApproved',
      data: { proposalId, key: 'contact.channel', approvedBy: carol, approvedAt: at },
    });
    expect([...outcome.state().preferences]).toStrictEqual([
      [
        'contact.channel',
        {
          value: 'sms',
          approvedAt: at,
          approvedBy: carol,
          source: {
            kind: 'proposal',
            proposalId,
            runId,
            quoteMessageId: 'message-7',
            proposedBy: people.assistant.sub,
          },
        },
      ],
    ]);
  });

  it('is decided once; the same decision again changes nothing', () => {
    given(...approvedProfile)
      .when(decide('approve'))
      .then();
    given(...approvedProfile)
      .when(decide('reject'))
      .thenRefused('already-decided', { decision: 'approve', by: carol, at: seconds(800) });
    const rejected = given(...proposedProfile).when(decide('reject'));
    rejected.then({ type: 'ProposalRejected', data: { proposalId, rejectedBy: carol, rejectedAt: at } });
    expect(rejected.state().preferences.size).toBe(0);
    given().when(decide('approve')).thenRefused('not-found');
  });

  it('is refused while fifty wait', () => {
    const many = Array.from({ length: 50 }, (_, n): ProfileEvent => ({
      type: 'PreferenceProposed',
      data: { ...propose, proposalId: `${proposalId.slice(0, -2)}${10 + n}`, proposedAt: at },
    }));
    const open = proposedProfile.slice(0, 1);
    given(...open, ...many)
      .when(propose)
      .thenRefused('too-many-proposals', { limit: 50 });
    given(...open, ...many.slice(1))
      .when({ ...propose, at: seconds(700) })
      .then(...proposedProfile.slice(1));
  });
});

describe('a preference', () => {
  it('is set, changed and withdrawn by its customer; what holds already appends nothing', () => {
    given()
      .when(set('contact.language', 'de-AT'))
      .then(
        { type: 'ProfileOpened', data: { customerId, openedAt: at } },
        { type: 'PreferenceSet', data: { key: 'contact.language', value: 'de-AT', setBy: carol, setAt: at } },
      );
    given(...approvedProfile)
      .when(set('contact.language', 'en'))
      .then();
    const withdrawn = given(...approvedProfile).when(withdraw('contact.channel'));
    withdrawn.then({
      type: 'PreferenceWithdrawn',
      data: { key: 'contact.channel', withdrawnBy: carol, withdrawnAt: at },
    });
    expect([...withdrawn.state().preferences.keys()]).toEqual(['contact.language']);
    given(...approvedProfile, ...(withdrawn.outcome as ProfileEvent[]))
      .when(withdraw('contact.channel'))
      .then();
    given().when(withdraw('contact.channel')).thenRefused('not-found');
    const known = Object.keys(catalogue);
    given().when(withdraw('__proto__')).thenRefused('unknown-preference', { known });
  });

  it('follows from the customer’s last word about its key, whatever else happened', () => {
    type Move = { key: 'contact.channel' | 'payout.method'; value: 'sms' | 'email' | undefined };
    const move = fc.record<Move>({
      key: fc.constantFrom('contact.channel', 'payout.method'),
      value: fc.constantFrom('sms', 'email', undefined),
    });
    fc.assert(
      fc.property(fc.array(move, { maxLength: 20 }), (moves) => {
        const model = new Map<string, string>();
        const state = moves.reduce((before, { key, value }) => {
          const outcome = profile.decide(value === undefined ? withdraw(key) : set(key, value), before);
          if (value === undefined) model.delete(key);
          else model.set(key, value);
          return Array.isArray(outcome)
            ? outcome.reduce((each, event) => profile.evolve(each, event), before)
            : before;
        }, profile.initialState());
        const held = [...state.preferences].map(([key, { value }]) => [key, value]);
        expect(Object.fromEntries(held)).toEqual(Object.fromEntries(model));
      }),
    );
  });
});

describe('the profile stream', () => {
  it('belongs to its customer, from its first event on', () => {
    expect(profileStream.customerOf(profile.initialState(), approvedProfile)).toBe(customerId);
    expect(profileStream.customerOf(given(...approvedProfile).state(), [])).toBe(customerId);
    expect(() => profileStream.customerOf(profile.initialState(), [])).toThrow('has no customer');
  });

  it('saves and loads its state unchanged', () => {
    const state = given(...approvedProfile).state();
    expect(profileStream.load(profileStream.save(state))).toStrictEqual(state);
  });

  it('refuses an event that it does not know', () => {
    const unknown = { type: 'PreferenceGuessed', data: {} } as unknown as ProfileEvent;
    expect(() => profile.evolve(profile.initialState(), unknown)).toThrow('no event PreferenceGuessed');
  });
});
