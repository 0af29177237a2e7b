import type { Kind } from '../problems.js';

/** What can be wrong with an order of a projection's rebuild. */
export const rebuildProblems = {
  'rebuild-running': {
    status: 409,
    title: 'A rebuild has not ended',
    meaning: 'A projection is rebuilt once at a time, and its last rebuild is neither switched nor aborted.',
    advice: 'Switch or abort it first.',
  },
  'rebuild-state': {
    status: 409,
    title: 'The rebuild is not in that phase',
    meaning:
      'What was ordered is not possible in the phase that the rebuild is in; `detail` names it. Nothing has changed.',
    advice: 'Read the rebuild, and order what its phase allows.',
  },
  'rebuild-behind': {
    status: 503,
    title: 'The version does not catch up',
    meaning:
      'The version to switch to did not hold all that readers have been shown within ten seconds. Nothing has changed.',
    advice: 'Try again after `Retry-After` seconds.',
  },
  'rebuild-not-possible': {
    status: 503,
    title: 'The projection is not kept here',
    meaning:
      'The process is starting or stopping, or stands back because a newer build keeps the projection.',
    advice: 'Ask again after `Retry-After` seconds, or ask the newer build.',
  },
  'comparison-not-clean': {
    status: 409,
    title: 'Documents of the new version differ',
    meaning:
      'The comparison found documents that are missing, extra or differ in a way that the version does not declare.',
    advice: 'Read the comparison; to switch all the same give a `reason`, which is recorded.',
  },
  'nothing-to-roll-back': {
    status: 409,
    title: 'There is no version to go back to',
    meaning:
      'No switch was made, it was rolled back already, or the version before was dropped when its time was over.',
    advice: 'Rebuild the version that is wanted.',
  },
  'version-not-shipped': {
    status: 422,
    title: 'This build does not have that version',
    meaning: 'A build ships the current version of a projection and at most the one before.',
    advice: 'Leave `version` out, or name one of those.',
  },
} satisfies Record<string, Kind>;
