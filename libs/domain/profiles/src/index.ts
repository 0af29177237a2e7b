export { catalogue, isPreferenceKey } from './catalogue.js';
export { profileEvents } from './events.js';
export type { ProfileEvent } from './events.js';
export { profile, profileRefusals, profileStream } from './profile.js';
export type { Preference, ProfileCommand, ProfileRefusal, ProfileState } from './profile.js';
