import type { Kind } from '../problems.js';

/** Refusals about the messages that a run cites. */
export const messageProblems = {
  'message-unknown': {
    status: 409,
    title: 'There is no such message',
    meaning:
      'The conversation of the run holds no message of that id and digest: it never did, or the message is deleted. `messages` names them. Nothing was stored.',
    advice: 'Cite messages by id and digest as the conversation answers them, while they are there.',
  },
  'messages-unread': {
    status: 409,
    title: 'The messages were not looked for',
    meaning: 'The messages that are cited have to be looked for first. Waymark does so by itself.',
    advice: 'Send the request again.',
  },
} satisfies Record<string, Kind>;
