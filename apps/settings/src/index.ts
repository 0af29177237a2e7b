export { BadSetting, Config, settings } from './config.js';
