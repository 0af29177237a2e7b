import { approvalId, draftedRun, grantedByDana, runId, seconds } from '#libs/domain/examples';
import type { RunEvent } from '#libs/domain/runs';
import { projectionSpecification } from '#libs/projecting';
import { type Checkpoint, checkpoint } from './document.js';
import { present } from './present.js';
import { currentCheckpoints } from './projector.js';

const { given } = projectionSpecification<Checkpoint, RunEvent>(currentCheckpoints);
const other = '6a0d7c1e-0000-4000-8000-000000000000';

const recorded: RunEvent = {
  type: 'FactsRecorded',
  data: {
    facts: [
      {
        name: 'policy',
        value: 'in-force',
        source: { kind: 'policy', ref: 'P-1' },
        recheck: 'both',
        required: true,
      },
    ],
    observedAt: seconds(25),
  },
};
const change = { name: 'policy', was: 'in-force', now: 'lapsed' };
const rechecked: RunEvent = {
  type: 'FactsRechecked',
  data: {
    on: { kind: 'execution', approvalId },
    unchanged: [],
    changed: [change],
    unavailable: [],
    recheckedAt: seconds(700),
  },
};
const invalidated: RunEvent = {
  type: 'ApprovalInvalidated',
  data: { approvalId, cause: { kind: 'facts-changed', facts: [change] }, invalidatedAt: seconds(700) },
};
const before = [...draftedRun, recorded, ...grantedByDana.slice(draftedRun.length)];

describe('the facts of a run', () => {
  it('show what is known, since which revision, and what changed; each run’s apart', () => {
    const { view, then } = given(
      { id: runId, events: [...before, rechecked, invalidated] },
      { id: other, events: before },
    );
    const known = {
      name: 'policy',
      source: { kind: 'policy', ref: 'P-1' },
      recheck: 'both',
      required: true,
    };
    expect(then(other)?.facts).toStrictEqual([
      { ...known, value: 'in-force', observedAt: seconds(25), revision: '3' },
    ]);
    expect(then(runId)).toMatchObject({
      facts: [
        { ...known, value: 'lapsed', observedAt: seconds(700), revision: '6', changedAt: seconds(700) },
      ],
      recheck: { unchanged: [], changed: [change], unavailable: [], at: seconds(700) },
      approvals: [{ state: 'invalidated', invalidation: { cause: { kind: 'facts-changed' } } }],
    });
    expect(checkpoint.safeParse(then(runId)).success).toBe(true);
    const statuses = [runId, other].map((id) => present(view(id)!, seconds(701)).status);
    expect(statuses).toEqual(['needs-attention', 'approved']);
  });
});
