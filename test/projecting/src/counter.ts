import { personal, plain } from '#libs/decider';
import { type Projection, type Recorded, defineProjection } from '#libs/projecting';
import { z } from 'zod';
import type { RawEvent } from './stores.js';

export type CounterEvent =
  | { type: 'CounterOpened'; data: { customerId: string; note: string } }
  | { type: 'CounterRaised'; data: { by: number } }
  | { type: 'CounterSeen'; data: Record<string, never> };

const counterDocument = z.strictObject({
  customerId: plain(z.string()),
  note: personal('run', z.string()),
  total: z.int(),
  raised: z.int(),
});
export type Counter = z.infer<typeof counterDocument>;

export const OWNER = '3f1a4c1e-0b55-4f0e-9a55-0a7d5a1f0001';

/** A projection that would show every event applied twice, out of order or not at all. */
export function counterProjection(
  name: string,
  category: string,
  onRaised: (event: Recorded<CounterEvent>) => void = () => undefined,
): Projection<Counter> {
  return defineProjection<Counter, CounterEvent>({
    name,
    version: 1,
    category,
    document: counterDocument,
    indexes: [],
    customerOf: (doc) => doc.customerId,
    search: { note: (doc) => doc.note },
    fold: {
      CounterOpened: { begins: ({ data }) => ({ ...data, total: 0, raised: 0 }) },
      CounterRaised: (doc, event) => {
        onRaised(event);
        return { ...doc, total: doc.total * 3 + event.data.by, raised: doc.raised + 1 };
      },
      CounterSeen: 'pass',
    },
  });
}

export const opened = (note = 'a note'): RawEvent => ({
  type: 'CounterOpened',
  data: { customerId: OWNER, note },
});
export const raised = (by: number): RawEvent => ({ type: 'CounterRaised', data: { by } });
export const seen: RawEvent = { type: 'CounterSeen', data: {} };

/** What a counter must stand at, reckoned without any projection. */
export function reckon(events: readonly RawEvent[]): { total: number; raised: number } {
  const raises = events.filter(({ type }) => type === 'CounterRaised').map(({ data }) => Number(data['by']));
  return { total: raises.reduce((total, by) => total * 3 + by, 0), raised: raises.length };
}
