export { ApiClient, Refused } from './api-client.js';
export { claim, openDataFolder, readRunning } from './data-folder.js';
export type { Running } from './data-folder.js';
export { launch, launchServer } from './launch.js';
export type { Launched } from './launch.js';
export { tokenIssuer } from './token.js';
