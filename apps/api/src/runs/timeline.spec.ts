import type { StoredEvent } from '#libs/event-store';
import { entryOf } from './timeline.js';

const event = (type: string, data: object, metadata: object) =>
  ({ type, data, metadata, revision: 7n }) as unknown as StoredEvent;

describe('an entry of the timeline', () => {
  it('J8: is made of an event that is not as it should be, too', () => {
    const invalidated = event('ApprovalInvalidated', { cause: { kind: 'facts-changed' } }, {});
    expect(entryOf(invalidated)).toEqual({
      revision: '7',
      at: '',
      type: 'ApprovalInvalidated',
      by: '',
      text: 'ApprovalInvalidated',
    });
    const unknown = event('RunBurnt', {}, { recordedAt: '2026-03-14T10:00:00.000Z', actor: { sub: 'x' } });
    expect(entryOf(unknown)).toMatchObject({ by: 'x', text: 'RunBurnt' });
  });
});
