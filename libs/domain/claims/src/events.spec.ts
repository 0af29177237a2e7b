import { unmarkedFields } from '#libs/decider';
import { claimEvents } from './events.js';

describe('stored claim events', () => {
  it.each(Object.entries(claimEvents))('%s marks every text as personal or plain', (_type, schema) => {
    expect(unmarkedFields(schema)).toEqual([]);
  });
});
