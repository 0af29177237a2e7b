export { BadSetting, Config, settings } from './config.js';
export { configurationPage } from './configuration-page.js';
export type { Webhook } from './config.js';
export { databases, StoreUsers } from './store-users.js';
