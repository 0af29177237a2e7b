import type { Kind } from '../problems.js';

/** What can go wrong with preferences. */
export const preferenceProblems = {
  'unknown-preference': {
    status: 400,
    title: 'There is no such preference',
    meaning: 'The key is not in the catalogue of preferences; `known` lists the keys that are.',
    advice: 'Use a key of the catalogue.',
  },
  'invalid-preference': {
    status: 400,
    title: 'The value of the preference cannot be used',
    meaning: 'A preference of this key cannot have this value. `errors` says what it may be.',
    advice: 'Correct the value.',
  },
  'proposal-exists': {
    status: 409,
    title: 'The proposal exists already',
    meaning: 'A proposal made under the same idempotency key, more than a day ago, proposes something else.',
    advice: 'Use a new key for a new proposal.',
  },
  'too-many-proposals': {
    status: 409,
    title: 'Too many proposals wait',
    meaning: 'The customer has as many proposals to decide as a profile may hold; `limit` is how many.',
    advice: 'Wait until the customer has decided some.',
  },
} satisfies Record<string, Kind>;
