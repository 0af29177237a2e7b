import type { Kind } from '../problems.js';

/** What can go wrong with the facts of a run. */
export const factProblems = {
  'fact-unknown': {
    status: 409,
    title: 'No such fact',
    meaning: 'The approval is based on facts that the run has not recorded. `facts` names them.',
    advice: 'Record the facts first.',
  },
  'fact-outdated': {
    status: 409,
    title: 'A fact is too old',
    meaning: 'The approval is based on facts that are older than their `maxAgeSeconds`. `facts` names them.',
    advice: 'Find out again, record the facts, and ask then.',
  },
  'facts-moved': {
    status: 409,
    title: 'The facts changed meanwhile',
    meaning: 'The facts of the run kept changing while they were looked up. Nothing was stored.',
    advice: 'Send the request again.',
  },
  'facts-unavailable': {
    status: 503,
    title: 'A fact cannot be looked up',
    meaning:
      'The source of a required fact cannot be reached. The lease was not taken. `facts` names the facts.',
    advice: 'Send the request again after `Retry-After` seconds.',
  },
  'too-many-facts': {
    status: 409,
    title: 'Too many facts',
    meaning: 'The run would have more facts than it may; `limit` is how many.',
    advice: 'Record again the facts there are, rather than new ones.',
  },
} satisfies Record<string, Kind>;
