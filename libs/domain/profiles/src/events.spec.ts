import { personalFields, unmarkedFields } from '#libs/decider';
import { profileEvents } from './events.js';

describe('stored profile events', () => {
  it.each(Object.entries(profileEvents))('%s marks every text as personal or plain', (_type, schema) => {
    expect(unmarkedFields(schema)).toEqual([]);
  });

  it('seal every value with the preference key', () => {
    const sealed = Object.entries(profileEvents).flatMap(([type, schema]) =>
      personalFields(schema).map(({ path, kind }) => `${type}.${path.join('.')}: ${kind}`),
    );
    expect(sealed).toEqual(['PreferenceProposed.value: preference', 'PreferenceSet.value: preference']);
  });
});
