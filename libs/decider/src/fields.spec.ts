import { z } from 'zod';
import { money, personal, personalFields, plain, unmarkedFields } from './index.js';

const stored = z.strictObject({
  runId: plain(z.uuid()),
  status: z.enum(['a', 'b']),
  note: personal('run', z.string()).optional(),
  input: personal('run', z.json()).optional(),
  people: z.array(z.strictObject({ name: personal('claim', z.string()), age: z.number() })),
  amount: money,
});

describe('field marks', () => {
  it('finds the personal fields with their kinds', () => {
    expect(personalFields(stored)).toEqual([
      { path: ['note'], kind: 'run' },
      { path: ['input'], kind: 'run' },
      { path: ['people', '*', 'name'], kind: 'claim' },
    ]);
  });

  it('accepts a schema in which every text is marked', () => {
    expect(unmarkedFields(stored)).toEqual([]);
  });

  it('names a text that is marked neither personal nor plain', () => {
    const bad = stored.extend({ street: z.string().optional(), tags: z.array(z.string()), any: z.json() });
    expect(unmarkedFields(bad)).toEqual([['street'], ['tags', '*'], ['any']]);
  });
});
