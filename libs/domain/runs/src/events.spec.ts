import { unmarkedFields } from '#libs/decider';
import { runEvents } from './events.js';

describe('stored run events', () => {
  it.each(Object.entries(runEvents))('%s marks every text as personal or plain', (_type, schema) => {
    expect(unmarkedFields(schema)).toEqual([]);
  });
});
